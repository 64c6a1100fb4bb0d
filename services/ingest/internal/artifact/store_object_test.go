package artifact

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// heldKeys records the keys that are held.
type heldKeys []string

// Extend implements Holder.
func (h *heldKeys) Extend(_ context.Context, key string) (bool, error) {
	return slices.Contains(*h, key), nil
}

// Hold implements Holder.
func (h *heldKeys) Hold(_ context.Context, _, key, given string, _ int64) (string, error) {
	*h = append(*h, key)
	return given, nil
}

// addRun inserts the row of run_1.
func addRun(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at)
		VALUES ('run_1', 'job', 'usr', 'prj', 'team', 'team', now())`)
	require.NoError(t, err)
}

func TestUnusedObjects_neitherRegisteredNorHeld(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files}).Pool("ingest")
	addRun(t, pool)
	const dir = "runs/run_1/1/checkpoint/sha/"
	_, err = pool.Exec(t.Context(), `INSERT INTO artifact (id, run_id, attempt, kind, format, path, size_bytes, created_at)
		VALUES ('art_1', 'run_1', 1, 'checkpoint', '', 'blob://' || $1::text, 1, now()), ('art_2', 'run_2', 1, 'checkpoint', '', 'blob://' || $2::text, 1, now())`,
		dir+"registered", dir+"other")
	require.NoError(t, err)
	holds := &Holds{Pool: pool, For: time.Hour, Quota: &groupcommit.Quota{}}
	for _, name := range []string{"held", "held", "ended"} {
		_, err = holds.Hold(t.Context(), "run_1", dir+name, name, 1)
		require.NoError(t, err)
	}
	_, err = pool.Exec(t.Context(), `UPDATE object_hold SET held_until = now() - interval '2 days' WHERE key LIKE '%ended'`)
	require.NoError(t, err)
	unused, err := UnusedObjects(t.Context(), pool, []string{dir + "registered", dir + "held", dir + "ended", dir + "other"})
	require.NoError(t, err)
	require.Equal(t, []string{dir + "ended", dir + "other"}, unused)

	n, err := holds.DeleteBefore(t.Context(), time.Now().Add(-24*time.Hour), 10)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), LockObjectsSQL)
	require.NoError(t, err)
	var held bool
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT NOT pg_try_advisory_lock_shared(hashtextextended('ingest objects', 0))`).Scan(&held))
	require.True(t, held, "the sweep and the trigger use the same lock")
}
