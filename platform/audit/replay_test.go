package audit_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

func TestRestore_Settle_revokesWhatTheBackupLacks(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tokens("before", "after", "never")
	r := h.start()
	h.revoke("before")
	require.NoError(t, r.Settle(t.Context()))
	h.revoke("after")
	require.NoError(t, r.RunOnce(t.Context()))
	require.NoError(t, r.Close())
	// Simulate a backup that was made before the token "after" was revoked. The token "before" was revoked and made
	// valid again before the backup: its revocation is in the backup and must not be repeated.
	h.tamper(t, `UPDATE token SET revoked_at = NULL`)
	h.tamper(t, `DELETE FROM revocation WHERE seq <> 1`)
	h.tamper(t, `ALTER TABLE revocation ALTER seq RESTART WITH 2`)
	r = h.open(0)
	require.ErrorIs(t, r.Resume(t.Context()), audit.ErrRestored)
	require.Equal(t, audit.Restored{Replayed: 1, Revoked: 1}, h.settle(false))
	require.Equal(t, []string{"before", "never"}, h.live())
	require.Equal(t, audit.Restored{}, h.settle(false), "a second run has nothing to do")
	require.NoError(t, r.Resume(t.Context()))
	h.revoke("never")
	require.NoError(t, r.Settle(t.Context()))
	require.Contains(t, h.journaled(), "never", "numbers of the journal are not used again")

	var audited int
	require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'installation.restored'`).Scan(&audited))
	require.Equal(t, 2, audited)
	h.tokens("other")
	h.settle(true)
	require.Empty(t, h.live())
}

func TestRestore_Settle_skipsUndoneRevocations(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tokens("a", "b")
	at := time.Now()
	j := audit.Journal{Revocations: []audit.Revocation{
		{Seq: 1, Kind: "user", Subject: "a", At: at}, {Seq: 2, Kind: "user", Subject: "b", At: at}, {Seq: 3, Kind: "user_enabled", Subject: "a", At: at},
	}}
	require.NoError(t, pg.InTx(t.Context(), h.owner, func(ctx context.Context, tx pgx.Tx) error {
		done, err := audit.Restore{Journal: j, Audit: h.log}.Settle(ctx, tx)
		require.Equal(t, audit.Restored{Replayed: 3, Revoked: 1}, done)
		return err
	}))
	require.Equal(t, []string{"a"}, h.live())
}

// A journal that is kept forever contains revocations that the database has deleted. The user a was enabled again before
// the backup, so an old revocation must not be repeated.
func TestRestore_Settle_skipsWhatIsOlderThanBackup(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tokens("a", "b", "c")
	backup := time.Now()
	j := audit.Journal{Revocations: []audit.Revocation{
		{Seq: 1, Kind: "token", Subject: "a", At: backup.Add(-2 * time.Hour)},
		{Seq: 2, Kind: "token", Subject: "b", At: backup.Add(-time.Minute)}, // in a transaction that committed after the backup
		{Seq: 3, Kind: "token", Subject: "c", At: backup.Add(time.Hour)},
	}}
	require.NoError(t, pg.InTx(t.Context(), h.owner, func(ctx context.Context, tx pgx.Tx) error {
		done, err := audit.Restore{Journal: j, Backup: backup, Audit: h.log}.Settle(ctx, tx)
		require.Equal(t, audit.Restored{Replayed: 2, Revoked: 2}, done)
		return err
	}))
	require.Equal(t, []string{"a"}, h.live())
}

// The database was dumped by a server with more transactions than this one.
func TestRestore_Settle_replacesTransactionsOfOtherServer(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tamper(t, `INSERT INTO revocation (made_in, kind, subject) VALUES ('9000000000000', 'token', 'a'), ('3', 'token', 'b')`)
	h.settle(false)
	var later, unchanged int
	require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE made_in >= pg_snapshot_xmax(pg_current_snapshot())),
		count(*) FILTER (WHERE made_in = '3') FROM revocation`).Scan(&later, &unchanged))
	require.Zero(t, later)
	require.Equal(t, 1, unchanged)
	require.NoError(t, h.start().Settle(t.Context()))
	require.ElementsMatch(t, []string{"a", "b"}, h.journaled())
}

