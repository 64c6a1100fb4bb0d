package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/gen/route"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// reached is a connection that records the last call and returns an error for it. It does not record Authenticate,
// which succeeds, or the stream of caller changes, which belongs to no request.
type reached struct{ method string }

func (c *reached) Invoke(_ context.Context, method string, _, reply any, _ ...grpc.CallOption) error {
	if method == authpeerv1.CredentialService_Authenticate_FullMethodName {
		reply.(*authpeerv1.AuthenticateResponse).CallerToken = "token"
		return nil
	}
	c.method = method
	return fault.New(fault.Conflict, "reached", "reached")
}

func (c *reached) NewStream(_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if method != authpeerv1.CredentialService_WatchCallers_FullMethodName {
		c.method = method
	}
	return nil, fault.New(fault.Conflict, "reached", "reached")
}

// example returns a path that matches the given pattern.
func example(pattern string) string {
	rest := regexp.MustCompile(`\{[a-z_]+\.\.\.\}`).ReplaceAllString(pattern, "a/b")
	return regexp.MustCompile(`\{[a-z_]+\}`).ReplaceAllString(rest, "7")
}

// newTableGateway returns a gateway whose services only record the last call.
func newTableGateway(t *testing.T) (*harness, *reached) {
	t.Helper()
	conn := &reached{}
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		d.Conns = gateway.Conns{Auth: conn, Jobs: conn, Ingest: conn, Registry: conn, Inference: conn}
	})
	return r, conn
}

// inline passes a request to the gateway without a network connection.
func (r *harness) inline(req *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	r.gw.ServeHTTP(rec, req)
	return rec
}

// formCall returns the method of auth that the gateway calls last if a form or page route is requested without
// parameters.
func formCall(row route.Route) string {
	const oauth, oidc = "/signalbox.auth.peer.v1.OAuthPeerService/", "/signalbox.auth.peer.v1.OidcPeerService/"
	switch {
	case row.Method == http.MethodOptions:
		return ""
	case row.Pattern == "/login" || row.Pattern == "/device" || row.Pattern == "/.well-known/openid-configuration":
		return authv1.AuthService_GetConfig_FullMethodName
	case row.Handler == "wellknown":
		return oauth + "GetMetadata"
	case row.Pattern == "/api/auth/oidc/start":
		return oidc + "BeginOidc"
	case row.Handler == "oauth":
		return map[string]string{
			"/api/oauth/token": oauth + "IssueToken", "/api/oauth/revoke": oauth + "RevokeToken", "/api/oauth/device_authorization": oauth + "AuthorizeDevice",
		}[row.Pattern]
	default:
		return ""
	}
}

