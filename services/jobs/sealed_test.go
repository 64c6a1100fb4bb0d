package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// The columns exist, and the service's role may read and write them.
func TestJobsSealedColumnsExist(t *testing.T) {
	t.Parallel()
	files := jobs.Migrations()
	ring, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: jobs.Name, Migrations: files}).Pool(jobs.Name)
	moved, err := pg.Reseal(t.Context(), pool, ring, (&jobs.Service{}).Sealed()...)
	require.NoError(t, err)
	require.Zero(t, moved)
}
