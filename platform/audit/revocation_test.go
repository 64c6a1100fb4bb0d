package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// revocationHarness is a schema with one kind of credential, and the folder of its journals.
type revocationHarness struct {
	*harness

	t   *testing.T
	dir string
}

func newRevocationHarness(t *testing.T) *revocationHarness {
	t.Helper()
	h := &revocationHarness{harness: setup(t), t: t, dir: t.TempDir()}
	h.tamper(t, `CREATE TABLE token (id text PRIMARY KEY, revoked_at timestamptz)`)
	h.tamper(t, `CREATE TRIGGER record AFTER UPDATE ON token FOR EACH ROW EXECUTE FUNCTION record_revocation('token', 'id')`)
	h.tamper(t, `CREATE FUNCTION revoke_again(kind text, what text, keep text) RETURNS boolean LANGUAGE sql AS $$
		WITH done AS (UPDATE token SET revoked_at = now() WHERE id = what AND revoked_at IS NULL RETURNING id) SELECT EXISTS (SELECT FROM done) $$`)
	h.tamper(t, `CREATE FUNCTION revoke_everything(keep text) RETURNS void LANGUAGE sql AS $$ UPDATE token SET revoked_at = now() WHERE revoked_at IS NULL $$`)
	return h
}

func (h *revocationHarness) tamper(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := h.owner.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// tokens inserts live tokens.
func (h *revocationHarness) tokens(ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		h.tamper(h.t, `INSERT INTO token VALUES ($1)`, id)
	}
}

func (h *revocationHarness) revoke(ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		_, err := h.pool.Exec(h.t.Context(), `UPDATE token SET revoked_at = now() WHERE id = $1`, id)
		require.NoError(h.t, err)
	}
}

// live returns the tokens that are not revoked.
func (h *revocationHarness) live() []string {
	h.t.Helper()
	rows, err := h.pool.Query(h.t.Context(), `SELECT id FROM token WHERE revoked_at IS NULL ORDER BY id`)
	require.NoError(h.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(h.t, err)
	return ids
}

func (h *revocationHarness) open(age time.Duration) *audit.Revocations {
	h.t.Helper()
	r, err := audit.OpenRevocations(audit.RevocationsConfig{
		Service: "jobs", Pool: h.pool, Clock: h.clock, Log: slog.New(slog.DiscardHandler), Dir: h.dir,
		Heads: audit.NewFile(filepath.Join(h.dir, "jobs.jsonl")), Age: age,
	})
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = r.Close() })
	return r
}

// start opens a journal and continues it.
func (h *revocationHarness) start() *audit.Revocations {
	h.t.Helper()
	r := h.open(0)
	require.NoError(h.t, r.Resume(h.t.Context()))
	return r
}

// journaled returns the subjects in the journals.
func (h *revocationHarness) journaled() []string {
	h.t.Helper()
	j, err := audit.ReadJournals("jobs", h.dir)
	require.NoError(h.t, err)
	subjects := []string{}
	for _, r := range j.Revocations {
		require.Equal(h.t, "token", r.Kind)
		require.False(h.t, r.At.IsZero())
		subjects = append(subjects, r.Subject)
	}
	return subjects
}

func (h *revocationHarness) settle(everything bool) audit.Restored {
	h.t.Helper()
	j, err := audit.ReadJournals("jobs", h.dir)
	require.NoError(h.t, err)
	var done audit.Restored
	require.NoError(h.t, pg.InTx(h.t.Context(), h.owner, func(ctx context.Context, tx pgx.Tx) error {
		last, err := audit.ReadLastWrite(ctx, tx)
		require.NoError(h.t, err)
		done, err = audit.Restore{Journal: j, Backup: last.At, Everything: everything, Audit: h.log}.Settle(ctx, tx)
		require.NoError(h.t, err)
		return audit.CompleteRestore(ctx, tx)
	}))
	return done
}

func TestRevocations_Settle_journalsCommitsInAnyOrder(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tokens("slow", "fast", "late")
	r := h.start()
	slow, err := h.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = slow.Exec(t.Context(), `UPDATE token SET revoked_at = now() WHERE id = 'slow'`)
	require.NoError(t, err)
	h.revoke("fast")
	require.NoError(t, r.Settle(t.Context()))
	require.Equal(t, []string{"fast"}, h.journaled())
	require.NoError(t, slow.Commit(t.Context()))
	require.NoError(t, r.Settle(t.Context()))
	require.ElementsMatch(t, []string{"fast", "slow"}, h.journaled())
	require.NoError(t, r.Settle(t.Context()))
	require.NoError(t, r.RunOnce(t.Context()))
	h.revoke("late")
	require.NoError(t, r.RunOnce(t.Context()))
	raw, err := filepath.Glob(filepath.Join(h.dir, "revocations", "jobs-0", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, raw, 1)
	text, err := os.ReadFile(raw[0])
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(text), `"kind"`), "each revocation is written once")
}

