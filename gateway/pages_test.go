package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/gateway"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// formServices implements auth's services for forms and pages.
type formServices struct {
	authpeerv1.UnimplementedOAuthPeerServiceServer
	authpeerv1.UnimplementedOidcPeerServiceServer
	authv1.UnimplementedDeviceServiceServer
	*callRecorder
}

func (f *formServices) register(s grpc.ServiceRegistrar) {
	authpeerv1.RegisterOAuthPeerServiceServer(s, f)
	authpeerv1.RegisterOidcPeerServiceServer(s, f)
	authv1.RegisterDeviceServiceServer(s, f)
}

func (f *formServices) IssueToken(ctx context.Context, in *authpeerv1.IssueTokenRequest) (*authpeerv1.OAuthAnswer, error) {
	f.recordOpen(ctx, "IssueToken", in)
	if in.GetForm()["grant_type"] == "" {
		return nil, fault.New(fault.Unavailable, "", "auth is unreachable")
	}
	return &authpeerv1.OAuthAnswer{Status: 400, Body: []byte(`{"error":"authorization_pending"}`), RetryAfterSeconds: 5}, nil
}

func (f *formServices) GetMetadata(ctx context.Context, in *authpeerv1.GetMetadataRequest) (*authpeerv1.Metadata, error) {
	f.recordOpen(ctx, "GetMetadata", in)
	return &authpeerv1.Metadata{Body: fmt.Appendf(nil, `{"document":%q}`, in.GetDocument())}, nil
}

func (f *formServices) BeginOidc(ctx context.Context, in *authpeerv1.BeginOidcRequest) (*authpeerv1.BeginOidcResponse, error) {
	f.recordOpen(ctx, "BeginOidc", in)
	return &authpeerv1.BeginOidcResponse{AuthorizationUrl: "https://login.example/authorize?state=st4te", Binding: "b1nding"}, nil
}

func (f *formServices) FinishOidc(ctx context.Context, in *authpeerv1.FinishOidcRequest) (*authpeerv1.FinishOidcResponse, error) {
	f.recordOpen(ctx, "FinishOidc", in)
	if in.GetError() != "" {
		return nil, fault.New(fault.Forbidden, "oidc", "the provider refused")
	}
	md := metadata.Pairs("x-service-set-cookie", "service_refresh=rft_x; Path=/; HttpOnly", "x-service-set-cookie", "session=evil", "location", "https://evil.example")
	return &authpeerv1.FinishOidcResponse{Next: "/jobs"}, grpc.SetHeader(ctx, md)
}

func (f *formServices) GetDeviceRequest(ctx context.Context, in *authv1.GetDeviceRequestRequest) (*authv1.DeviceRequest, error) {
	f.record(ctx, "GetDeviceRequest", in)
	return &authv1.DeviceRequest{UserCode: in.GetUserCode(), State: "pending"}, nil
}

// recordOpen records a call without a caller identity, which services make to each other.
func (t *callRecorder) recordOpen(ctx context.Context, method string, in any) {
	md, _ := metadata.FromIncomingContext(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, receivedCall{method: method, md: md, in: in})
}

const (
	formType = "application/x-www-form-urlencoded"
	htmlType = "text/html"
)

// requireGatewayHeaders requires the headers that every response of the gateway has.
func requireGatewayHeaders(t *testing.T, got response) {
	t.Helper()
	require.True(t, strings.HasPrefix(got.header.Get("X-Request-Id"), "req_"))
	require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
	require.Equal(t, "DENY", got.header.Get("X-Frame-Options"))
	require.Equal(t, "no-referrer", got.header.Get("Referrer-Policy"))
}

func TestOAuthFormsReachAuth(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.TrustedProxies = []string{"127.0.0.0/8"} })
	got := r.do("POST", "/api/oauth/token", "grant_type=g&device_code=dvc_x", "Content-Type", formType, "X-Forwarded-For", "203.0.113.9",
		"Cookie", "service_refresh=rft_x", "Origin", "https://app.example", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusBadRequest, got.status, got.body)
	require.JSONEq(t, `{"error":"authorization_pending","detail":"authorization_pending"}`, got.body)
	require.Equal(t, "5", got.header.Get("Retry-After"))
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	require.Equal(t, "no-cache", got.header.Get("Pragma"))
	require.Equal(t, "*", got.header.Get("Access-Control-Allow-Origin"), "a form contains all credentials, so pages of any origin may send it")
	requireGatewayHeaders(t, got)
	in := r.reached()[0].in.(*authpeerv1.IssueTokenRequest)
	require.Equal(t, "203.0.113.9", in.GetClientAddress())
	require.Equal(t, map[string]string{"grant_type": "g", "device_code": "dvc_x"}, in.GetForm())
	require.Equal(t, []string{got.header.Get("X-Request-Id")}, r.reached()[0].md.Get("x-request-id"))

	got = r.do("POST", "/api/oauth/token", "a=b", "Content-Type", formType)
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, "temporarily_unavailable", got.json(t)["error"])
	requireGatewayHeaders(t, got)
	seen := len(r.reached())
	got = r.do("POST", "/api/oauth/device_authorization", "client_id=x", "Content-Type", formType, "Origin", "https://app.example", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, got.status, "foreign pages cannot use the device flow")
	require.Len(t, r.reached(), seen)
	requireGatewayHeaders(t, got)
	got = r.do("GET", "/api/oauth/token", "")
	require.Equal(t, http.StatusMethodNotAllowed, got.status)
	require.Equal(t, "OPTIONS, POST", got.header.Get("Allow"))
}

