package oauthform_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/signalbox-dev/signalbox/gateway/internal/oauthform"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestOAuthPathsMapToCalls(t *testing.T) {
	t.Parallel()
	fields := map[string]string{"client_id": "a b", "token": "x"}
	for path, want := range map[string]proto.Message{
		oauthform.PathToken:  &authpeerv1.IssueTokenRequest{Form: fields, ClientAddress: client},
		oauthform.PathRevoke: &authpeerv1.RevokeTokenRequest{Form: fields},
		oauthform.PathDevice: &authpeerv1.AuthorizeDeviceRequest{Form: fields, ClientAddress: client},
	} {
		a := newFakeAuth()
		w := a.post(path, "client_id=a+b&token=x")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Len(t, a.requests, 1)
		require.Empty(t, cmp.Diff(want, a.requests[0], protocmp.Transform()))
	}
	a := newFakeAuth()
	require.Equal(t, http.StatusInternalServerError, a.post("/api/oauth/other", "a=b").Code)
	require.Empty(t, a.requests)
}

// manyFields returns n different fields.
func manyFields(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("f%d=%d", i, i)
	}
	return out
}

func TestFormsAccepted(t *testing.T) {
	t.Parallel()
	whole := map[string]string{}
	for i := range oauthform.MaxFields {
		whole[fmt.Sprintf("f%d", i)] = fmt.Sprint(i)
	}
	for name, tc := range map[string]struct {
		body string
		want map[string]string
	}{
		"empty":            {"", map[string]string{}},
		"escapes":          {"scope=read+jobs%3Aplan&x%5Fy=%C3%A9", map[string]string{"scope": "read jobs:plan", "x_y": "é"}},
		"a bare blank":     {"scope=read jobs", map[string]string{"scope": "read jobs"}},
		"a bare equals":    {"code=ab==", map[string]string{"code": "ab=="}},
		"no value":         {"state=&a=b&flag", map[string]string{"a": "b"}},
		"an escaped amper": {"a=b%26c%3Dd", map[string]string{"a": "b&c=d"}},
		"maximum fields":   {strings.Join(manyFields(oauthform.MaxFields), "&"), whole},
		"maximum size": {
			"a=" + strings.Repeat("x", oauthform.MaxBody-2), map[string]string{"a": strings.Repeat("x", oauthform.MaxBody-2)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newFakeAuth()
			for _, typ := range []string{"application/x-www-form-urlencoded", "Application/X-WWW-Form-URLencoded; charset=UTF-8"} {
				w := a.post(oauthform.PathRevoke, tc.body, "Content-Type", typ)
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				in := a.requests[len(a.requests)-1].(*authpeerv1.RevokeTokenRequest)
				require.Empty(t, cmp.Diff(&authpeerv1.RevokeTokenRequest{Form: tc.want}, in, protocmp.Transform()))
			}
		})
	}
}

// refusal is a request whose form is invalid and must not reach auth.
type refusal struct {
	path, body string
	headers    []string
	want       int
}

const secret = "grant_type=x&code=s3cret"

func refusals() map[string]refusal {
	return map[string]refusal{
		"a field twice":         {"", "code=s3cret&code=s3cret", nil, 400},
		"twice by escape":       {"", "code=s3cret&%63ode=other", nil, 400},
		"twice, one empty":      {"", "code=&code=s3cret", nil, 400},
		"too many fields":       {"", strings.Join(manyFields(oauthform.MaxFields+1), "&"), nil, 400},
		"many empty ones":       {"", strings.Repeat("&", 100), nil, 400},
		"an empty name":         {"", "=s3cret", nil, 400},
		"an empty pair":         {"", "a=b&&c=d", nil, 400},
		"a semicolon":           {"", "a=b;code=s3cret", nil, 400},
		"half an escape":        {"", "a=%4", nil, 400},
		"no escape":             {"", "a=%zz", nil, 400},
		"no UTF-8":              {"", "a=%ff", nil, 400},
		"no UTF-8, bare":        {"", "a=\xff", nil, 400},
		"overlong UTF-8":        {"", "a=%c0%80", nil, 400},
		"no UTF-8 in a name":    {"", "%ff=a", nil, 400},
		"NUL":                   {"", "a=b%00", nil, 400},
		"a line break":          {"", "a=b%0d%0aX-Y: z", nil, 400},
		"a control of C1":       {"", "a=%c2%85", nil, 400},
		"in the query":          {"?code=s3cret", "grant_type=x", nil, 400},
		"an empty query":        {"?", secret, nil, 400},
		"too large":             {"", "a=" + strings.Repeat("x", oauthform.MaxBody), nil, 413},
		"JSON":                  {"", `{"code":"s3cret"}`, []string{"Content-Type", "application/json"}, 415},
		"multipart":             {"", secret, []string{"Content-Type", "multipart/form-data; boundary=x"}, 415},
		"text":                  {"", secret, []string{"Content-Type", "text/plain"}, 415},
		"no type":               {"", secret, []string{"Content-Type", ""}, 415},
		"an invalid type":       {"", secret, []string{"Content-Type", "application/x-www-form-urlencoded; charset"}, 415},
		"another charset":       {"", secret, []string{"Content-Type", "application/x-www-form-urlencoded; charset=utf-16"}, 415},
		"compressed":            {"", secret, []string{"Content-Encoding", "gzip"}, 415},
		"a repeated type":       {"", secret, []string{"Content-Type", "application/x-www-form-urlencoded", "content-type", "application/json"}, 415},
		"a client with secrets": {"", secret, []string{"Authorization", "Basic YTpi"}, 401},
	}
}

func TestFormsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newFakeAuth()
			w := a.post(oauthform.PathToken+tc.path, tc.body, tc.headers...)
			require.Equal(t, tc.want, w.Code, w.Body)
			word, _ := problem(t, w)
			require.Equal(t, map[bool]string{true: "invalid_client", false: "invalid_request"}[tc.want == 401], word)
			require.NotContains(t, w.Body.String(), "s3cret", "the response must not repeat the form")
			require.Empty(t, a.requests, "auth is not called")
		})
	}
	w := newFakeAuth().post(oauthform.PathToken, secret, "Authorization", "basic YTpi")
	require.Equal(t, `Basic realm="signalbox"`, w.Header().Get("WWW-Authenticate"), "the challenge names the attempted scheme")
	require.Equal(t, http.StatusOK, newFakeAuth().post(oauthform.PathToken, secret, "Authorization", "Bearer x").Code, "a bearer is ignored")
}

func TestFormSizeWithoutLength(t *testing.T) {
	t.Parallel()
	a := newFakeAuth()
	req := httptest.NewRequest(http.MethodPost, oauthform.PathToken, io.NopCloser(strings.NewReader("a="+strings.Repeat("x", oauthform.MaxBody))))
	req.ContentLength = -1
	require.Equal(t, http.StatusRequestEntityTooLarge, a.send(req).Code)
	cut := httptest.NewRequest(http.MethodPost, oauthform.PathToken, io.MultiReader(strings.NewReader("a=b"), broken{}))
	w := a.send(cut)
	require.Equal(t, http.StatusBadRequest, w.Code)
	word, _ := problem(t, w)
	require.Equal(t, "invalid_request", word)
	require.Empty(t, a.requests, "an incomplete form does not reach auth")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("gone") }

func TestAuthResponsePassedOn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		from *authpeerv1.OAuthAnswer
		code int
		body string
	}{
		"a token":     {&authpeerv1.OAuthAnswer{Status: 200, Body: []byte(`{"access_token":"x","expires_in":3600}`)}, 200, `{"access_token":"x","expires_in":3600}`},
		"no body":     {&authpeerv1.OAuthAnswer{Status: 200}, 200, ""},
		"an error":    {&authpeerv1.OAuthAnswer{Status: 400, Body: []byte(`{"error":"invalid_grant"}`)}, 400, `{"detail":"invalid_grant","error":"invalid_grant"}`},
		"description": {&authpeerv1.OAuthAnswer{Status: 401, Body: []byte(`{"error":"e","error_description":"d"}`)}, 401, `{"detail":"d","error":"e","error_description":"d"}`},
		"with detail": {&authpeerv1.OAuthAnswer{Status: 400, Body: []byte(`{"error":"e","detail":"mine"}`)}, 400, `{"detail":"mine","error":"e"}`},
		"retry later": {&authpeerv1.OAuthAnswer{Status: 429, Body: []byte(`{"error":"slow_down"}`), RetryAfterSeconds: 7}, 429, `{"detail":"slow_down","error":"slow_down"}`},
	} {
		a := newFakeAuth()
		a.response = tc.from
		w := a.post(oauthform.PathToken, "a=b")
		require.Equal(t, tc.code, w.Code, name)
		require.Equal(t, tc.body, w.Body.String(), name)
		require.Equal(t, tc.body == "", w.Header().Get("Content-Type") == "", name)
		require.Equal(t, tc.from.GetRetryAfterSeconds() > 0, w.Header().Get("Retry-After") == "7", name)
	}
}

