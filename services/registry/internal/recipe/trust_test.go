package recipe

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

func (d *harness) trust(version, digest string, trusted bool) (*registryv1.Recipe, error) {
	d.t.Helper()
	ctx := administrator(d.t)
	return d.TrustRecipe(ctx, &registryv1.TrustRecipeRequest{Namespace: "sft", Name: "tiny", Version: version, Digest: digest, Trusted: &trusted})
}

// own marks a version as one that no binary of the installation contains.
func (d *harness) own(ctx context.Context, version string) {
	d.t.Helper()
	_, err := d.Pool.Exec(ctx, `UPDATE recipe SET shipped = false WHERE version = $1`, version)
	require.NoError(d.t, err)
}

func TestTrustRecipe(t *testing.T) {
	t.Parallel()
	d := open(t, catalog())
	d.ship(catalog())
	get := func() *registryv1.Recipe {
		got, err := d.GetRecipeVersion(someone(t), &registryv1.GetRecipeVersionRequest{Namespace: "sft", Name: "tiny", Version: "1.0"})
		require.NoError(t, err)
		return got
	}
	shipped := get()
	require.True(t, shipped.GetTrusted(), "a version that the installation ships is trusted")
	d.own(t.Context(), "1.0")
	require.False(t, get().GetTrusted())

	_, err := d.trust("1.0", "sha256:another", true)
	require.True(t, fault.HasCode(err, "recipe_digest") && fault.Is(err, fault.Conflict), "%v", err)
	_, err = d.trust("9", shipped.GetDigest(), true)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	require.False(t, get().GetTrusted())

	for _, trusted := range []bool{true, false, true} {
		got, err := d.trust("1.0", shipped.GetDigest(), trusted)
		require.NoError(t, err)
		require.Equal(t, trusted, got.GetTrusted())
		require.Equal(t, trusted, get().GetTrusted())
	}
	rows, err := audit.List(t.Context(), d.Pool, audit.Filter{}, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 3)
	require.Equal(t, []string{"recipe.trust", "sft/tiny@1.0"}, []string{rows[0].Action, rows[0].TargetID})

	_, err = d.Pool.Exec(t.Context(), `UPDATE recipe SET digest = 'sha256:other' WHERE version = '1.0'`)
	require.NoError(t, err)
	require.False(t, get().GetTrusted(), "other content is not trusted")

	d.ship(catalog())
	require.True(t, get().GetTrusted(), "a version that a later binary ships is trusted")
}

func TestVersion_Trusted_customNever(t *testing.T) {
	t.Parallel()
	digest := "sha256:1"
	v := &Version{Manifest: Manifest{Name: "custom/custom"}, Digest: digest, Shipped: true, TrustedDigest: &digest}
	require.False(t, v.Trusted())
	v.Name = "sft/tiny"
	require.True(t, v.Trusted())
	d := open(t, catalog())
	d.ship(catalog())
	_, err := d.Pool.Exec(t.Context(), `UPDATE recipe SET name = 'custom/custom' WHERE name = 'sft/tiny'`)
	require.NoError(t, err)
	trusted := true
	_, err = d.TrustRecipe(administrator(t), &registryv1.TrustRecipeRequest{Namespace: "custom", Name: "custom", Version: "1.0", Digest: "x", Trusted: &trusted})
	require.True(t, fault.HasCode(err, "recipe_untrusted"), "%v", err)
}
