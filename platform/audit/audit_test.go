package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const keyID = "k1"

// locked is a buffer that concurrent sealers can log to.
type locked struct {
	mu sync.Mutex
	w  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.String()
}

type harness struct {
	pool   *pgxpool.Pool // the server's role
	owner  *pgxpool.Pool // the schema owner's role, for tampering
	clock  *clock.Fake
	log    *audit.Log
	public ed25519.PublicKey
	key    ed25519.PrivateKey
	file   *audit.File
	logged *locked // log output of all sealers
}

func setup(t *testing.T) *harness {
	t.Helper()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"})
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 123456000, time.UTC))
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return &harness{
		pool: db.Pool("jobs"), owner: db.OwnerPool("jobs"), clock: clk, public: public, key: key,
		log:    audit.NewLog(clk, id.NewSource(clk, rand.Reader), "jobs"),
		file:   audit.NewFile(filepath.Join(t.TempDir(), "heads", "jobs.jsonl")),
		logged: &locked{},
	}
}

func (b *harness) sealer(t *testing.T) *audit.Sealer {
	t.Helper()
	s, err := audit.NewSealer(audit.SealerConfig{
		Service: "jobs", Pool: b.pool, Clock: b.clock, Log: slog.New(slog.NewTextHandler(b.logged, nil)), Key: b.key, KeyID: keyID, Heads: b.file,
	})
	require.NoError(t, err)
	return s
}

func (b *harness) trust(t *testing.T) audit.Trust {
	t.Helper()
	outside, err := b.file.Checkpoints()
	require.NoError(t, err)
	return audit.Trust{Service: "jobs", Keys: map[string]ed25519.PublicKey{keyID: b.public}, Outside: outside}
}

func (b *harness) record(ctx context.Context, t *testing.T, entries ...audit.Entry) {
	t.Helper()
	require.NoError(t, pg.InTx(ctx, b.pool, func(ctx context.Context, tx pgx.Tx) error {
		for _, e := range entries {
			if err := b.log.Record(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	}))
}

// filled returns a harness with five sealed rows per round. Each round has a signed head of its own.
func filled(t *testing.T, rounds int) *harness {
	t.Helper()
	b := setup(t)
	s := b.sealer(t)
	for round := range rounds {
		for i := range 5 {
			b.record(t.Context(), t, audit.Entry{
				Action: "job.stop", TargetKind: "job", TargetID: fmt.Sprintf("job_%d_%d", round, i),
				Before: map[string]any{"state": "running"}, After: map[string]any{"state": "stopping", "n": i},
			})
		}
		n, err := s.RunOnce(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, n)
	}
	return b
}

func TestLog_Record_rowContent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	user := authn.NewContext(obs.WithRequestID(t.Context(), "req_1"), &authn.Caller{
		Kind: authn.KindUser, Subject: "usr_1", Username: "ada", SessionID: "ses_1", ClientAddr: "192.0.2.1",
	})
	b.record(user, t, audit.Entry{
		Action: "token.create", TargetKind: "token", TargetID: "tok_1",
		After: struct {
			Name  string
			Token secret.String
		}{"<ci>", secret.New("hunter2")},
	})
	b.clock.Advance(time.Second)
	b.record(t.Context(), t, audit.Entry{Action: "job.reap", TargetKind: "job", TargetID: "job_1", Before: json.RawMessage(`{"a":1}`)})
	b.clock.Advance(time.Second)
	kept := b.log.Actor(user) // a background job stores the actor like this
	b.record(t.Context(), t, audit.Entry{Action: "hardware.set", TargetKind: "config", TargetID: "1", Actor: &kept})

	all, err := audit.List(t.Context(), b.pool, audit.Filter{}, request.Page{Limit: 10})
	require.NoError(t, err)
	ada := audit.Actor{Kind: "user", ID: "usr_1", Name: "ada", SessionID: "ses_1", ClientAddr: "192.0.2.1", RequestID: "req_1"}
	start := b.clock.Now().Add(-2 * time.Second).Truncate(time.Millisecond) // the time in the id
	want := []audit.Row{
		{Seq: 3, At: start.Add(2 * time.Second), Actor: ada, Action: "hardware.set", TargetKind: "config", TargetID: "1"},
		{
			Seq: 2, At: start.Add(time.Second), Actor: audit.Actor{Kind: "service", ID: "jobs"}, Action: "job.reap",
			TargetKind: "job", TargetID: "job_1", Before: json.RawMessage(`{"a":1}`),
		},
		{
			Seq: 1, At: start, Actor: ada, Action: "token.create", TargetKind: "token", TargetID: "tok_1",
			After: json.RawMessage(`{"Name":"<ci>","Token":"[redacted]"}`),
		},
	}
	for i := range want {
		require.NoError(t, id.Check(id.Audit, all[i].ID))
		want[i].ID = all[i].ID
	}
	require.Empty(t, cmp.Diff(want, all))
	for name, f := range map[string]audit.Filter{
		"by actor":  {Actor: "jobs"},
		"by action": {Action: "job.reap"},
		"by target": {TargetKind: "job", TargetID: "job_1"},
		"by time":   {From: start.Add(time.Second), To: start.Add(2 * time.Second)},
	} {
		got, err := audit.List(t.Context(), b.pool, f, request.Page{Limit: 10})
		require.NoError(t, err, name)
		require.Empty(t, cmp.Diff(want[1:2], got), name)
	}
	got, err := audit.List(t.Context(), b.pool, audit.Filter{}, request.Page{Limit: 1, Offset: 1})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want[1:2], got))
}

