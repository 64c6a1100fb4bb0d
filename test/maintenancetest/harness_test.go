// Package maintenancetest tests maintenance, draining and the API over gRPC. These tests change the state of a complete
// installation, so they need an installation of their own, with a single process or with one process per service.
package maintenancetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestMaintenanceAndDraining sends requests over REST and gRPC to an installation, both during maintenance and while
// the installation stops.
func TestMaintenanceAndDraining(t *testing.T) {
	for kind, start := range testenv.DrawnKinds(t) {
		t.Run(kind, func(t *testing.T) {
			s := start(t, testenv.Options{})
			admin := signIn(t, s)
			t.Run("every call through gRPC", func(t *testing.T) { requireSameOutcomes(t, s, admin, member(t, s, admin)) })
			t.Run("examples of the gRPC page", func(t *testing.T) { examples(t, s, admin) })
			t.Run("maintenance", func(t *testing.T) { maintenance(t, s, kind, admin) })
			t.Run("draining", func(t *testing.T) { draining(t, s, kind, admin) })
		})
	}
}

// response is a response whose body has been read.
type response struct {
	status int
	header http.Header
	body   string
}

func (a response) into(t testing.TB, out any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(a.body), out), a.body)
}

func (a response) code(t testing.TB) string {
	t.Helper()
	var failure struct{ Code string }
	a.into(t, &failure)
	return failure.Code
}

// request sends one request over a new connection.
func request(ctx context.Context, base, token, method, path, body string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return perform(req)
}

// perform sends one request over a new connection.
func perform(req *http.Request) (response, error) {
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	_, err = io.Copy(&b, resp.Body)
	return response{resp.StatusCode, resp.Header, b.String()}, err
}

// do is like request, but fails the test if there is no response.
func do(t testing.TB, base, token, method, path, body string) response {
	t.Helper()
	a, err := request(t.Context(), base, token, method, path, body)
	require.NoError(t, err, "%s %s", method, path)
	return a
}

func signIn(t testing.TB, s *testenv.Installation) string {
	t.Helper()
	return logIn(t, s.URL, "admin", s.Password.Reveal())
}

func logIn(t testing.TB, base, username, password string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"username": username, "password": password})
	require.NoError(t, err)
	a := do(t, base, "", http.MethodPost, "/api/auth/login", string(body))
	require.Equal(t, http.StatusOK, a.status, a.body)
	var in struct{ Token string }
	a.into(t, &in)
	return in.Token
}

// member creates a user with the role operator, changes the user's password and returns an access token of the user.
func member(t testing.TB, s *testenv.Installation, admin string) string {
	t.Helper()
	const own = "an operator's own words"
	made := do(t, s.URL, admin, http.MethodPost, "/api/admin/users", `{"username": "olga", "role": "operator"}`)
	require.Equal(t, http.StatusCreated, made.status, made.body)
	var reset struct{ Password string }
	made.into(t, &reset)
	token := logIn(t, s.URL, "olga", reset.Password)
	body, err := json.Marshal(map[string]string{"current_password": reset.Password, "new_password": own})
	require.NoError(t, err)
	changed := do(t, s.URL, token, http.MethodPost, "/api/profile/password", string(body))
	require.Equal(t, http.StatusOK, changed.status, changed.body)
	return logIn(t, s.URL, "olga", own)
}
