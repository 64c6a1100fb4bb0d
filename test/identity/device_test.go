package identity_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// reply is a response whose body has been read.
type reply struct {
	status int
	header http.Header
	body   string
}

// fields returns the members of the JSON object in the body.
func (a reply) fields(t *testing.T) (out map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(a.body), &out), a.body)
	return out
}

// send sends a request. If bearer is empty, the request has no credential.
func send(ctx context.Context, t *testing.T, s *testenv.Installation, method, path, body, bearer string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return reply{status: res.StatusCode, header: res.Header, body: string(raw)}
}

// requireForeignPagesRejected sends the requests that a page of another site can make a visitor's browser send. Every
// request must be rejected, even if the page has bound its own host name to the installation's address. Otherwise the
// page could start a device flow that shows the visitor's address.
func requireForeignPagesRejected(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	poll := "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&client_id=signalbox-cli&device_code=x"
	const form, object = "application/x-www-form-urlencoded", "application/json"
	for _, way := range []struct{ path, typ, body string }{
		{"/api/oauth/device_authorization", form, "client_id=signalbox-cli"},
		{"/api/oauth/token", form, poll},
		{"/api/cli/device/code", object, "{}"},
		{"/api/cli/device/token", object, `{"device_code":"x"}`},
	} {
		for _, host := range []string{"", "evil.example:8080"} {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+way.path, strings.NewReader(way.body))
			require.NoError(t, err)
			req.Host = host
			req.Header.Set("Content-Type", way.typ)
			req.Header.Set("Origin", "http://evil.example:8080") // the same origin if the host name is bound to the installation
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusForbidden, res.StatusCode, "%s with the host %q must be rejected", way.path, host)
		}
	}
}

// requireJSONDeviceFlow runs the device flow with the specification's JSON routes.
func requireJSONDeviceFlow(ctx context.Context, t *testing.T, s *testenv.Installation, person string) {
	t.Helper()
	begun := send(ctx, t, s, http.MethodPost, "/api/cli/device/code", `{"client_name":"laptop"}`, "")
	require.Equal(t, http.StatusOK, begun.status, begun.body)
	codes := begun.fields(t)
	for _, name := range []string{"device_code", "user_code", "verification_uri", "verification_uri_complete"} {
		require.IsType(t, "", codes[name], name)
	}
	require.Equal(t, []any{900.0, 5.0}, []any{codes["expires_in"], codes["interval"]})
	require.Len(t, codes, 6)
	poll := func() reply {
		return send(ctx, t, s, http.MethodPost, "/api/cli/device/token", `{"device_code":"`+codes["device_code"].(string)+`"}`, "")
	}
	first := poll()
	require.Equal(t, http.StatusBadRequest, first.status)
	require.Equal(t, `{"detail":"authorization_pending","error":"authorization_pending"}`, strings.TrimSpace(first.body), "the body must match exactly")

	request := "/api/cli/device/requests/" + codes["user_code"].(string)
	require.Equal(t, http.StatusUnauthorized, send(ctx, t, s, http.MethodGet, request, "", "").status, "the user must be signed in")
	for range 2 { // the page may be loaded twice or prefetched
		shown := send(ctx, t, s, http.MethodGet, request, "", person)
		require.Equal(t, http.StatusOK, shown.status, shown.body)
		require.Equal(t, []any{"laptop", "pending"}, []any{shown.fields(t)["client_name"], shown.fields(t)["state"]})
	}
	decided := send(ctx, t, s, http.MethodPost, request, `{"decision":"approve"}`, person)
	require.Equal(t, http.StatusOK, decided.status, decided.body)
	require.Equal(t, http.StatusConflict, send(ctx, t, s, http.MethodPost, request, `{"decision":"deny"}`, person).status)
	token := poll()
	require.Equal(t, http.StatusOK, token.status, token.body)
	given := token.fields(t)
	require.Len(t, given, 3)
	require.Equal(t, []any{"Bearer", 8 * 3600.0}, []any{given["token_type"], given["expires_in"]})
	require.Equal(t, http.StatusOK, send(ctx, t, s, http.MethodGet, "/api/auth/me", "", given["access_token"].(string)).status)
	require.Equal(t, "invalid_grant", poll().fields(t)["error"])
	require.Empty(t, token.header.Values("Set-Cookie"), "a device must not receive a refresh token")

	// The limit is 20 polls per minute. The requests above have used some of them.
	for n := 0; ; n++ {
		require.Less(t, n, 20)
		if a := poll(); a.status != http.StatusBadRequest {
			require.Equal(t, http.StatusTooManyRequests, a.status, a.body)
			wait, err := strconv.Atoi(a.header.Get("Retry-After"))
			require.NoError(t, err)
			require.Positive(t, wait)
			require.LessOrEqual(t, wait, 60)
			return
		}
	}
}