func TestLog_Record_oversizedState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i", After: strings.Repeat("x", audit.MaxState)})
	all, err := audit.List(t.Context(), b.pool, audit.Filter{}, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Less(t, len(all[0].After), 200)
	require.Contains(t, string(all[0].After), `"bytes":65538`)
}

func TestLog_Record_rolledBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	boom := errors.New("boom")
	err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		require.NoError(t, b.log.Record(ctx, tx, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"}))
		return boom
	})
	require.ErrorIs(t, err, boom)
	n, err := b.sealer(t).RunOnce(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestLog_Record_stateSizeLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for size, whole := range map[int]bool{audit.MaxState - 2: true, audit.MaxState - 1: false} { // encoding adds two quotes
		text := strings.Repeat("x", size)
		target := fmt.Sprint(size)
		b.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: target, Before: text, After: text})
		rows, err := audit.List(t.Context(), b.pool, audit.Filter{TargetID: target}, request.Page{Limit: 10})
		require.NoError(t, err)
		require.Len(t, rows, 1)
		for _, kept := range []json.RawMessage{rows[0].Before, rows[0].After} {
			require.Equal(t, whole, string(kept) == `"`+text+`"`, size)
			if !whole {
				sum := sha256.Sum256([]byte(`"` + text + `"`))
				require.JSONEq(t, fmt.Sprintf(`{"truncated":true,"bytes":%d,"sha256":"%x"}`, size+2, sum), string(kept),
					"the digest of the full state")
			}
		}
	}
}

func TestLog_Record_unencodableStateFailsTransaction(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]audit.Entry{
		"before":    {Before: func() {}},
		"after":     {After: map[string]any{"x": make(chan int)}},
		"zero byte": {Action: "a\x00b"},
	} {
		b := setup(t)
		err := pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
			require.NoError(t, b.log.Record(ctx, tx, audit.Entry{Action: "good", TargetKind: "k", TargetID: "i"}))
			return b.log.Record(ctx, tx, e)
		})
		require.Error(t, err, name)
		rows, err := audit.List(t.Context(), b.pool, audit.Filter{}, request.Page{Limit: 10})
		require.NoError(t, err)
		require.Empty(t, rows, name)
	}
}

func TestLog_Record_redactsSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	type inner struct{ Keys []secret.String }
	type config struct {
		Token  secret.String
		Inner  *inner
		ByName map[string]secret.String
		Any    any
		Text   string
	}
	s := secret.New("hunter2-planted")
	state := config{s, &inner{[]secret.String{s}}, map[string]secret.String{"k": s}, s, "<kept & shown>"}
	b.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i", Before: state, After: &state})
	var kept string
	require.NoError(t, b.owner.QueryRow(t.Context(), `SELECT audit::text FROM audit`).Scan(&kept))
	require.NotContains(t, kept, "hunter2-planted")
	require.Contains(t, kept, "[redacted]")
	require.Contains(t, kept, "<kept & shown>")
}
