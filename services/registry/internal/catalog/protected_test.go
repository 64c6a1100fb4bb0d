package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
)

// Protected and missing datasets are reported alike: results derived from either must not become public.
func TestFindProtected(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.dataset("plain", "team", false, dataset.StateReady)
	d.dataset("secret", "all", true, dataset.StateReady)
	got, err := d.FindProtected(t.Context(), &registrypeerv1.FindProtectedRequest{Refs: []string{
		"ds/team/plain@v1", "ds/team/plain@another", "ds/team/secret@v1", "ds/other/plain@v1", "ds/team/gone@v1", "mdl/team/plain@1", "nonsense", "",
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"ds/team/secret@v1", "ds/other/plain@v1", "ds/team/gone@v1", "mdl/team/plain@1", "nonsense", ""}, got.GetRefs())
	got, err = d.FindProtected(t.Context(), &registrypeerv1.FindProtectedRequest{})
	require.NoError(t, err)
	require.Empty(t, got.GetRefs())
}
