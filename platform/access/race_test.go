package access_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
)

// waiting reports whether a transaction waits for a lock.
func (b *harness) waiting() bool {
	var n int
	err := b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database
		WHERE datname = current_database())`).Scan(&n)
	return err == nil && n > 0
}

// begin starts a transaction that is rolled back at the end of the test.
func (b *harness) begin() pgx.Tx {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(b.t.Context())) })
	return tx
}

// Set cannot see a row whose insert is not committed yet, and this row may have the old visibility. Set therefore waits
// for the commit.
func TestVisibilityRows_Set_waitsForUncommittedRow(t *testing.T) {
	t.Parallel()
	b := open(t)
	tx := b.begin()
	b.store(tx, "a", "prj_1", "all", 0)
	done := make(chan error, 1)
	go func() {
		_, err := b.Set(t.Context(), access.VisibilityChange{ProjectID: "prj_1", Visibility: "team", Version: 1})
		done <- err
	}()
	require.Eventually(t, b.waiting, time.Minute, time.Millisecond, "Set waits until the insert of the row is committed")
	require.Empty(t, done)
	require.EqualValues(t, 1, b.set("prj_2", "team", 1), "other projects do not wait")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	require.Equal(t, 2, b.have("prj_1", "team", 1))
}

// An insert of a row during a change waits until the change is committed. The row then gets the new visibility.
func TestVisibilityRows_Set_rowInsertedMeanwhileGetsNewVisibility(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.store(nil, "there", "prj_1", "all", 0)
	within, left := make(chan struct{}), make(chan struct{})
	leave := sync.OnceFunc(func() { close(left) })
	defer leave()
	b.Changed = func(context.Context, pgx.Tx, map[string][]string) error {
		close(within)
		<-left
		return nil
	}
	done := make(chan error, 2)
	go func() {
		_, err := b.Set(t.Context(), access.VisibilityChange{ProjectID: "prj_1", Visibility: "team", Version: 1})
		done <- err
	}()
	<-within
	go func() {
		_, err := b.pool.Exec(t.Context(), `INSERT INTO job (id, project_id, visibility) VALUES ('new', 'prj_1', 'all')`)
		done <- err
	}()
	require.Eventually(t, b.waiting, time.Minute, time.Millisecond, "the insert waits for the change")
	leave()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Equal(t, 3, b.have("prj_1", "team", 1))
}

// Rows are inserted while the visibility of the project changes repeatedly. In the end all rows have the newest
// version.
func TestVisibilityRows_Set_concurrentChangesAndInserts(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.Batch = 3
	const changes, makers, each = 20, 4, 25
	b.Changed = nil
	seen := func(version int64) string { return []string{"all", "team"}[version%2] }
	var now atomic.Int64 // the current version of the project's visibility
	var wg sync.WaitGroup
	for m := range makers {
		wg.Go(func() {
			for n := range each {
				version := now.Load()
				_, err := b.pool.Exec(t.Context(), `WITH j AS (INSERT INTO job (id, project_id, visibility, visibility_version)
					VALUES ($1, 'prj_1', $2, $3)) INSERT INTO run (id, project_id, visibility, visibility_version)
					VALUES ($1, 'prj_1', $2, $3)`, fmt.Sprintf("%d_%d", m, n), seen(version), version)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range changes {
		version := now.Add(1)
		for range 2 { // each change is sent twice
			wg.Go(func() {
				if _, err := b.Set(t.Context(), access.VisibilityChange{ProjectID: "prj_1", Visibility: seen(version), Version: version}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	require.Equal(t, 2*makers*each, b.have("prj_1", seen(changes), changes))
}
