package recipe

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
)

// The content with a given digest is read once. Everything else about a version is read each time.
func TestListRecipes_readsContentOncePerDigest(t *testing.T) {
	t.Parallel()
	d := open(t, catalog())
	d.ship(catalog())
	tiny := func() *registryv1.Recipe {
		got, err := d.ListRecipes(someone(t), &registryv1.ListRecipesRequest{})
		require.NoError(t, err)
		for _, r := range got.GetRecipes() {
			if r.GetName() == "sft/tiny" {
				return r
			}
		}
		require.Fail(t, "the list lacks sft/tiny")
		return nil
	}
	exec := func(sql string, args ...any) {
		_, err := d.Pool.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	before := tiny()
	require.True(t, before.GetTrusted())
	const renamed = `UPDATE recipe SET manifest = jsonb_set(manifest::jsonb, '{title}', to_jsonb($1::text))::text WHERE name = 'sft/tiny'`
	exec(renamed, "not read")
	require.Equal(t, before.GetTitle(), tiny().GetTitle())
	exec(`UPDATE recipe SET state = 'withdrawn', shipped = false WHERE name = 'sft/tiny'`)
	after := tiny()
	require.Equal(t, "withdrawn", after.GetState())
	require.False(t, after.GetTrusted())
	_, err := d.trust("1.0", before.GetDigest(), true)
	require.NoError(t, err)
	require.True(t, tiny().GetTrusted())
	exec(`UPDATE recipe SET digest = 'sha256:next' WHERE name = 'sft/tiny'`)
	require.Equal(t, "not read", tiny().GetTitle(), "the new digest has its own content")
	require.False(t, tiny().GetTrusted())
	exec(renamed, "again not read")
	require.Equal(t, "not read", tiny().GetTitle())
}

func TestContents_keep_bounded(t *testing.T) {
	t.Parallel()
	var c Contents
	for i := range 2 * maxContents {
		c.keep(contents{fmt.Sprint(i): {requirements: fmt.Sprint(i)}})
		require.LessOrEqual(t, len(c.known()), maxContents)
		require.Equal(t, fmt.Sprint(i), c.known()[fmt.Sprint(i)].requirements, "the content that was read last must be kept")
	}
	many := contents{}
	for i := range maxContents + 1 {
		many[fmt.Sprint(i)] = content{}
	}
	kept := c.known()
	c.keep(many)
	require.Equal(t, kept, c.known(), "a list with more than maxContents contents must not change what is kept")
}
