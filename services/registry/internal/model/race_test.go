package model

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// version returns a new version whose digest is derived from sum.
func version(id, sum string) *Version {
	return &Version{
		ID: id, ModelID: "mdl_1", Status: StatusReady, Lifecycle: lifecycleCandidate, Format: FormatGGUF, Digest: "sha256:" + strings.Repeat(sum, 64),
		Size: 1, URI: "u", File: "m.gguf", Facts: []byte(`{}`), CreatedAt: sums().CreatedAt,
	}
}

// registerTwice inserts the first version, and starts the insertion of the second one before the first is committed.
func (b *harness) registerTwice(first, second *Version) (kept *Version, fresh bool) {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(b.t.Context())) }()
	_, fresh, err = b.InsertVersion(b.t.Context(), tx, first)
	require.NoError(b.t, err)
	require.True(b.t, fresh)
	done := make(chan error, 1)
	go func() {
		done <- b.tx(func(ctx context.Context, tx pgx.Tx) (err error) {
			kept, fresh, err = b.InsertVersion(ctx, tx, second)
			return err
		})
	}()
	require.Eventually(b.t, func() bool {
		var waits bool
		require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) > 0 FROM pg_locks WHERE NOT granted
			AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&waits))
		return waits
	}, 2*time.Minute, time.Millisecond, "the second registration waits for the first")
	require.NoError(b.t, tx.Commit(b.t.Context()))
	require.NoError(b.t, <-done)
	return kept, fresh
}

func TestModelStore_InsertVersion_concurrentSameDigest(t *testing.T) {
	t.Parallel()
	b := open(t)
	kept, fresh := b.registerTwice(version("mv_1", "a"), version("mv_2", "a"))
	require.False(t, fresh)
	require.Equal(t, "mv_1", kept.ID)
}

func TestModelStore_InsertVersion_concurrentNumbers(t *testing.T) {
	t.Parallel()
	b := open(t)
	kept, fresh := b.registerTwice(version("mv_1", "a"), version("mv_2", "b"))
	require.True(t, fresh)
	require.EqualValues(t, 2, kept.Number)
}
