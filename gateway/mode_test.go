package gateway_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/gateway/internal/sse"
	"github.com/signalbox-dev/signalbox/gen/route"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// startMaintenance makes the fake auth refuse callers as it does during maintenance.
func (r *harness) startMaintenance() {
	r.credentials.mode.Store(fault.New(fault.Unavailable, "maintenance", "Back at nine").WithRetryAfter(90 * time.Second))
}

// openRoutes lists the routes that stay open during maintenance, except those under /api/ingest/.
func openRoutes() []string {
	return []string{
		"GET /healthz", "HEAD /healthz", "POST /api/cluster/leases/renew", "GET /api/version", "HEAD /api/version",
		"POST /api/auth/link", "POST /api/auth/login", "POST /api/auth/logout", "POST /api/auth/refresh", "GET /api/auth/config",
		"GET /login", "HEAD /login", "GET /pages/{asset}", "HEAD /pages/{asset}", "GET /auth/callback", "GET /api/auth/oidc/start",
		"GET /api/admin/maintenance", "POST /api/admin/maintenance",
		"GET /api/blobs/{key...}", "PUT /api/blobs/{key...}", "* /inference/{deployment_id}/v1/{rest...}",
	}
}

func TestRoutesOpenInMaintenance(t *testing.T) {
	t.Parallel()
	var open, want []string
	for _, rt := range route.Table() {
		name := rt.Method + " " + rt.Pattern
		if rt.InMaintenance {
			open = append(open, name)
		}
		if strings.HasPrefix(rt.Pattern, "/api/ingest/") {
			want = append(want, name)
		}
	}
	require.ElementsMatch(t, append(want, openRoutes()...), open)
}

func TestMaintenanceRefusesOtherRoutes(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.startMaintenance()
	count := 0
	for _, rt := range route.Table() {
		if rt.InMaintenance {
			continue
		}
		path := strings.NewReplacer("{", "", "}", "", "...", "").Replace(rt.Pattern)
		for name, headers := range map[string][]string{
			"a user": as(adminToken), "no token": nil, "a bad token": as("nonsense"), "another site": as(adminToken, "Sec-Fetch-Site", "cross-site"),
		} {
			got := r.do(rt.Method, path, "", headers...)
			require.Equal(t, http.StatusServiceUnavailable, got.status, "%s %s as %s: %s", rt.Method, path, name, got.body)
			require.Equal(t, "90", got.header.Get("Retry-After"))
			require.True(t, strings.HasPrefix(got.header.Get("X-Request-Id"), "req_"))
			if rt.Method != http.MethodHead {
				require.Equal(t, "maintenance", got.json(t)["code"])
				detail := "Back at nine"
				if rt.RPC == "signalbox.jobs.v1.JobService/SubmitJob" {
					detail = "maintenance: Back at nine" // the text begins with the name of the admission check
				}
				require.Equal(t, detail, got.json(t)["detail"])
				require.Equal(t, rt.Handler == "oauth", got.json(t)["error"] == "temporarily_unavailable", "forms have the RFC's error code")
				require.Equal(t, rt.Handler == "playground", strings.Contains(got.body, `"type":"service_unavailable"`), "engine routes have the OpenAI error")
			}
			count++
		}
	}
	for lost, want := range map[string]int{"GET /api/nope": 404, "DELETE /api/jobs": 405, "GET /api/jobs/": 404, "GET /api/%2e%2e/x": 400} {
		method, path, _ := strings.Cut(lost, " ")
		require.Equal(t, want, r.do(method, path, "").status, "%s: the route does not exist", lost)
	}
	for _, seen := range r.all() {
		require.Equal(t, "Authenticate", seen.method, "no request reached a service")
	}
	require.Greater(t, count, 200)
}

// anonymousRequests lists requests without a credential, for which the gateway may use a cached response of auth, with
// their status outside maintenance.
func anonymousRequests() map[string]int {
	return map[string]int{
		"GET /api/share/tok": 501, "POST /api/cli/device/code": 501, "GET /api/openapi.json": 200, "GET /device": 200,
		"GET /.well-known/jwks.json": 200, "GET /api/jobs": 401,
	}
}

func (r *harness) anonymousRequests(when string, want func(served int) int) {
	r.t.Helper()
	for target, served := range anonymousRequests() {
		method, path, _ := strings.Cut(target, " ")
		require.Equal(r.t, want(served), r.do(method, path, "").status, "%s: %s", when, target)
	}
}

// Auth acknowledges maintenance after authn.AnonymousLife. From then on the gateway must not use a response that auth
// sent before maintenance began.
func TestMaintenanceRefusesAnonymousAfterAcknowledgement(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(clock.Real().Now())
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Clock = clk })
	serves := func(served int) int { return served }
	refuses := func(int) int { return http.StatusServiceUnavailable }
	r.anonymousRequests("before", serves)
	r.startMaintenance()
	clk.Advance(authn.AnonymousLife)
	r.anonymousRequests("in maintenance", refuses)
	r.credentials.mode.Store(nil)
	r.anonymousRequests("right after maintenance", serves)
	clk.Advance(authn.AnonymousLife - time.Millisecond)
	r.credentials.mode.Store(fault.New(fault.Unavailable, "", "auth is unreachable"))
	r.anonymousRequests("while auth's last response is valid", serves)
	clk.Advance(time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, r.do("GET", "/api/openapi.json", "").status, "the cached response has expired and auth is unreachable")
}