// Settle writes to the schema, but these changes are not in the backup.
func TestReadLastWrite_ignoresSettle(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tamper(t, `UPDATE continuity SET journaled_at = '2026-11-01Z'`)
	h.tokens("a")
	backup, err := audit.ReadLastWrite(t.Context(), h.pool)
	require.NoError(t, err)
	for range 2 {
		h.settle(true)
		again, err := audit.ReadLastWrite(t.Context(), h.pool)
		require.NoError(t, err)
		require.Equal(t, backup, again)
	}
	require.NoError(t, h.start().Close())
	used, err := audit.ReadLastWrite(t.Context(), h.pool)
	require.NoError(t, err)
	require.True(t, used.At.After(backup.At), "the service has used the database since")
}

func TestJournal_Gap(t *testing.T) {
	t.Parallel()
	at := func(hour int) time.Time { return time.Date(2026, 11, 23, hour, 0, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		spans   []audit.Span
		stopped time.Time
		gap     string
	}{
		"original":               {spans: []audit.Span{{From: at(1), To: at(9)}}},
		"no journal":             {gap: "there is no journal"},
		"began later":            {spans: []audit.Span{{From: at(6), To: at(9)}}, gap: "no journal covers the time from 2026-11-23T05:00:00Z to 2026-11-23T06:00:00Z"},
		"copy":                   {spans: []audit.Span{{From: at(1), To: at(9), Copied: true}}, gap: "--stopped-at"},
		"copy up to the end":     {spans: []audit.Span{{From: at(1), To: at(9), Copied: true}}, stopped: at(9)},
		"old copy":               {spans: []audit.Span{{From: at(1), To: at(9), Copied: true}}, stopped: at(10), gap: "the journal ends at 2026-11-23T09:00:00Z"},
		"hole":                   {spans: []audit.Span{{From: at(7), To: at(9)}, {From: at(1), To: at(6)}}, gap: "from 2026-11-23T06:00:00Z to 2026-11-23T07:00:00Z"},
		"two replicas":           {spans: []audit.Span{{From: at(6), To: at(9)}, {From: at(1), To: at(6)}}},
		"original, then stopped": {spans: []audit.Span{{From: at(1), To: at(9)}}, stopped: at(9)},
		"original that was left behind": {
			spans: []audit.Span{{From: at(1), To: at(4)}},
			gap:   "the newest journal ends at 2026-11-23T04:00:00Z, but the backup contains changes up to 2026-11-23T05:00:00Z",
		},
		"original that was left behind after the backup": {
			spans: []audit.Span{{From: at(1), To: at(6)}}, stopped: at(9), gap: "the journal ends at 2026-11-23T06:00:00Z",
		},
		"copy of the later journal": {
			spans: []audit.Span{{From: at(1), To: at(4)}, {From: at(1), To: at(9), Copied: true}}, gap: "the journal is a copy that ends at 2026-11-23T09:00:00Z",
		},
		"complete copy of the later journal": {spans: []audit.Span{{From: at(1), To: at(4)}, {From: at(1), To: at(9), Copied: true}}, stopped: at(9)},
		"last stamp before the backup":       {spans: []audit.Span{{From: at(1), To: at(5).Add(-5 * time.Second)}}},
	} {
		gap := audit.Journal{Spans: c.spans}.Gap(at(5), c.stopped)
		require.Contains(t, gap, c.gap, name)
		require.Equal(t, c.gap == "", gap == "", "%s: %s", name, gap)
	}
}

func TestReadJournals_copyIsRecognized(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	require.NoError(t, h.start().Close())
	j, err := audit.ReadJournals("jobs", h.dir)
	require.NoError(t, err)
	require.Len(t, j.Spans, 1)
	require.False(t, j.Spans[0].Copied)
	copied := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(copied, "revocations"), os.DirFS(filepath.Join(h.dir, "revocations"))))
	j, err = audit.ReadJournals("jobs", copied)
	require.NoError(t, err)
	require.Len(t, j.Spans, 1)
	require.True(t, j.Spans[0].Copied)
	last, err := audit.ReadLastWrite(t.Context(), h.pool)
	require.NoError(t, err)
	require.Empty(t, audit.Journal{Spans: []audit.Span{{From: last.At, To: last.At}}}.Gap(last.At, time.Time{}))
}