func TestRevocations_Settle_concurrentCallsAreJournaled(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	r := h.start()
	var group errgroup.Group
	for n := range 200 {
		id := fmt.Sprint("t", n)
		h.tokens(id)
		group.Go(func() error {
			if _, err := h.pool.Exec(t.Context(), `UPDATE token SET revoked_at = now() WHERE id = $1`, id); err != nil {
				return err
			}
			if err := r.Settle(t.Context()); err != nil {
				return err
			}
			found, err := audit.ReadJournals("jobs", h.dir)
			if err != nil {
				return err
			}
			for _, one := range found.Revocations {
				if one.Subject == id {
					return nil
				}
			}
			return fmt.Errorf("%s was acknowledged but is not in the journal", id)
		})
	}
	require.NoError(t, group.Wait())
	require.Len(t, h.journaled(), 200)
}

// After a crash, Postgres may use the numbers of transactions again that had written nothing to disk.
func TestRevocations_Settle_reusedTransactionNumbers(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tokens("a", "b")
	r := h.start()
	h.revoke("a")
	require.NoError(t, r.Settle(t.Context()))
	const count = 2500 // more than two pages
	h.tamper(t, `INSERT INTO revocation (made_in, kind, subject) SELECT (3 + n % 5)::text::xid8, 'token', 'reused ' || n FROM generate_series(1, $1) n`, count)
	h.revoke("b")
	require.NoError(t, r.Settle(t.Context()))
	require.NoError(t, r.Settle(t.Context()))
	require.Len(t, h.journaled(), count+2)
	require.Contains(t, h.journaled(), fmt.Sprint("reused ", count))
}

func TestRevocations_Settle_unwritableFolderIsReported(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tokens("a", "b")
	r := h.start()
	folder := filepath.Join(h.dir, "revocations", "jobs-0")
	require.NoError(t, os.Rename(folder, folder+".away"))
	h.revoke("a")
	err := r.Settle(t.Context())
	require.True(t, fault.HasCode(err, "revocation_journal") && fault.Is(err, fault.Unavailable), "%v", err)
	require.NoError(t, os.Rename(folder+".away", folder))
	require.NoError(t, r.Settle(t.Context()), "the next call writes what is missing")
	require.Equal(t, []string{"a"}, h.journaled())
}

