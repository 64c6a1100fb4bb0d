// Package maintenancetest holds what needs a whole installation for itself: maintenance and draining over the wire, and the
// API by gRPC, in both shapes.
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

// TestEdge walks through both shapes; the last part ends the installation.
func TestEdge(t *testing.T) {
	for _, shape := range []string{"single", "split"} {
		t.Run(shape, func(t *testing.T) {
			s := testenv.Shapes()[shape](t, testenv.Options{})
			admin := signIn(t, s)
			t.Run("every call by gRPC", func(t *testing.T) { everyCall(t, s, admin, member(t, s, admin)) })
			t.Run("the examples of the gRPC page", func(t *testing.T) { examples(t, s, admin) })
			t.Run("maintenance", func(t *testing.T) { maintenance(t, s, shape, admin) })
			t.Run("draining", func(t *testing.T) { draining(t, s, shape, admin) })
		})
	}
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) into(t testing.TB, out any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(a.body), out), a.body)
}

func (a answer) code(t testing.TB) string {
	t.Helper()
	var said struct{ Code string }
	a.into(t, &said)
	return said.Code
}

// ask sends one request over a connection of its own.
func ask(ctx context.Context, base, token, method, path, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	_, err = io.Copy(&b, resp.Body)
	return answer{resp.StatusCode, resp.Header, b.String()}, err
}

// do is ask that must be answered.
func do(t testing.TB, base, token, method, path, body string) answer {
	t.Helper()
	a, err := ask(t.Context(), base, token, method, path, body)
	require.NoError(t, err, "%s %s", method, path)
	return a
}

func signIn(t testing.TB, s *testenv.Stand) string {
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

// member is an operator who has a password of his own.
func member(t testing.TB, s *testenv.Stand, admin string) string {
	t.Helper()
	const own = "an operator's own words"
	made := do(t, s.URL, admin, http.MethodPost, "/api/admin/users", `{"username": "olga", "role": "operator"}`)
	require.Equal(t, http.StatusCreated, made.status, made.body)
	var drawn struct{ Password string }
	made.into(t, &drawn)
	token := logIn(t, s.URL, "olga", drawn.Password)
	body, err := json.Marshal(map[string]string{"current_password": drawn.Password, "new_password": own})
	require.NoError(t, err)
	changed := do(t, s.URL, token, http.MethodPost, "/api/profile/password", string(body))
	require.Equal(t, http.StatusOK, changed.status, changed.body)
	return logIn(t, s.URL, "olga", own)
}
