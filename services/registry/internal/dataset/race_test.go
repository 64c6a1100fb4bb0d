package dataset_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func TestStore_Commit_concurrentSecondChangesNothing(t *testing.T) {
	t.Parallel()
	pool, s := open(t), dataset.Store{}
	v := &dataset.Version{
		ID: "dsv_1", DatasetID: "ds_1", Version: "1.0", State: dataset.StateUploading, Digest: "sha256:x", Manifest: []dataset.File{}, CreatedAt: fixtures.Now(),
	}
	require.NoError(t, inTx(t, pool, func(tx pgx.Tx) error {
		if err := s.Insert(t.Context(), tx, sums("ds_1", "team", "team")); err != nil {
			return err
		}
		_, err := s.InsertVersion(t.Context(), tx, v)
		return err
	}))
	early, late := fixtures.Now().Add(time.Minute), fixtures.Now().Add(time.Hour)
	first, second := *v, *v
	first.CommittedAt, second.CommittedAt = &early, &late
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	done, err := s.Commit(t.Context(), tx, &first)
	require.NoError(t, err)
	require.True(t, done)
	finished := make(chan error, 1)
	go func() {
		finished <- pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) (err error) {
			done, err = s.Commit(ctx, tx, &second)
			return err
		})
	}()
	awaitWaiter(t, pool) // the second commit
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-finished)
	require.False(t, done)
	kept, err := s.Version(t.Context(), pool, "ds_1", "1.0")
	require.NoError(t, err)
	require.True(t, early.Equal(*kept.CommittedAt), "a ready version never changes, including its commit time")
}

// awaitWaiter waits until a transaction of the test's database waits for a lock.
func awaitWaiter(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		var waits bool
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_locks WHERE NOT granted
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&waits))
		return waits
	}, 2*time.Minute, time.Millisecond)
}
