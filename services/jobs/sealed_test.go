package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/rewrap"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

// The columns exist, and the service's role may read and write them.
func TestJobsSealedColumnsExist(t *testing.T) {
	t.Parallel()
	files := jobs.Migrations()
	ring, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: jobs.Name, Migrations: files}).Pool(jobs.Name)
	moved, err := rewrap.Run(t.Context(), pool, ring, (&jobs.Service{}).Sealed()...)
	require.NoError(t, err)
	require.Zero(t, moved)
}
