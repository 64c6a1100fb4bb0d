package llm

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	return pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}).Pool("auth")
}

// replica returns the server of a replica that uses the pool.
func replica(p *pgxpool.Pool, clk clock.Clock, s func(context.Context) (Settings, error)) *Server {
	ids := id.NewSource(clk, rand.Reader)
	return &Server{Tester: &Tester{
		Settings: s, Call: loopback(), Turn: Turn{Pool: p, Clock: clk}, Pool: p, Audit: audit.NewLog(clk, ids, "auth"), IDs: ids,
	}}
}

func fixedSettings(s Settings) func(context.Context) (Settings, error) {
	return func(context.Context) (Settings, error) { return s, nil }
}

func TestTester_Test_namesMissingSettings(t *testing.T) {
	t.Parallel()
	p, clk := pool(t), clock.Real()
	for want, s := range map[string]Settings{
		"not configured: base URL, key, model": {},
		"not configured: key":                  {BaseURL: "https://x.example/v1", Model: "m"},
		"not configured: base URL, model":      {Key: secret.New(key)},
	} {
		out, err := replica(p, clk, fixedSettings(s)).TestAgentModel(t.Context(), &authv1.TestAgentModelRequest{})
		require.NoError(t, err)
		require.False(t, out.GetConfigured())
		require.False(t, out.GetOk())
		require.False(t, out.GetToolsOk())
		require.Equal(t, want, out.GetError())
		require.Empty(t, out.GetEndpoint())
	}
}

func TestTester_Test_auditHasNoUpstreamText(t *testing.T) {
	t.Parallel()
	p := pool(t)
	u := newUpstream(t, respondWith(http.StatusUnauthorized, "text/plain", "you sent "+key))
	out, err := replica(p, clock.Real(), fixedSettings(u.settings())).TestAgentModel(t.Context(), &authv1.TestAgentModelRequest{})
	require.NoError(t, err)
	require.True(t, out.GetConfigured())
	require.Contains(t, out.GetError(), secret.Redacted)
	rows, err := audit.List(t.Context(), p, audit.Filter{Action: "agent.llm_test"}, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.JSONEq(t, `{"configured": true, "ok": false, "tools_ok": false, "endpoint": "`+u.URL+`/v1/chat/completions"}`, string(rows[0].After))
	var dump string
	require.NoError(t, p.QueryRow(t.Context(), `SELECT (SELECT string_agg(a::text, ' ') FROM audit a) || (SELECT string_agg(m::text, ' ') FROM agent_model_test m)`).Scan(&dump))
	require.NotContains(t, dump, key)
}

// Two replicas receive concurrent requests. The upstream receives one test at a time.
func TestTester_Test_oneAtATime(t *testing.T) {
	t.Parallel()
	p := pool(t)
	var inside, most, done atomic.Int32
	u := newUpstream(t)
	counted := func(last bool, s step) step {
		return func(w http.ResponseWriter, r *http.Request, in chatRequest) {
			if !last && len(in.Tools) == 0 {
				most.Store(max(most.Load(), inside.Add(1)))
			}
			s(w, r, in)
			if last {
				inside.Add(-1)
				done.Add(1)
			}
		}
	}
	const tests = 6
	for range tests {
		u.script = append(u.script, counted(false, replies("ready")), counted(false, echoNonce()), counted(true, replies("done")))
	}
	replicas := []*Server{replica(p, clock.Real(), fixedSettings(u.settings())), replica(p, clock.Real(), fixedSettings(u.settings()))}
	var wg sync.WaitGroup
	for i := range tests {
		wg.Go(func() {
			out, err := replicas[i%2].TestAgentModel(t.Context(), &authv1.TestAgentModelRequest{})
			require.NoError(t, err)
			require.True(t, out.GetToolsOk(), out.GetToolsError())
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, most.Load())
	require.EqualValues(t, tests, done.Load())
}

func TestTurn_Take_waitIsBounded(t *testing.T) {
	t.Parallel()
	p := pool(t)
	held, err := Turn{Pool: p, Clock: clock.Real()}.Take(t.Context(), "first")
	require.NoError(t, err)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	u := newUpstream(t)
	results := make(chan *authv1.AgentModelTest, 1)
	go func() {
		out, _ := replica(p, clk, fixedSettings(u.settings())).TestAgentModel(t.Context(), &authv1.TestAgentModelRequest{})
		results <- out
	}()
	require.NoError(t, clk.Await(t.Context(), 1))
	clk.Advance(patience)
	out := <-results
	require.True(t, out.GetConfigured())
	require.Equal(t, otherTest, out.GetError())
	require.Empty(t, u.made())

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Turn{Pool: p, Clock: clock.Real()}.Take(gone, "canceled")
	require.ErrorIs(t, err, context.Canceled)
	held()
	again, err := Turn{Pool: p, Clock: clock.Real()}.Take(t.Context(), "next")
	require.NoError(t, err)
	again()
}

// If a process stops while it has the turn, the turn expires after the maximum duration of a test.
func TestTurn_expires(t *testing.T) {
	t.Parallel()
	p := pool(t)
	turn := Turn{Pool: p, Clock: clock.Real()}
	_, err := turn.Take(t.Context(), "killed")
	require.NoError(t, err)
	got, err := turn.try(t.Context(), "next")
	require.NoError(t, err)
	require.False(t, got)
	_, err = p.Exec(t.Context(), `UPDATE agent_model_test SET until = now() - interval '1 second'`)
	require.NoError(t, err)
	got, err = turn.try(t.Context(), "next")
	require.NoError(t, err)
	require.True(t, got)
	turn.give(t.Context(), "killed")
	got, err = turn.try(t.Context(), "third")
	require.NoError(t, err)
	require.False(t, got, "only its holder may give a turn back")
}