func TestRevocations_Resume_afterCrash(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tokens("a", "b", "c")
	r := h.start()
	h.revoke("a")
	require.NoError(t, r.Settle(t.Context()))
	require.NoError(t, r.Close())
	files, err := filepath.Glob(filepath.Join(h.dir, "revocations", "jobs-0", "*.jsonl"))
	require.NoError(t, err)
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("\n" + `{"seq":9,"kind":"tok`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	h.revoke("b") // while no process runs
	again := h.start()
	require.Equal(t, []string{"a", "b"}, h.journaled())
	second := h.start()
	h.revoke("c")
	require.NoError(t, second.Settle(t.Context()))
	require.NoError(t, again.RunOnce(t.Context()))
	for _, replica := range []string{"jobs-0", "jobs-1"} {
		require.NoError(t, os.Rename(filepath.Join(h.dir, "revocations", replica), filepath.Join(h.dir, replica)))
		require.Equal(t, []string{"a", "b", "c"}, h.journaled(), "each replica has every revocation")
		require.NoError(t, os.Rename(filepath.Join(h.dir, replica), filepath.Join(h.dir, "revocations", replica)))
	}
}

func TestRevocations_deletesOldSegments(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	r := h.open(48 * time.Hour)
	require.NoError(t, r.Resume(t.Context()))
	for day := range 6 {
		id := fmt.Sprint("day ", day)
		h.tokens(id)
		h.revoke(id)
		require.NoError(t, r.RunOnce(t.Context()))
		h.clock.Advance(25 * time.Hour)
	}
	require.Equal(t, []string{"day 3", "day 4", "day 5"}, h.journaled())
	deleted, err := audit.DeleteRevocationsBefore(t.Context(), h.pool, time.Now().Add(time.Hour), 100)
	require.NoError(t, err)
	require.EqualValues(t, 5, deleted, "the newest revocation remains")
	require.NoError(t, r.RunOnce(t.Context()))
}

// While the replica did not run, retention deleted the revocation that its stamp names.
func TestRevocations_Resume_afterLongDowntime(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tokens("a", "b")
	r := h.start()
	h.revoke("a")
	require.NoError(t, r.RunOnce(t.Context()))
	require.NoError(t, r.Close())
	h.revoke("b")
	deleted, err := audit.DeleteRevocationsBefore(t.Context(), h.pool, time.Now().Add(time.Hour), 100)
	require.NoError(t, err)
	require.EqualValues(t, 1, deleted)
	h.start()
}

// unlimited counts the queries that have no deadline.
type unlimited struct{ count atomic.Int64 }

// TraceQueryStart implements pgx.QueryTracer.
func (u *unlimited) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if _, ok := ctx.Deadline(); !ok {
		u.count.Add(1)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*unlimited) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A query on a connection to a server that disappeared returns only at its deadline.
func TestRevocations_RunOnce_queriesHaveDeadline(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	queries, cfg := &unlimited{}, h.pool.Config()
	cfg.ConnConfig.Tracer = queries
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	h.pool = pool
	r := h.start()
	require.Positive(t, queries.count.Swap(0))
	require.NoError(t, r.RunOnce(t.Context()))
	require.Zero(t, queries.count.Load())
}

// edit changes the stamp of the journal.
func (h *revocationHarness) edit(change func(map[string]any)) {
	h.t.Helper()
	path := filepath.Join(h.dir, "revocations", "jobs-0", "position.json")
	raw, err := os.ReadFile(path)
	require.NoError(h.t, err)
	stamp := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	require.NoError(h.t, decoder.Decode(&stamp))
	change(stamp)
	raw, err = json.Marshal(stamp)
	require.NoError(h.t, err)
	require.NoError(h.t, os.WriteFile(path, raw, 0o600))
}

func TestRevocations_Resume_refusesAnotherDatabase(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]any){
		"another cluster":   func(s map[string]any) { s["system"] = "1" },
		"another database":  func(s map[string]any) { s["database"] = 1 },
		"another timeline":  func(s map[string]any) { s["timeline"] = 7 },
		"shorter log":       func(s map[string]any) { s["wal"] = int64(1) << 60 },
		"shorter audit":     func(s map[string]any) { s["sealed"] = 9 },
		"revocation absent": func(s map[string]any) { s["revoked"] = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newRevocationHarness(t)
			h.tokens("a")
			r := h.start()
			h.revoke("a")
			require.NoError(t, r.RunOnce(t.Context()))
			require.NoError(t, r.Close())
			require.NoError(t, h.start().Close(), "an unchanged database is accepted")
			h.edit(change)
			r = h.open(0)
			require.ErrorIs(t, r.Resume(t.Context()), audit.ErrRestored)
			h.settle(false)
			require.NoError(t, r.Resume(t.Context()))
			require.NoError(t, r.RunOnce(t.Context()))
		})
	}
}

func TestRevocations_Resume_refusesMissingStamp(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tokens("a")
	r := h.start()
	require.NoError(t, r.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(h.dir, "revocations")))
	require.NoError(t, h.start().Close(), "a missing stamp is accepted while nothing was revoked")
	h.revoke("a")
	require.NoError(t, os.RemoveAll(filepath.Join(h.dir, "revocations")))
	r = h.open(0)
	require.ErrorIs(t, r.Resume(t.Context()), audit.ErrRestored)
	h.settle(true)
	require.NoError(t, r.Resume(t.Context()))
}

// The audit log was written by a version that had no journal.
func TestRevocations_Resume_firstStartOfThisVersion(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.record(t.Context(), t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"})
	_, err := h.sealer(t).RunOnce(t.Context())
	require.NoError(t, err)
	r := h.open(0)
	require.ErrorIs(t, r.Resume(t.Context()), audit.ErrRestored, "the folder has no heads of the sealed rows")
	heads, err := h.file.Checkpoints()
	require.NoError(t, err)
	require.NoError(t, audit.NewFile(filepath.Join(h.dir, "jobs.jsonl")).Put(t.Context(), heads...))
	require.NoError(t, r.Resume(t.Context()))
}

func TestRevocations_Run_endsWhenDatabaseIsReplaced(t *testing.T) {
	t.Parallel()
	h := newRevocationHarness(t)
	h.tokens("a")
	r := h.start()
	h.revoke("a")
	require.NoError(t, r.RunOnce(t.Context()))
	h.tamper(t, `DELETE FROM revocation`)
	require.ErrorIs(t, r.Run(t.Context()), audit.ErrRestored)
}
