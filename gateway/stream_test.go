package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/gateway/internal/sse"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func TestStreamEndsWithEof(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	got := r.do("GET", "/api/runs/run_1/logs/stream", "", as(userToken)...)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	require.Equal(t, "retry: 2000\n\n"+
		"id: 1\nevent: line\ndata: {\"seq\":1,\"attempt\":0,\"ts\":null,\"text\":\"\",\"rank\":null,\"truncated\":false,\"node\":null}\n\n"+
		"id: 2\nevent: eof\ndata: {\"seq\":2,\"state\":\"failed\"}\n\n", got.body)
	follow := r.all()[1]
	require.Equal(t, authn.KindUser, follow.caller.Kind)
	require.Equal(t, got.header.Get("X-Request-Id"), follow.md.Get("x-request-id")[0])
}

// The call of an event stream has the same metadata as any other call, and no more.
func TestStreamMetadata(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	got := r.do("GET", "/api/jobs/job_1/logs/stream", "", as(userToken, "User-Agent", "cli/1 (\xe9)", "If-None-Match", `"v1"`,
		"X-Service-Caller", "forged", "Grpc-Metadata-X-Service-Caller", "forged", "X-Service-Refresh", "x")...)
	require.Equal(t, http.StatusOK, got.status, got.body)
	follow := r.all()[1]
	require.Equal(t, []string{"cli/1 (?)"}, follow.md.Get("x-service-user-agent"))
	require.Equal(t, []string{`"v1"`}, follow.md.Get("if-none-match"))
	require.Empty(t, follow.md.Get("x-service-refresh"))
	require.Equal(t, "usr_1", follow.caller.Subject)
	require.Equal(t, got.header.Get("X-Request-Id"), follow.md.Get("x-request-id")[0])
	got = r.do("GET", "/api/jobs/job_1/logs/stream", "", as(userToken, "If-Match", "")...)
	require.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
}

func TestStreamResumes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		query  string
		header []string
		want   int64
	}{
		"from the start":      {"", nil, 0},
		"after the query":     {"?after=5", nil, 5},
		"after the header":    {"", []string{"Last-Event-Id", "41"}, 41},
		"header before query": {"?after=5", []string{"Last-Event-Id", "41"}, 41},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, nil)
			got := r.do("GET", "/api/jobs/job_1/logs/stream"+tc.query, "", as(userToken, tc.header...)...)
			require.Equal(t, http.StatusOK, got.status, got.body)
			in := r.all()[1].in.(*ingestv1.FollowLogsRequest)
			require.Equal(t, tc.want, in.GetAfter())
			require.Equal(t, "job_1", in.GetId())
		})
	}
}

func TestStreamRequestsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for name, tc := range map[string]struct {
		path    string
		headers []string
		status  int
		body    string
	}{
		"absent":         {"/api/runs/run_absent/logs/stream", as(userToken), 404, `{"detail":"no such run: run_absent"}`},
		"no token":       {"/api/runs/run_1/logs/stream", nil, 401, `{"detail":"Not authenticated"}`},
		"bad token":      {"/api/runs/run_1/logs/stream", as("a.b.c"), 401, `{"detail":"Could not validate credentials","code":"token_invalid"}`},
		"bad resume":     {"/api/runs/run_1/logs/stream", as(userToken, "Last-Event-Id", "x"), 422, `{"detail":[{"type":"int_parsing","loc":["header","last-event-id"],"msg":"Input should be a valid integer"}]}`},
		"behind, query":  {"/api/runs/run_short/logs/stream?after=9", as(userToken), 422, `{"detail":[{"type":"less_than_equal","loc":["query","after"],"msg":"Input should be less than or equal to 3"}]}`},
		"behind, header": {"/api/runs/run_short/logs/stream?after=1", as(userToken, "Last-Event-Id", "9"), 422, `{"detail":[{"type":"less_than_equal","loc":["header","last-event-id"],"msg":"Input should be less than or equal to 3"}]}`},
		"unknown query":  {"/api/runs/run_1/logs/stream?x=1", as(userToken), 422, `{"detail":[{"type":"extra_forbidden","loc":["query","x"],"msg":"Extra inputs are not permitted"}]}`},
	} {
		got := r.do("GET", tc.path, "", tc.headers...)
		require.Equal(t, tc.status, got.status, name)
		require.JSONEq(t, tc.body, got.body, name)
		require.Equal(t, "application/json", got.header.Get("Content-Type"), name)
	}
}

func TestOpenStreamFaultHasRequestLocation(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for loc, headers := range map[string][]string{`["query","after"]`: as(userToken), `["header","last-event-id"]`: as(userToken, "Last-Event-Id", "4")} {
		got := r.do("GET", "/api/runs/run_late/logs/stream", "", headers...)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Contains(t, got.body, "event: error\ndata: {\"detail\":[{\"type\":\"less_than_equal\",\"loc\":"+loc+",")
	}
}

// follow opens a stream and reads its first event. It returns the status and a reader of the rest.
func (r *harness) follow(ctx context.Context, token string) (int, *bufio.Reader) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/api/runs/run_live/logs/stream", nil)
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	read := bufio.NewReader(resp.Body)
	if resp.StatusCode == http.StatusOK {
		for {
			line, err := read.ReadString('\n')
			require.NoError(r.t, err)
			if strings.HasPrefix(line, "data: ") {
				break
			}
		}
	}
	return resp.StatusCode, read
}

func TestStreamOfRevokedCallerIsCut(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(clock.Real().Now())
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Clock = clk })
	_, read := r.follow(t.Context(), userToken)
	r.credentials.revoked.Store(userToken, true)
	require.NoError(t, clk.Await(t.Context(), 2))
	clk.Advance(sse.Recheck)
	for {
		line, err := read.ReadString('\n')
		require.NoError(t, err)
		if line == "event: error\n" {
			break
		}
	}
	line, err := read.ReadString('\n')
	require.NoError(t, err)
	require.JSONEq(t, `{"detail":"Could not validate credentials","code":"token_revoked"}`, strings.TrimPrefix(line, "data: "))
}

// When the caller's access changes, the stream closes without eof and without an error, so that the client reconnects.
func TestStreamOfDemotedCallerClosesForReconnect(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(clock.Real().Now())
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Clock = clk })
	_, read := r.follow(t.Context(), adminToken)
	require.NoError(t, clk.Await(t.Context(), 2))
	clk.Advance(sse.Recheck)
	require.Eventually(t, func() bool { return len(r.all()) == 3 }, time.Minute, time.Millisecond, "the caller is checked again; access has not changed")
	r.credentials.demoted.Store(adminToken, true)
	clk.Advance(sse.Recheck)
	rest, err := io.ReadAll(read)
	require.NoError(t, err)
	require.Empty(t, strings.TrimSpace(string(rest)), "neither eof nor error, so the client resumes after the last event")
	status, _ := r.follow(t.Context(), adminToken)
	require.Equal(t, http.StatusOK, status)
	last := r.all()
	require.Equal(t, authn.RoleOperator, last[len(last)-1].caller.Role, "the service gets the new role")
}

func TestStreamsPerCallerLimited(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range sse.MaxPerCredential {
		status, _ := r.follow(ctx, userToken)
		require.Equal(t, http.StatusOK, status)
	}
	status, _ := r.follow(ctx, userToken)
	require.Equal(t, http.StatusTooManyRequests, status)
	status, _ = r.follow(ctx, adminToken)
	require.Equal(t, http.StatusOK, status)
	leave()
	require.Eventually(t, func() bool {
		again, _ := r.follow(t.Context(), userToken)
		return again == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
}
