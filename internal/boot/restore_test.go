package boot

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// restoreHarness is a schema and the audit folder of its service.
type restoreHarness struct {
	t   *testing.T
	db  *pgtest.DB
	dir string
	bus *rpc.Bus
}

// open returns the Env of a process that starts, and a function that closes it.
func (h *restoreHarness) open() (*Env, func()) {
	h.t.Helper()
	o, err := obs.Setup(h.t.Context(), obs.Config{Service: "auth", LogLevel: "error", LogFormat: "json"}, io.Discard)
	require.NoError(h.t, err)
	clk, closers := clock.Real(), &process.Closers{}
	e := NewEnv("auth", o, clk, id.NewSource(clk, rand.Reader), h.bus.As("auth"))
	e.Sealing, err = OpenSealing(Audit{Key: seed('a'), Dir: h.dir, RevocationDays: 1})
	require.NoError(h.t, err)
	require.NoError(h.t, e.OpenPool(h.t.Context(), closers, conf.Postgres{URL: h.db.URL("auth"), MaxConns: 2, StatementTimeout: patience}, true))
	require.NoError(h.t, e.OpenRevocations(closers))
	return e, func() { require.NoError(h.t, closers.Close(h.t.Context())) }
}

// logLines returns a logger and a function that waits until the logger has written a line that contains the text.
func logLines(t *testing.T) (log *slog.Logger, await func(text string)) {
	t.Helper()
	from, to := io.Pipe()
	lines := make(chan string, 1000)
	go func() {
		for all := bufio.NewScanner(from); all.Scan(); {
			lines <- all.Text()
		}
	}()
	t.Cleanup(func() { require.NoError(t, to.Close()) })
	return slog.New(slog.NewTextHandler(to, nil)), func(text string) {
		t.Helper()
		timeout := time.NewTimer(patience)
		defer timeout.Stop()
		for {
			select {
			case line := <-lines:
				if strings.Contains(line, text) {
					return
				}
			case <-timeout.C:
				require.Fail(t, "no line of the log contains "+text)
			}
		}
	}
}

func TestAwaitRestore_refusesCallsUntilSettled(t *testing.T) {
	t.Parallel()
	h := &restoreHarness{t: t, db: pgtest.New(t, pgtest.Schema{Name: "auth"}), dir: filepath.Join(t.TempDir(), "audit"), bus: rpc.Memory(rpc.ClientOptions{Clock: clock.Real()})}
	owner := h.db.OwnerPool("auth")
	unused := func(context.Context) error { t.Error("refused calls without a restore"); return nil }

	first, end := h.open()
	stopped, err := AwaitRestore(t.Context(), first.Clock, first.Log, unused, first)
	require.NoError(t, err)
	require.False(t, stopped)
	_, err = owner.Exec(t.Context(), `INSERT INTO revocation (kind, subject) VALUES ('x', 'y')`)
	require.NoError(t, err)
	require.NoError(t, first.revocations.RunOnce(t.Context()))
	require.Len(t, first.revocationWorkers(), 1)
	end()
	_, err = owner.Exec(t.Context(), `DELETE FROM revocation`)
	require.NoError(t, err)

	again, end := h.open()
	defer end()
	l, err := h.bus.As("auth").Listen("auth")
	require.NoError(t, err)
	done := make(chan error, 1)
	log, awaitLine := logLines(t)
	go func() {
		_, err := AwaitRestore(t.Context(), again.Clock, log, func(ctx context.Context) error { return rpc.Refuse(ctx, l, ErrMaintenance()) }, again)
		done <- err
	}()
	conn, err := h.bus.As("jobs").Dial("auth")
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.Eventually(t, func() bool {
		_, err := AuthKeys(conn)(t.Context())
		return fault.HasCode(err, fault.CodeMaintenance)
	}, patience, 10*time.Millisecond)
	_, err = owner.Exec(t.Context(), `ALTER TABLE revocation RENAME TO elsewhere`)
	require.NoError(t, err)
	awaitLine("trying again")
	_, err = owner.Exec(t.Context(), `ALTER TABLE elsewhere RENAME TO revocation`)
	require.NoError(t, err)
	require.Empty(t, done, "an error of the database must not end the wait")
	journal, err := audit.ReadJournals("auth", h.dir)
	require.NoError(t, err)
	require.Len(t, journal.Revocations, 1)
	_, err = owner.Exec(t.Context(), `CREATE FUNCTION revoke_again(kind text, what text, keep text) RETURNS boolean LANGUAGE sql AS 'SELECT true'`)
	require.NoError(t, err)
	require.NoError(t, pg.InTx(t.Context(), owner, func(ctx context.Context, tx pgx.Tx) error {
		log := audit.NewLog(clock.Real(), again.IDs, "signalbox-setup")
		_, err := audit.Restore{Journal: journal, Audit: log}.Settle(ctx, tx)
		require.NoError(t, err)
		return audit.CompleteRestore(ctx, tx)
	}))
	require.NoError(t, <-done)
}

func TestAwaitRestore_endsIfCallsCannotBeRefused(t *testing.T) {
	t.Parallel()
	h := &restoreHarness{t: t, db: pgtest.New(t, pgtest.Schema{Name: "auth"}), dir: filepath.Join(t.TempDir(), "audit"), bus: rpc.Memory(rpc.ClientOptions{Clock: clock.Real()})}
	first, end := h.open()
	_, err := AwaitRestore(t.Context(), first.Clock, first.Log, nil, first)
	require.NoError(t, err)
	_, err = h.db.OwnerPool("auth").Exec(t.Context(), `INSERT INTO revocation (kind, subject) VALUES ('x', 'y')`)
	require.NoError(t, err)
	require.NoError(t, first.revocations.RunOnce(t.Context()))
	end()
	_, err = h.db.OwnerPool("auth").Exec(t.Context(), `DELETE FROM revocation`)
	require.NoError(t, err)
	again, end := h.open()
	defer end()
	failed := errors.New("the port is taken")
	stopped, err := AwaitRestore(t.Context(), again.Clock, again.Log, func(context.Context) error { return failed }, again)
	require.ErrorIs(t, err, failed)
	require.False(t, stopped)
}