func TestEveryRouteReachesItsCall(t *testing.T) {
	t.Parallel()
	r, conn := newTableGateway(t)
	for _, row := range route.Table() {
		conn.method = ""
		method := strings.ReplaceAll(row.Method, "*", http.MethodPost)
		body := ""
		if row.Body != "" {
			body = `{}`
		}
		if row.Method == http.MethodPut && row.Pattern == "/api/admin/hardware/config" {
			body = `{"series": [], "profiles": []}` // these lists are required
		}
		req := httptest.NewRequest(method, example(row.Pattern), strings.NewReader(body))
		req.Host = "localhost"
		req.Header.Set("Authorization", "Bearer "+userToken)
		if row.Handler == "oauth" {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		rec := r.inline(req)
		name := row.Method + " " + row.Pattern
		switch {
		case row.Kind != route.Raw:
			require.Equal(t, "/"+row.RPC, conn.method, name)
			require.Equal(t, http.StatusConflict, rec.Code, "%s: %s", name, rec.Body)
		case slices.Contains([]string{"health", "version", "openapi", "protoset"}, row.Handler):
			require.Equal(t, http.StatusOK, rec.Code, name)
		case slices.Contains([]string{"oauth", "wellknown", "page"}, row.Handler):
			require.NotEmpty(t, rec.Header().Get("X-Request-Id"), "%s: the response must have a request id", name)
			require.Equal(t, formCall(row), conn.method, name)
		case row.Handler == "playground":
			require.Equal(t, "inference", rec.Header().Get("X-Handler"), name)
			require.NotContains(t, rec.Body.String(), userToken, "a user's token is not forwarded")
		case row.Handler == "ingest" && row.Credential == "user":
			require.Equal(t, "ingest", rec.Header().Get("X-Handler"), name)
			require.NotContains(t, rec.Body.String(), userToken, "a user's token is not forwarded")
		default:
			require.Equal(t, row.Handler, rec.Header().Get("X-Handler"), name)
			require.Contains(t, rec.Body.String(), "Bearer "+userToken, "the token is forwarded unchanged")
		}
	}
}

// wrongCredentials returns Authorization headers that no user route accepts: credentials of other kinds, malformed
// credentials, and several credentials at once.
func wrongCredentials() map[string][]string {
	long := strings.Repeat("a", 4096)
	return map[string][]string{
		"none":             nil,
		"ingest token":     {"Bearer ing_0123456789012345678901234567890123456789abc123456"},
		"deployment token": {"Bearer dtk_0123456789012345678901234567890123456789abc123456"},
		"refresh token":    {"Bearer rft_0123456789012345678901234567890123456789abc123456"},
		"join token":       {"Bearer fjt_0123456789012345678901234567890123456789abc123456"},
		"share token":      {"Bearer shr_0123456789012345678901234567890123456789abc123456"},
		"device code":      {"Bearer dvc_0123456789012345678901234567890123456789abc123456"},
		"basic":            {"Basic YWRhOnB3"},
		"no scheme":        {userToken},
		"empty":            {""},
		"empty bearer":     {"Bearer "},
		"two spaces":       {"Bearer  " + userToken},
		"two parts":        {"Bearer a.b"},
		"five parts":       {"Bearer a.b.c.d.e"},
		"empty part":       {"Bearer a..c"},
		"other characters": {"Bearer a.b.c="},
		"two tokens":       {"Bearer " + userToken + ", Bearer " + userToken},
		"two headers":      {"Bearer " + userToken, "Bearer " + adminToken},
		"too long":         {"Bearer a." + long + ".c"},
	}
}

func TestUserRoutesRequireAccessToken(t *testing.T) {
	t.Parallel()
	r, conn := newTableGateway(t)
	rows := 0
	for _, row := range route.Table() {
		if row.Credential != "user" {
			continue
		}
		rows++
		for name, values := range wrongCredentials() {
			req := httptest.NewRequest(row.Method, example(row.Pattern)+"?unknown=1", strings.NewReader("{"))
			req.Host = "localhost"
			req.Header["Authorization"] = values
			req.Header.Set("X-Service-Token", userToken)
			req.Header.Set("Cookie", "service_refresh="+userToken)
			rec := r.inline(req)
			require.Equal(t, http.StatusUnauthorized, rec.Code, "%s %s: %s", row.Method, row.Pattern, name)
			require.Equal(t, "Bearer", rec.Header().Get("WWW-Authenticate"))
			require.JSONEq(t, `"application/json"`, `"`+rec.Header().Get("Content-Type")+`"`)
			require.Empty(t, conn.method, "%s reached %s", name, conn.method)
		}
	}
	require.Greater(t, rows, 40)
}

func TestUnlistedRoutesNotFound(t *testing.T) {
	t.Parallel()
	r, conn := newTableGateway(t)
	for _, target := range []string{
		"GET /", "GET /api", "GET /api/nope", "POST /signalbox.jobs.v1.JobService/GetJob", "GET /api/jobs/7/", "GET /debug/pprof/",
		"GET /metrics", "GET /inference", "GET /inference/dep_1/metrics", "POST /api/ingest/nope", "GET /api/blobs",
		"POST /signalbox.auth.peer.v1.CredentialService/Authenticate", "POST /grpc.health.v1.Health/Check",
	} {
		method, path, _ := strings.Cut(target, " ")
		req := httptest.NewRequest(method, path, nil)
		req.Header.Set("Authorization", "Bearer "+userToken)
		rec := r.inline(req)
		require.Equal(t, http.StatusNotFound, rec.Code, target)
		require.Contains(t, rec.Body.String(), `{"detail":"Not Found"`, target)
		require.Empty(t, conn.method, target)
		require.Empty(t, rec.Header().Get("X-Handler"), target)
	}
}

func TestMethodNotAllowedListsMethods(t *testing.T) {
	t.Parallel()
	r, conn := newTableGateway(t)
	for target, allow := range map[string]string{
		"DELETE /api/jobs": "GET, POST", "OPTIONS /api/jobs": "GET, POST", "PUT /api/auth/login": "POST", "HEAD /api/jobs": "GET, POST",
		"TRACE /healthz": "GET, HEAD", "POST /api/blobs/a": "GET, PUT", "PATCH /api/ingest/logs": "POST",
	} {
		method, path, _ := strings.Cut(target, " ")
		req := httptest.NewRequest(method, path, nil)
		req.Header.Set("X-Http-Method-Override", "GET")
		rec := r.inline(req)
		require.Equal(t, http.StatusMethodNotAllowed, rec.Code, target)
		require.Equal(t, allow, rec.Header().Get("Allow"), target)
		require.JSONEq(t, `{"detail":"Method Not Allowed"}`, rec.Body.String(), target)
		require.Empty(t, conn.method, target)
	}
}

func TestMethodOverrideIgnored(t *testing.T) {
	t.Parallel()
	r, conn := newTableGateway(t)
	req := httptest.NewRequest(http.MethodPost, "/api/model-deployments/7/tokens/7", strings.NewReader("a=b"))
	req.Header.Set("Authorization", "Bearer "+userToken)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Http-Method-Override", "DELETE")
	require.Equal(t, http.StatusMethodNotAllowed, r.inline(req).Code)
	require.Empty(t, conn.method)
}
