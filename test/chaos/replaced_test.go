package chaos

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// spilledCalls is how many calls are made while inference cannot use its database.
const spilledCalls = 5

// replaced is an installation whose inference service is replaced by another process with the same folders, as a pod
// with a volume is. Its lease is far longer than a revocation may take, so a revocation that returns 204 proves that
// the lease of the earlier process has ended.
type replaced struct {
	*scenario

	db   *pgx.Conn
	made int // successful calls
}

func TestSplitInstallation_replacedInference(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout)
	defer cancel()
	s := testenv.Split(t, testenv.Options{})
	r := &replaced{scenario: servingScenario(ctx, t, s), db: s.Connect(ctx)}
	for _, c := range []struct {
		name string
		run  func(*replaced, context.Context)
	}{{"killed", (*replaced).killed}, {"stopped", (*replaced).stopped}, {"overlapping", (*replaced).overlapping}} {
		t.Run(c.name, func(t *testing.T) {
			r.T, s.T = t, t
			c.run(r, ctx)
		})
		r.T, s.T = t, t
		require.False(t, t.Failed(), "the next part needs the processes of this one")
	}
}

// killed kills the process while its records are only in the spool. The next process must store them and end the lease
// of its predecessor.
func (r *replaced) killed(ctx context.Context) {
	p := r.s.Processes["inference"]
	r.spill(ctx)
	p.Kill()
	r.allowDatabase(ctx, true)
	p.Start()
	r.awaitCall(ctx)
	r.requireRevoked(ctx)
	r.s.Until(ctx, "all calls are recorded", func() bool { return r.recorded(ctx) == r.made })
	require.Zero(r, r.spooled())
	journals, err := filepath.Glob(filepath.Join(p.Setting("SERVICE_AUDIT_DIR"), "revocations", "inference-*"))
	require.NoError(r, err)
	require.Len(r, journals, 1, "the next process must continue the journal of its predecessor")
}

// stopped stops the process as soon as its database is available again. It must store its records and end its lease
// before it exits: no other process of the service runs when the token is revoked.
func (r *replaced) stopped(ctx context.Context) {
	p := r.s.Processes["inference"]
	require.NoError(r, r.l.MakeToken(ctx, "stopped"))
	r.awaitCall(ctx)
	r.spill(ctx)
	r.allowDatabase(ctx, true)
	_, ok := p.Stop(testenv.StageTimeout)
	require.True(r, ok, p.Tail())
	require.NoError(r, p.Err(), p.Tail())
	require.Zero(r, r.spooled(), "a planned stop must empty the spool: %s", p.Tail())
	require.Equal(r, r.made, r.recorded(ctx))
	r.revoke(ctx)
	p.Start()
	r.s.Until(ctx, "the token is refused", func() bool { return r.call(ctx) == http.StatusUnauthorized })
}

// overlapping starts the next process before its predecessor has ended. It must not use the folder until then.
func (r *replaced) overlapping(ctx context.Context) {
	require.NoError(r, r.l.MakeToken(ctx, "overlapping"))
	r.awaitCall(ctx)
	calls := r.s.FreeAddress()
	next := r.s.StartReplica("inference", "inference-next", map[string]string{
		"SERVICE_INFERENCE_LISTEN": r.s.FreeAddress(), "SERVICE_INFERENCE_HTTP_LISTEN": calls,
	})
	r.s.Until(ctx, "the next process waits", func() bool { return strings.Contains(next.Log(), "another process uses the folder") })
	r.spill(ctx)
	require.NotContains(r, next.Log(), `"serving"`)
	r.s.Processes["inference"].Kill()
	r.allowDatabase(ctx, true)
	gateway := r.s.FreeAddress()
	r.s.StartReplica("gateway", "gateway-next", map[string]string{"SERVICE_LISTEN": gateway, "SERVICE_GATEWAY_INFERENCE_ADDR": calls})
	r.s.URL = "http://" + gateway
	r.awaitCall(ctx)
	r.requireRevoked(ctx)
	r.s.Until(ctx, "all calls are recorded", func() bool { return r.recorded(ctx) == r.made })
	require.Zero(r, r.spooled())
}

// awaitCall waits until a call succeeds.
func (r *replaced) awaitCall(ctx context.Context) {
	r.Helper()
	r.s.Until(ctx, "a call succeeds", func() bool { return r.call(ctx) == http.StatusOK })
}

// call calls the engine and returns the status, or 0 without a response.
func (r *replaced) call(ctx context.Context) int {
	body := client.NewChatRequest("hello")
	a, err := client.New(r.s.URL, nil).With(r.l.Token).Call(ctx, http.MethodPost, "/inference/"+r.l.Deployment.ID+"/v1/chat/completions", body)
	if err != nil {
		return 0
	}
	if a.Status == http.StatusOK {
		r.made++
	}
	return a.Status
}

// spill makes calls while inference cannot use its database, and waits until their records are in the spool.
func (r *replaced) spill(ctx context.Context) {
	r.Helper()
	r.s.Until(ctx, "the earlier calls are recorded", func() bool { return r.recorded(ctx) == r.made })
	r.allowDatabase(ctx, false)
	for range spilledCalls {
		require.Equal(r, http.StatusOK, r.call(ctx))
	}
	r.s.Until(ctx, "the records are in the spool", func() bool { return r.spooled() == spilledCalls })
}

// allowDatabase sets whether inference may connect to its database. Other services are not affected.
func (r *replaced) allowDatabase(ctx context.Context, allowed bool) {
	r.Helper()
	login := map[bool]string{true: "LOGIN", false: "NOLOGIN"}[allowed]
	_, err := r.db.Exec(ctx, `ALTER ROLE signalbox_inference `+login)
	require.NoError(r, err)
	if !allowed {
		_, err = r.db.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'signalbox_inference'`)
		require.NoError(r, err)
	}
}

// recorded returns the number of calls in the database.
func (r *replaced) recorded(ctx context.Context) (n int) {
	r.Helper()
	require.NoError(r, r.db.QueryRow(ctx, `SELECT count(*) FROM inference.call WHERE deployment_id = $1`, r.l.Deployment.ID).Scan(&n))
	return n
}

// spooled returns the number of records in the spool.
func (r *replaced) spooled() (n int) {
	r.Helper()
	segments, err := filepath.Glob(filepath.Join(r.s.Processes["inference"].Setting("SERVICE_INFERENCE_SPOOL"), "*.jsonl"))
	require.NoError(r, err)
	for _, path := range segments {
		raw, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // stored meanwhile
		}
		require.NoError(r, err)
		n += bytes.Count(raw, []byte("\n"))
	}
	return n
}

// revoke deletes the token. The first request must succeed.
func (r *replaced) revoke(ctx context.Context) {
	r.Helper()
	a, err := r.l.Client.Call(ctx, http.MethodDelete, "/api/model-deployments/"+r.l.Deployment.ID+"/tokens/"+r.l.TokenID, nil)
	require.NoError(r, err)
	require.Equal(r, http.StatusNoContent, a.Status, "%s\n%s", a.Body, r.s.Tail())
}

// requireRevoked deletes the token and requires that calls with it are refused.
func (r *replaced) requireRevoked(ctx context.Context) {
	r.Helper()
	r.revoke(ctx)
	require.Equal(r, http.StatusUnauthorized, r.call(ctx))
}