func TestAnonymousRequestsShareOneCheck(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(clock.Real().Now())
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Clock = clk })
	for range 50 {
		require.Equal(t, http.StatusUnauthorized, r.do("GET", "/api/jobs", "").status)
		require.Equal(t, http.StatusOK, r.do("GET", "/api/openapi.json", "").status)
	}
	require.Len(t, r.all(), 1)
	require.Equal(t, http.StatusOK, r.do("GET", "/api/jobs", "", as(userToken)...).status)
	require.Equal(t, http.StatusOK, r.do("GET", "/api/jobs", "", as(userToken)...).status)
	require.Len(t, r.all(), 1+2*2, "a credential is checked for every request")
}

func TestMaintenanceServesOpenRoutes(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.startMaintenance()
	for target, want := range map[string]int{
		"GET /healthz": 200, "GET /api/version": 200, "GET /api/auth/config": 200, "POST /api/auth/login": 422, "POST /api/auth/refresh": 401,
		"POST /api/auth/logout": 200, "GET /login": 200, "POST /api/ingest/logs": 200, "GET /api/ingest/watermark": 200,
		"PUT /api/blobs/a/b": 200, "POST /inference/dep_1/v1/chat/completions": 200,
	} {
		method, path, _ := strings.Cut(target, " ")
		got := r.do(method, path, "", as(userToken)...)
		require.Equal(t, want, got.status, "%s: %s", target, got.body)
	}
}

func TestMaintenanceEndsStreams(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(clock.Real().Now())
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Clock = clk })
	_, read := r.follow(t.Context(), userToken)
	r.startMaintenance()
	refused := r.do("GET", "/api/runs/run_live/logs/stream", "", as(userToken)...)
	require.Equal(t, http.StatusServiceUnavailable, refused.status)
	require.Equal(t, "maintenance", refused.json(t)["code"])
	require.NoError(t, clk.Await(t.Context(), 2))
	clk.Advance(sse.Recheck)
	rest := make([]byte, 1<<10)
	for {
		n, err := read.Read(rest)
		require.NotContains(t, string(rest[:n]), "eof", "the run continues, so the stream must not end with eof")
		if err != nil {
			break
		}
	}
}

func TestMaintenanceRefusesGRPCCalls(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	conn := r.client()
	signed := withHeaders(t.Context(), "authorization", "Bearer "+userToken)
	r.startMaintenance()
	for name, ctx := range map[string]struct{ err error }{
		"a user": {call(func() error {
			_, err := jobsv1.NewJobServiceClient(conn).ListJobs(signed, &jobsv1.ListJobsRequest{})
			return err
		})},
		"no token": {call(func() error {
			_, err := jobsv1.NewJobServiceClient(conn).ListJobs(t.Context(), &jobsv1.ListJobsRequest{})
			return err
		})},
		"a stream": {call(func() error {
			stream, err := ingestv1.NewRunDataServiceClient(conn).FollowLogs(signed, &ingestv1.FollowLogsRequest{Id: "run_1"})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		})},
	} {
		require.Equal(t, codes.Unavailable, status.Code(ctx.err), name)
		f := fault.From(ctx.err)
		require.Equal(t, "maintenance", f.Code, name)
		require.Equal(t, "Back at nine", f.Msg, name)
		require.Equal(t, 90*time.Second, f.RetryAfter, name)
	}
	_, err := jobsv1.NewJobServiceClient(conn).SubmitJob(signed, &jobsv1.SubmitJobRequest{})
	require.Equal(t, "maintenance: Back at nine", fault.From(err).Msg)
	_, err = authv1.NewAuthServiceClient(conn).GetConfig(t.Context(), &authv1.GetConfigRequest{})
	require.NoError(t, err)
}

func call(f func() error) error { return f() }

// While auth is unreachable the mode is unknown, so routes that maintenance would close are closed.
func TestAuthDownClosesRoutesThatMaintenanceCloses(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.credentials.mode.Store(fault.New(fault.Unavailable, "", "auth is unreachable").Wrap(errors.New("dial")))
	for target, want := range map[string]int{
		"GET /api/jobs": 503, "GET /device": 503, "GET /.well-known/jwks.json": 503, "GET /nope": 404, "GET /healthz": 200, "GET /api/version": 200,
		"POST /api/ingest/logs": 200, "POST /inference/dep_1/v1/x": 200,
	} {
		method, path, _ := strings.Cut(target, " ")
		require.Equal(t, want, r.do(method, path, "", as(userToken)...).status, target)
	}
	require.Equal(t, http.StatusUnauthorized, r.do("GET", "/api/jobs", "").status)
}
