package leak

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// verifyAudit runs `signalbox audit verify` as an admin.
func (h *installation) verifyAudit(ctx context.Context, t *testing.T) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, testenv.Bin(t, "signalbox"), "audit", "verify", "--server", h.URL)
	cmd.Env = append(os.Environ(), "SERVICE_TOKEN="+h.token)
	raw, err := cmd.CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(raw), ended.ExitCode()
	}
	require.NoError(t, err, "%s", raw)
	return string(raw), 0
}

// requireTamperingReported changes the audit as the superuser of the database. It requires that verify reports each
// change, and then reverts the change.
func (h *installation) requireTamperingReported(ctx context.Context, t *testing.T, conn *pgx.Conn) {
	t.Helper()
	h.Until(ctx, "the audit is verified", func() bool { _, code := h.verifyAudit(ctx, t); return code == 0 })
	out, _ := h.verifyAudit(ctx, t)
	for _, service := range []string{"auth", "jobs", "ingest", "registry", "inference"} {
		require.Contains(t, out, service+" ")
	}
	suspendAuditWriters(ctx, t, connect(ctx, t, h.Installation))
	const row = ` WHERE id = (SELECT audit_id FROM jobs.audit_seal WHERE position = 2)`
	for name, c := range map[string]struct{ do, undo, want string }{
		"edited":        {`UPDATE jobs.audit SET actor_name = actor_name || 'x'` + row, `UPDATE jobs.audit SET actor_name = left(actor_name, -1)` + row, "row 2 (aud_"},
		"inserted":      {`INSERT INTO jobs.audit OVERRIDING SYSTEM VALUE SELECT 'aud_x', 9000, at, actor_kind, actor_id, actor_name, session_id, client_addr, action, target_kind, target_id, before, after, request_id FROM jobs.audit` + row, `DELETE FROM jobs.audit WHERE id = 'aud_x'`, "the row is not in the chain"},
		"seals deleted": {`CREATE TABLE jobs.kept AS SELECT * FROM jobs.audit_checkpoint; CREATE TABLE jobs.seals AS SELECT * FROM jobs.audit_seal; DELETE FROM jobs.audit_checkpoint; DELETE FROM jobs.audit_seal`, `INSERT INTO jobs.audit_checkpoint SELECT * FROM jobs.kept; INSERT INTO jobs.audit_seal SELECT * FROM jobs.seals; DROP TABLE jobs.kept, jobs.seals`, "the end of the log was cut off"},
		"deleted":       {`CREATE TABLE jobs.kept AS SELECT * FROM jobs.audit` + row + `; DELETE FROM jobs.audit` + row, `INSERT INTO jobs.audit OVERRIDING SYSTEM VALUE SELECT * FROM jobs.kept; DROP TABLE jobs.kept`, "the row was deleted"},
	} {
		_, err := conn.Exec(ctx, c.do)
		require.NoError(t, err, name)
		out, code := h.verifyAudit(ctx, t)
		require.Equal(t, 1, code, "%s: %s", name, out)
		require.Contains(t, out, "jobs       BROKEN: ", name)
		require.Contains(t, out, c.want, name)
		require.Contains(t, out, "registry   ok", name)
		_, err = conn.Exec(ctx, c.undo)
		require.NoError(t, err, name)
		out, code = h.verifyAudit(ctx, t)
		require.Zero(t, code, "%s: %s", name, out)
	}
}

// suspendAuditWriters keeps signalboxd from sealing rows of the jobs service and from comparing the database with the
// last known position, until the test ends. Otherwise signalboxd itself would notice that seals are missing, and exit.
func suspendAuditWriters(ctx context.Context, t *testing.T, conn *pgx.Conn) {
	t.Helper()
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('signalbox audit jobs', 0))`)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `LOCK TABLE jobs.continuity IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tx.Rollback(context.WithoutCancel(ctx))) })
}
