package gateway_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
)

const job = `{"api":"service/v1","spec":{"name":"n","recipe":{"name":"demo/x","version":"1","lock":{"name":"demo/x","version":"1","digest":"d",` +
	`"framework":{"runtime_id":"r"}}},"resources":{"pools":[{"pool":"default"}]},"hparams":{"lr": 1e-3,"n":9007199254740993}}}`

// `curl -X POST` sends no body. The service then gets an empty message, and required fields are reported as missing
// (see the test case "rule of an empty body").
func TestRequestWithoutBodyIsEmptyMessage(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	const head = "POST /api/fleets/flt_1/join-tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + adminToken + "\r\nConnection: close\r\n"
	for name, rest := range map[string]string{
		"no length":        "\r\n",
		"no bytes":         "Content-Length: 0\r\n\r\n",
		"no bytes, a type": "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n\r\n",
		"no chunk":         "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"an empty object":  "Content-Length: 2\r\n\r\n{}",
	} {
		conn := r.dial()
		_, err := conn.Write([]byte(head + rest))
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusCreated, resp.StatusCode, name)
	}
	for _, s := range r.all() {
		if in, ok := s.in.(*jobsv1.CreateJoinTokenRequest); ok {
			require.Equal(t, "flt_1", in.GetFleetId())
			require.Nil(t, in.TtlS)
			require.Nil(t, in.MaxUses)
		}
	}
}

func TestCallCarriesSignedCaller(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	got := r.do("POST", "/api/jobs", job, as(userToken, "Idempotency-Key", "k-1", "X-Service-Confirm", "sha256:ab", "User-Agent", "cli/1 (ünïx)",
		"If-Match", `"v1"`, "Content-Type", "application/json; charset=UTF-8")...)
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	require.True(t, strings.HasPrefix(got.body, `{"id":"job_1","run_id":"","name":"","state":"queued","end_reason":null,`), got.body)
	require.Contains(t, got.body, `"spec":{"lr":1e-3,"n":9007199254740993}`)

	calls := r.all()
	require.Len(t, calls, 2)
	require.Equal(t, userToken, calls[0].in.(*authpeerv1.AuthenticateRequest).GetCredential())
	submit := calls[1]
	require.Equal(t, authn.KindUser, submit.caller.Kind)
	require.Equal(t, "usr_1", submit.caller.Subject)
	require.Equal(t, "127.0.0.1", submit.caller.ClientAddr)
	require.Equal(t, "n", submit.in.(*jobsv1.SubmitJobRequest).GetSpec().GetName())
	for key, want := range map[string]string{
		"idempotency-key": "k-1", "x-service-confirm": "sha256:ab", "x-service-user-agent": "cli/1 (?n?x)", "if-match": `"v1"`,
		"x-request-id": got.header.Get("X-Request-Id"),
	} {
		require.Equal(t, []string{want}, submit.md.Get(key), key)
	}
	require.Equal(t, calls[0].md.Get("x-request-id"), submit.md.Get("x-request-id"))
}

func TestUnlistedHeadersDoNotReachServices(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	got := r.do("GET", "/api/jobs", "", as(userToken,
		"X-Service-Caller", "forged", "Grpc-Metadata-X-Service-Caller", "forged", "Grpc-Metadata-Authorization", "Bearer evil",
		"Grpc-Metadata-Grpcgateway-Host", "evil", "Grpc-Timeout", "1n", "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil", "Cookie", "service_refresh=x",
		"X-Request-Id", "req_forged", "X-Service-Refresh", "x", "X-Http-Method-Override", "DELETE", "Some-Data-Bin", "AAAA")...)
	require.Equal(t, http.StatusOK, got.status, got.body)
	list := r.all()[1]
	require.Equal(t, "ListJobs", list.method)
	require.Equal(t, "127.0.0.1", list.caller.ClientAddr)
	for key, values := range list.md {
		switch key {
		case ":authority", "content-type", "user-agent", "x-request-id", "x-service-caller", "x-service-user-agent", "grpc-accept-encoding", "traceparent":
			require.Len(t, values, 1, key)
			require.NotContains(t, values[0], "forged", key)
		default:
			require.Fail(t, "unlisted metadata", "%s: %v", key, values)
		}
	}
}

func TestOpenRoutesHaveAnonymousCaller(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	got := r.do("POST", "/api/auth/login", `{"username":"ada","password":"pw"}`, "Authorization", "Bearer expired.or.not")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.JSONEq(t, `{"token":"`+userToken+`","user":{"username":"ada","role":"operator"}}`, got.body)
	calls := r.all()
	require.Empty(t, calls[0].in.(*authpeerv1.AuthenticateRequest).GetCredential(), "an open route ignores the bearer")
	require.Equal(t, authn.KindNone, calls[1].caller.Kind)
	require.Equal(t, "127.0.0.1", calls[1].caller.ClientAddr)
}

