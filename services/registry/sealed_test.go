package registry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// pg.Reseal fails if a column is missing or the service's role lacks access to it.
func TestRegistrySealedColumnsExist(t *testing.T) {
	t.Parallel()
	files, err := registry.Migrations()
	require.NoError(t, err)
	ring, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: registry.Name, Migrations: files}).Pool(registry.Name)
	moved, err := pg.Reseal(t.Context(), pool, ring, (&registry.Service{}).Sealed()...)
	require.NoError(t, err)
	require.Zero(t, moved)
}
