package webpage

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestOIDCStart(t *testing.T) {
	t.Parallel()
	for secure, want := range map[bool]string{
		true:  "__Host-service_oidc=b1nding; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax",
		false: "service_oidc=b1nding; Path=/auth/callback; Max-Age=600; HttpOnly; SameSite=Lax",
	} {
		h := newHarness(t, secure)
		got := h.get("/api/auth/oidc/start?next=/jobs", "Sec-Fetch-Dest", "document")
		require.Equal(t, http.StatusFound, got.Code)
		require.Equal(t, provider, got.Header().Get("Location"))
		require.Equal(t, []string{want}, got.Header().Values("Set-Cookie"))
		require.Empty(t, got.Body.String(), "the body must not contain the state")
		require.Equal(t, "/jobs", h.begun[0].GetNext())
		require.Equal(t, "203.0.113.9", h.begun[0].GetClientAddress(), "auth limits sign-ins per address")
	}
	h := newHarness(t, true)
	for _, next := range []string{"", "?next=//evil.example", "?next=https://evil.example"} {
		require.Equal(t, http.StatusFound, h.get("/api/auth/oidc/start"+next).Code)
		require.Equal(t, "/login", h.begun[len(h.begun)-1].GetNext(), next)
	}
}

func TestOIDCStartWithoutProvider(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	h.err = fault.New(fault.Unconfigured, "", "sign-in by a provider is not configured")
	got := h.get("/api/auth/oidc/start")
	require.Equal(t, http.StatusNotImplemented, got.Code)
	require.Contains(t, got.Body.String(), "Sign-in by a provider is not configured.")
	require.Empty(t, got.Header().Values("Set-Cookie"))
	require.JSONEq(t, `{"detail":"sign-in by a provider is not configured"}`, h.get("/api/auth/oidc/start", "Accept", "*/*").Body.String())
	for _, at := range []string{"", "/login", "javascript:alert(1)", "file:///etc/passwd", "https:///x", "://"} {
		h := newHarness(t, true)
		h.at = at
		got := h.get("/api/auth/oidc/start")
		require.Equal(t, http.StatusInternalServerError, got.Code, at)
		require.Empty(t, got.Header().Get("Location"), at)
		require.Empty(t, got.Header().Values("Set-Cookie"), at)
	}
}

func TestOIDCCallback(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	got := h.get("/auth/callback?code=c0de&state=st4te&iss=https://i.example&session_state=x&scope=openid", "Cookie", "__Host-service_oidc=b1nding; service_oidc=sibling")
	require.Equal(t, http.StatusSeeOther, got.Code)
	require.Equal(t, "/jobs?a=b", got.Header().Get("Location"))
	require.Equal(t, []string{
		"__Host-service_oidc=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax", session,
	}, got.Header().Values("Set-Cookie"), "the binding cookie is cleared and the session cookie set")
	want := &authpeerv1.FinishOidcRequest{Code: "c0de", State: "st4te", Iss: "https://i.example", Binding: bound, ClientAddress: "203.0.113.9"}
	require.Empty(t, cmp.Diff(want, h.finished[0], protocmp.Transform()))
	for _, next := range []string{"", "//evil.example", "https://evil.example", `/\evil.example`} {
		h.next = next
		got := h.get("/auth/callback?code=c0de&state=st4te")
		require.Equal(t, "/login", got.Header().Get("Location"), "auth's value is checked, too")
	}
}

func TestOIDCBindingCookieMustBeUnique(t *testing.T) {
	t.Parallel()
	for cookie, want := range map[string]string{
		"": "", "service_oidc=b1nding": "b1nding", "service_oidc=a; service_oidc=b": "", "__Host-service_oidc=a": "", "service_oidc=": "",
	} {
		h := newHarness(t, false)
		h.get("/auth/callback?code=c0de&state=st4te", "Cookie", cookie)
		require.Equal(t, want, h.finished[0].GetBinding(), cookie)
	}
}

func TestOIDCCallbackProviderError(t *testing.T) {
	t.Parallel()
	h := newHarness(t, false)
	h.err = fault.New(fault.Forbidden, "oidc", "the provider refused: access_denied")
	got := h.get("/auth/callback?error=access_denied&error_description=%3Cscript%3Ealert(1)%3C/script%3E&state=st4te", "Cookie", "service_oidc=b1nding")
	require.Equal(t, http.StatusForbidden, got.Code)
	require.Equal(t, "access_denied", h.finished[0].GetError(), "auth gets the error and ends the sign-in")
	body := got.Body.String()
	require.Contains(t, body, "Sign-in failed")
	require.Contains(t, body, "The provider refused: access_denied.")
	require.Contains(t, body, `href="/login"`)
	require.NotContains(t, body, "alert(1)", "the provider's description is not shown")
	require.Equal(t, []string{"service_oidc=; Path=/auth/callback; Max-Age=0; HttpOnly; SameSite=Lax"}, got.Header().Values("Set-Cookie"), "no session cookie is set")
}

func TestOIDCCallbackRejectsInvalidResponse(t *testing.T) {
	t.Parallel()
	for name, query := range map[string]string{
		"empty": "", "no state": "code=c0de", "no code": "state=st4te", "both": "code=c0de&error=e&state=st4te", "two codes": "code=a&code=b&state=st4te",
		"two states": "code=a&state=a&state=b", "two issuers": "code=a&state=b&iss=c&iss=d", "a long code": "state=a&code=" + strings.Repeat("x", 4097),
		"a long state": "code=a&state=" + strings.Repeat("x", 513), "no ASCII": "code=a&state=%C3%A9", "a control": "code=a&state=%00", "a semicolon": "code=a;state=b",
		"half an escape": "code=a&state=%4",
	} {
		h := newHarness(t, false)
		got := h.get("/auth/callback?"+query, "Cookie", "service_oidc=b1nding")
		require.Equal(t, http.StatusBadRequest, got.Code, name)
		require.Contains(t, got.Body.String(), `href="/login"`, name)
		require.Empty(t, h.finished, "%s: auth is not called", name)
		require.Empty(t, got.Header().Values("Set-Cookie"), "%s: an invalid request must not end a sign-in in progress", name)
	}
}

func TestOIDCRefusesSubresourceRequests(t *testing.T) {
	t.Parallel()
	for _, dest := range []string{"image", "iframe", "script", "empty", "object"} {
		h := newHarness(t, true)
		require.Equal(t, http.StatusForbidden, h.get("/api/auth/oidc/start", "Sec-Fetch-Dest", dest).Code, dest)
		require.Equal(t, http.StatusForbidden, h.get("/auth/callback?code=a&state=b", "Sec-Fetch-Dest", dest).Code, dest)
		require.Empty(t, h.begun)
		require.Empty(t, h.finished)
	}
}