func TestAdminRoleCheckedBeforeBody(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	body := `{"name":"f","kind":"agent","pools":["default"]}`
	require.Equal(t, http.StatusForbidden, r.do("POST", "/api/fleets", body, as(userToken)...).status)
	got := r.do("POST", "/api/fleets", body, as(adminToken)...)
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Contains(t, got.body, `"kind":"agent"`)
	well := r.do("POST", "/api/fleets", body, as(userToken)...)
	for _, wrong := range []string{`{`, `{"x":1}`, `{"name":5}`, strings.Repeat(" ", 5<<20)} {
		got := r.do("POST", "/api/fleets", wrong, as(userToken)...)
		require.Equal(t, []any{well.status, well.body}, []any{got.status, got.body}, "a caller without the admin role must not learn what is wrong with %.9s", wrong)
		require.NotEqual(t, http.StatusForbidden, r.do("POST", "/api/fleets", wrong, as(adminToken)...).status)
	}
	require.Equal(t, http.StatusForbidden, r.do("GET", "/api/admin/users?limit=x", "", as(userToken)...).status)
	require.Equal(t, http.StatusUnauthorized, r.do("POST", "/api/fleets", `{`).status)
}

func TestResponseHeadersAndStatus(t *testing.T) {
	t.Parallel()
	r := start(t, nil)

	list := r.do("GET", "/api/jobs?limit=2&offset=4", "", as(userToken)...)
	require.Equal(t, "120", list.header.Get("X-Total-Count"))
	require.Equal(t, `</api/jobs?limit=2&offset=6>; rel="next"`, list.header.Get("Link"))
	require.True(t, strings.HasPrefix(list.body, `[{"id":"job_2",`), list.body)
	require.Empty(t, list.header.Values("Set-Cookie"), "only auth sets the cookie")

	empty := r.do("GET", "/api/jobs?state=failed", "", as(userToken)...)
	require.Equal(t, `[]`, empty.body)
	require.Empty(t, empty.header.Get("Link"))
	require.Empty(t, empty.header.Get("X-Total-Count"))

	logout := r.do("POST", "/api/auth/logout", "", as(userToken)...)
	require.Equal(t, http.StatusOK, logout.status)
	require.Equal(t, `{}`, logout.body)

	gone := r.do("DELETE", "/api/model-deployments/dep_1/tokens/tok_1", "", as(userToken)...)
	require.Equal(t, http.StatusNoContent, gone.status)
	require.Empty(t, gone.body)
	require.Empty(t, gone.header.Get("Content-Type"))

	version := func(status string) response {
		return r.do("POST", "/api/models/mdl_1/versions", `{"source":{"run_id":"`+status+`","artifact_id":"art_1"}}`, as(userToken)...)
	}
	require.Equal(t, http.StatusOK, version("200").status)
	require.Equal(t, http.StatusAccepted, version("202").status)
	require.Equal(t, http.StatusInternalServerError, version("500").status, "a service cannot set an error status")
	require.Contains(t, r.log.String(), "could not build the response")

	for _, a := range []response{list, empty, logout, gone} {
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		require.True(t, strings.HasPrefix(a.header.Get("X-Request-Id"), "req_"))
	}
}

func TestHealthAndVersionNeedNoCredential(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for path, want := range map[string]string{
		"/healthz": `{"status":"ok"}`, "/api/version": `{"server":"1.2.3","core":"1.2","api":"service/v1"}`,
	} {
		got := r.do("GET", path, "")
		require.Equal(t, http.StatusOK, got.status)
		require.JSONEq(t, want, got.body)
		require.Equal(t, "application/json", got.header.Get("Content-Type"))
		head := r.do("HEAD", path, "")
		require.Equal(t, http.StatusOK, head.status)
		require.Empty(t, head.body)
	}
	require.Empty(t, r.all())
}

func TestClientAddressFromTrustedProxy(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.TrustedProxies = []string{"127.0.0.0/8", "10.0.0.0/8"} })
	r.do("GET", "/api/jobs", "", as(userToken, "X-Forwarded-For", "6.6.6.6, 203.0.113.9, 10.1.1.1")...)
	require.Equal(t, "203.0.113.9", r.all()[0].in.(*authpeerv1.AuthenticateRequest).GetClientAddress())
	require.Equal(t, "203.0.113.9:0", r.do("POST", "/api/ingest/logs", "x", "X-Forwarded-For", "6.6.6.6, 203.0.113.9").header.Get("X-Remote"))
}

func TestNewGatewayRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	_, err := gateway.New(t.Context(), gateway.Config{}, gateway.Deps{})
	require.ErrorContains(t, err, "ingest has neither a handler")
	_, err = gateway.New(t.Context(), gateway.Config{IngestAddr: "127.0.0.1:1"}, gateway.Deps{})
	require.ErrorContains(t, err, "the connection to ingest has no TLS settings")
	_, err = gateway.New(t.Context(), gateway.Config{TrustedProxies: []string{"x"}}, gateway.Deps{})
	require.ErrorContains(t, err, "trusted proxy")
}
