package oauthform_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/oauthform"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func (a *auth) get(method, path string, oidc bool, failed error) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	(&oauthform.WellKnown{
		Documents: a, OIDC: func(*http.Request) (bool, error) { return oidc, failed }, Log: slog.New(slog.DiscardHandler),
		Fail: func(w http.ResponseWriter, _ *http.Request, err error) { fault.Write(w, err, "") },
	}).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestWellKnownDocumentPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"oauth-authorization-server": "authorization-server", "oauth-authorization-server/api/mcp": "authorization-server", "openid-configuration": "authorization-server",
		"oauth-protected-resource": "protected-resource", "oauth-protected-resource/api/mcp": "protected-resource", "jwks.json": "jwks",
	} {
		a := newFakeAuth()
		w := a.get(http.MethodGet, "/.well-known/"+path, true, nil)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.JSONEq(t, a.body, w.Body.String())
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"))
		require.Equal(t, want, a.requests[0].(*authpeerv1.GetMetadataRequest).GetDocument(), path)
		preflight := a.get(http.MethodOptions, "/.well-known/"+path, true, nil)
		require.Equal(t, http.StatusNoContent, preflight.Code)
		require.Equal(t, "GET, HEAD", preflight.Header().Get("Access-Control-Allow-Methods"))
		require.Len(t, a.requests, 1)
	}
}

func TestOpenIDDocumentRequiresProvider(t *testing.T) {
	t.Parallel()
	a := newFakeAuth()
	w := a.get(http.MethodGet, "/.well-known/openid-configuration", false, nil)
	require.Equal(t, http.StatusNotFound, w.Code)
	require.JSONEq(t, `{"detail":"Not Found"}`, w.Body.String())
	require.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"), "a page of any origin may read the 404")
	w = a.get(http.MethodGet, "/.well-known/openid-configuration", false, fault.New(fault.Unavailable, "", "auth is unreachable"))
	require.Equal(t, http.StatusServiceUnavailable, w.Code, "if the settings cannot be read, the response is 503 and not 404")
	require.Empty(t, a.requests)
}

func TestWellKnownFailures(t *testing.T) {
	t.Parallel()
	a := newFakeAuth()
	a.err = fault.New(fault.Unavailable, "", "auth is unreachable")
	require.Equal(t, http.StatusServiceUnavailable, a.get(http.MethodGet, "/.well-known/jwks.json", false, nil).Code)
	a.err = errors.New("odd")
	require.Equal(t, http.StatusInternalServerError, a.get(http.MethodGet, "/.well-known/jwks.json", false, nil).Code)
	a = newFakeAuth()
	a.body = "<html>"
	w := a.get(http.MethodGet, "/.well-known/jwks.json", false, nil)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), "<html>")
}
