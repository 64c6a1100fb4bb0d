package job_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// A run gets the new name of its job, but keeps a name of its own if something else of the job changes.
func TestStore_SaveFacts_nameOfRun(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert(t)
	save := func() (name string, version int) {
		b.tx(t, func(ctx context.Context, tx pgx.Tx) error { return b.store.SaveFacts(ctx, tx, j) })
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT name, version FROM run WHERE id = $1`, j.RunID).Scan(&name, &version))
		return name, version
	}
	requireName := func(want string, at int) {
		name, version := save()
		require.Equal(t, want, name)
		require.Equal(t, at, version)
	}
	requireName("n", 1)
	_, err := b.pool.Exec(t.Context(), `UPDATE run SET name = 'own', version = 2 WHERE id = $1`, j.RunID)
	require.NoError(t, err)
	j.Labels = map[string]string{"c": "d"}
	requireName("own", 2)
	j.Name = "renamed"
	requireName("renamed", 3)
	var labels job.Job
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT labels FROM run WHERE id = $1`, j.RunID).Scan(&labels.Labels))
	require.Equal(t, j.Labels, labels.Labels, "the run must have the labels of its job")
}