func TestInvalidAuthResponseIsServerError(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]*authpeerv1.OAuthAnswer{
		"no status": {Body: []byte(`{}`)}, "an interim status": {Status: 101}, "a redirect": {Status: 302, Body: []byte(`{}`)}, "a large status": {Status: 1000},
		"no JSON": {Status: 200, Body: []byte(`s3cret`)}, "no error code": {Status: 400, Body: []byte(`{"a":"s3cret"}`)}, "no object": {Status: 400, Body: []byte(`["s3cret"]`)},
	} {
		a := newFakeAuth()
		a.response = response
		w := a.post(oauthform.PathToken, "a=b")
		require.Equal(t, http.StatusInternalServerError, w.Code, name)
		word, _ := problem(t, w)
		require.Equal(t, "server_error", word, name)
		require.NotContains(t, w.Body.String(), "s3cret", name)
	}
}

func TestAuthFaultsMapToRFCCodes(t *testing.T) {
	t.Parallel()
	for kind, want := range map[fault.Kind]string{
		fault.Invalid: "invalid_request", fault.Refused: "invalid_request", fault.Absent: "invalid_request", fault.Unauthenticated: "invalid_client",
		fault.Forbidden: "access_denied", fault.Limited: "temporarily_unavailable", fault.Unavailable: "temporarily_unavailable",
		fault.Dependency: "temporarily_unavailable", fault.Internal: "server_error", fault.Unconfigured: "server_error",
	} {
		a := newFakeAuth()
		a.err = fault.New(kind, "", "quoted \"so\" \\ é")
		w := a.post(oauthform.PathToken, "a=b")
		require.Equal(t, fault.HTTPStatus(kind), w.Code, kind)
		word, text := problem(t, w)
		require.Equal(t, want, word, kind)
		if kind != fault.Internal {
			require.Equal(t, "quoted 'so' ' ?", text, kind)
		}
		require.Equal(t, kind == fault.Limited || kind == fault.Unavailable, w.Header().Get("Retry-After") != "", kind)
	}
}

func TestCORSAllowsAnyOrigin(t *testing.T) {
	t.Parallel()
	a := newFakeAuth()
	w := a.send(httptest.NewRequest(http.MethodOptions, oauthform.PathToken, nil),
		"Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "mcp-protocol-version")
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Equal(t, "POST", w.Header().Get("Access-Control-Allow-Methods"))
	require.Contains(t, w.Header().Get("Access-Control-Allow-Headers"), "MCP-Protocol-Version")
	require.Empty(t, a.requests)
	for _, got := range []*httptest.ResponseRecorder{w, a.post(oauthform.PathToken, "a=b", "Origin", "https://app.example"), a.post(oauthform.PathToken, "a=b&a=b")} {
		require.Equal(t, "*", got.Header().Get("Access-Control-Allow-Origin"))
		require.Empty(t, got.Header().Get("Access-Control-Allow-Credentials"), "browsers must not send cookies")
		require.Empty(t, got.Header().Values("Set-Cookie"))
	}
	require.Equal(t, "no-cache", a.post(oauthform.PathToken, "a=b").Header().Get("Pragma"))
}

// If a page of another site could start a device flow in its visitor's browser, the request would come from the
// visitor's own address. That address is what the visitor checks before approving, and the page could then poll for
// the token.
func TestDeviceFlowRefusesForeignPages(t *testing.T) {
	t.Parallel()
	const origin = "https://evil.example"
	poll := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {"dvc_x"}}.Encode()
	for path, body := range map[string]string{oauthform.PathDevice: "client_id=signalbox-cli", oauthform.PathToken: poll} {
		a := newFakeAuth()
		got := a.post(path, body, "Origin", origin)
		require.Equal(t, http.StatusForbidden, got.Code, path)
		word, _ := problem(t, got)
		require.Equal(t, "access_denied", word)
		require.Empty(t, a.requests, "%s: no code is created, and no poll counts against the visitor's limit", path)
		require.Equal(t, http.StatusOK, a.post(path, body).Code, path)
	}
	a := newFakeAuth()
	preflight := a.send(httptest.NewRequest(http.MethodOptions, oauthform.PathDevice, nil), "Origin", origin, "Access-Control-Request-Method", "POST")
	require.Equal(t, http.StatusNoContent, preflight.Code)
	for _, got := range []*httptest.ResponseRecorder{preflight, a.post(oauthform.PathDevice, "client_id=x", "Origin", origin), a.post(oauthform.PathDevice, "client_id=x")} {
		require.Empty(t, got.Header().Get("Access-Control-Allow-Origin"), "a page of another origin cannot read the response either")
	}
}