func TestWellKnownDocuments(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	got := r.do("GET", "/.well-known/oauth-authorization-server/api/mcp", "", "Authorization", "Bearer nonsense", "Origin", "https://app.example")
	require.Equal(t, http.StatusOK, got.status, "the documents need no credential")
	require.JSONEq(t, `{"document":"authorization-server"}`, got.body)
	requireGatewayHeaders(t, got)
	require.Equal(t, http.StatusNotFound, r.do("GET", "/.well-known/openid-configuration", "").status, "there is no OpenID provider")
	head := r.do("HEAD", "/.well-known/jwks.json", "")
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.body)
	r.auth.methods = []string{"oidc"}
	require.Equal(t, http.StatusOK, r.do("GET", "/.well-known/openid-configuration", "").status)
}

func TestPagesHaveSecurityHeaders(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for path, keep := range map[string]string{"/login?next=/x": "no-store", "/device?user_code=WDJB-MJHT": "no-store"} {
		got := r.do("GET", path, "", "Accept", htmlType)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, keep, got.header.Get("Cache-Control"))
		require.Contains(t, got.header.Get("Content-Security-Policy"), "script-src 'self'")
		requireGatewayHeaders(t, got)
		require.Equal(t, http.StatusMethodNotAllowed, r.do("POST", path, "a=b", "Content-Type", formType).status)
	}
	require.Equal(t, http.StatusNotFound, r.do("GET", "/pages/other.js", "").status)
	for _, call := range r.reached() {
		require.Contains(t, []string{"Authenticate", "GetConfig"}, call.method, "a GET of a page changes nothing")
	}
}

func TestOIDCSignIn(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	got := r.do("GET", "/api/auth/oidc/start?next=/jobs", "")
	require.Equal(t, http.StatusFound, got.status)
	require.Equal(t, "https://login.example/authorize?state=st4te", got.header.Get("Location"))
	got = r.do("GET", "/auth/callback?code=c0de&state=st4te", "", "Cookie", "service_oidc=b1nding")
	require.Equal(t, http.StatusSeeOther, got.status)
	require.Equal(t, "/jobs", got.header.Get("Location"))
	require.Equal(t, []string{
		"service_oidc=; Path=/auth/callback; Max-Age=0; HttpOnly; SameSite=Lax", "service_refresh=rft_x; Path=/; HttpOnly",
	}, got.header.Values("Set-Cookie"), "only the refresh cookie of auth's metadata passes")
	require.Equal(t, "b1nding", r.reached()[1].in.(*authpeerv1.FinishOidcRequest).GetBinding())
	refused := r.do("GET", "/auth/callback?error=access_denied&state=st4te", "", "Accept", htmlType)
	require.Equal(t, http.StatusForbidden, refused.status)
	require.Contains(t, refused.body, "The provider refused.")
	requireGatewayHeaders(t, refused)
}

// Codes in URLs and forms must not appear in logs and traces.
func TestLogsAndTracesContainNoCodes(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		d.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	})
	got := []response{
		r.do("GET", "/auth/callback?code=s3cret-code&state=s3cret-state&iss=https://s3cret.example", "", "Cookie", "service_oidc=s3cret-binding"),
		r.do("GET", "/auth/callback?error=s3cret&state=s3cret-state", "", "Accept", htmlType),
		r.do("GET", "/device?user_code=S3CRETCODE", ""),
		r.do("GET", "/login?next=/device%3Fuser_code=S3CRETCODE", ""),
		r.do("GET", "/api/auth/oidc/start?next=/s3cret", ""),
		r.do("GET", "/api/cli/device/requests/S3CRETCODE", "", as(userToken)...),
		r.do("POST", "/api/oauth/token?code=s3cret", "", "Content-Type", formType),
		r.do("POST", "/api/oauth/token", "grant_type=x&code=s3cret-code&code=s3cret", "Content-Type", formType),
		r.do("POST", "/api/oauth/token", "grant_type=x&code=s3cret-code", "Content-Type", formType, "Authorization", "Bearer s3cret"),
		r.do("GET", "/s3cret/nowhere", ""), r.do("GET", "/pages/s3cret.js", ""),
	}
	require.Equal(t, http.StatusOK, got[5].status, got[5].body)
	require.Eventually(t, func() bool {
		return len(spans.Ended()) >= len(got) && strings.Count(r.log.String(), `"msg":"request"`) >= len(got)
	}, time.Minute, time.Millisecond)
	require.NotContains(t, strings.ToLower(r.log.String()), "s3cret")
	require.Contains(t, r.log.String(), `"route":"/auth/callback"`)
	routes := map[string]bool{}
	for _, span := range spans.Ended() {
		text := fmt.Sprint(span.Name(), span.Attributes(), span.Events(), span.Status())
		require.NotContains(t, strings.ToLower(text), "s3cret")
		routes[span.Name()] = true
	}
	require.True(t, routes["GET /api/cli/device/requests/{user_code}"], routes)
}

// The documents of the authorization server name these endpoints.
func TestMissingEndpointsAre501(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/api/mcp", 501},
		{"GET", "/api/mcp", 501},
		{"DELETE", "/api/mcp", 501},
		{"GET", "/api/oauth/authorize?state=x", 501},
		{"PUT", "/api/oauth/authorize", 405},
		{"GET", "/api/mcp/x", 404},
		{"GET", "/api/oauth", 404},
	} {
		got := r.do(c.method, c.path, "")
		require.Equal(t, c.status, got.status, "%s %s", c.method, c.path)
		require.Equal(t, c.status == 501, strings.Contains(got.body, `"not_implemented"`), got.body)
	}
	evil := httptest.NewRequest(http.MethodPost, "/api/mcp", http.NoBody)
	evil.Host = "evil.example"
	require.Contains(t, r.inline(evil).Body.String(), "SERVICE_GATEWAY_ALLOWED_HOSTS", "the host name is checked first")
}
