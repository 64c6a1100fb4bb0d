package audit_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/audit"
)

func TestSealer_sealsInCommitOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.sealer(t)
	// A row that is inserted first and committed last must not be skipped.
	slow, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.log.Record(t.Context(), slow, audit.Entry{Action: "slow", TargetKind: "k", TargetID: "i"}))
	b.record(t.Context(), t, audit.Entry{Action: "fast", TargetKind: "k", TargetID: "i"})
	n, err := s.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, slow.Commit(t.Context()))
	n, err = s.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = s.RunOnce(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)

	report, err := audit.Verify(t.Context(), b.pool, b.trust(t))
	require.NoError(t, err)
	require.Equal(t, audit.Report{Service: "jobs", Sealed: 2, Heads: 4}, report, "Heads counts each of the two heads twice: in the database and outside it")
}

func TestSealer_concurrentSealersMakeOneChain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	group, ctx := errgroup.WithContext(t.Context())
	done := make(chan struct{})
	for range 3 {
		s := b.sealer(t)
		group.Go(func() error {
			for {
				if _, err := s.RunOnce(ctx); err != nil {
					return err
				}
				select {
				case <-done:
					return nil
				default:
				}
			}
		})
	}
	for i := range 40 {
		b.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i", After: i})
	}
	close(done)
	require.NoError(t, group.Wait())
	_, err := b.sealer(t).RunOnce(t.Context())
	require.NoError(t, err)
	report, err := audit.Verify(t.Context(), b.pool, b.trust(t))
	require.NoError(t, err)
	require.Nil(t, report.Broken())
	require.EqualValues(t, 40, report.Sealed)
}

func TestSealer_Run_multipleBatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	entries := make([]audit.Entry, 1203)
	for i := range entries {
		entries[i] = audit.Entry{Action: "a", TargetKind: "k", TargetID: "i", After: i}
	}
	b.record(t.Context(), t, entries...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.sealer(t).Run(ctx) }()
	require.Eventually(t, func() bool {
		report, err := audit.Verify(t.Context(), b.pool, b.trust(t))
		require.NoError(t, err)
		require.Nil(t, report.Broken(), "the log is intact while rows are pending")
		return report.Sealed == 1203 && report.Pending == 0
	}, time.Minute, 20*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}

type failing struct{ err error }

func (f *failing) Put(context.Context, ...audit.Checkpoint) error { return f.err }

func (*failing) Last(context.Context) (int64, error) { return 0, nil }

func TestSealer_retriesFailedKeep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"})
	s, err := audit.NewSealer(audit.SealerConfig{
		Service: "jobs", Pool: b.pool, Clock: b.clock, Log: slog.New(slog.DiscardHandler), Key: b.key, KeyID: keyID,
		Heads: &failing{errors.New("disk full")},
	})
	require.NoError(t, err)
	_, err = s.RunOnce(t.Context())
	require.ErrorContains(t, err, "disk full")
	require.Empty(t, b.trust(t).Outside)
	n, err := b.sealer(t).RunOnce(t.Context()) // after a restart
	require.NoError(t, err)
	require.Zero(t, n)
	require.Len(t, b.trust(t).Outside, 1)
}

func TestFile_Checkpoints_skipsTruncatedLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "heads.jsonl")
	file := audit.NewFile(path)
	require.NoError(t, file.Put(t.Context(), audit.Checkpoint{Service: "jobs", Position: 1}))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("\n{\"service\":\"jo")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, file.Put(t.Context(), audit.Checkpoint{Service: "jobs", Position: 2}))
	heads, err := file.Checkpoints()
	require.NoError(t, err)
	require.Len(t, heads, 2)
	require.EqualValues(t, 2, heads[1].Position)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestNewSealer_incompleteConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []audit.SealerConfig{
		{},
		{Service: "jobs", KeyID: "k", Key: ed25519.PrivateKey("short"), Heads: &failing{}},
		{Service: "jobs", Key: make(ed25519.PrivateKey, ed25519.PrivateKeySize), Heads: &failing{}},
		{Service: "jobs", Key: make(ed25519.PrivateKey, ed25519.PrivateKeySize), KeyID: "k"},
	} {
		_, err := audit.NewSealer(cfg)
		require.Error(t, err)
	}
}

// The server's database role can insert pending entries and heads. Forged entries do not block the sealer, and forged
// heads are not stored outside the database.
func TestSealer_ignoresForgedRows(t *testing.T) {
	t.Parallel()
	b := filled(t, 1)
	for _, sql := range []string{
		`INSERT INTO audit_pending SELECT 0, audit_id FROM audit_seal WHERE position = 3`,
		`INSERT INTO audit_checkpoint SELECT 9000, 8999, hash, at, key_id, signature FROM audit_checkpoint`,
	} {
		_, err := b.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	s := b.sealer(t)
	for range 2 {
		_, err := s.RunOnce(t.Context())
		require.NoError(t, err)
		b.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"})
	}
	_, err := s.RunOnce(t.Context())
	require.NoError(t, err)
	report, err := audit.Verify(t.Context(), b.pool, b.trust(t))
	require.NoError(t, err)
	require.EqualValues(t, 7, report.Sealed)
	require.Zero(t, report.Pending)
	var kept []int64
	for _, c := range b.trust(t).Outside {
		kept = append(kept, c.Position)
	}
	require.Equal(t, []int64{5, 6, 7}, kept)
	require.NotNil(t, b.tampered(t, b.trust(t)), "the forged head is reported")
}

// A HeadStore that is added later receives the earlier heads and the heads signed by other sealers.
func TestSealer_backfillsNewHeadStore(t *testing.T) {
	t.Parallel()
	b := filled(t, 3)
	first := b.file
	b.file = audit.NewFile(filepath.Join(t.TempDir(), "second.jsonl"))
	second := b.sealer(t)
	require.NotContains(t, b.logged.String(), "copying them", "the first head store existed from the start")
	_, err := second.RunOnce(t.Context())
	require.NoError(t, err)
	later := b.file
	b.file = first
	b.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"})
	_, err = b.sealer(t).RunOnce(t.Context())
	require.NoError(t, err)
	_, err = second.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(b.logged.String(), "copying them"), b.logged.String())
	want, err := first.Checkpoints()
	require.NoError(t, err)
	have, err := later.Checkpoints()
	require.NoError(t, err)
	require.Len(t, have, 4)
	require.Equal(t, want, have)
}
