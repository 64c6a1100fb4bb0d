package identity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// These constants describe an OAuth client that is not part of the installation.
const (
	programID       = "https://client.example/metadata"
	programRedirect = "http://127.0.0.1:51234/cb"
)

// insertOAuthClient inserts the client into the installation's database, because the API has no route that
// registers one.
func insertOAuthClient(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	dir := filepath.Join(s.Dir, "data", "postgres")
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	require.NoError(t, err)
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	lines := strings.Split(string(pid), "\n")
	require.Greater(t, len(lines), 4)
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(string(password))),
		Host: "127.0.0.1:" + lines[3], Path: "/signalbox", // the port is the file's fourth line
	}
	conn, err := pgx.Connect(ctx, u.String())
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, `INSERT INTO auth.oauth_client (id, name, redirect_uris, created_at) VALUES ($1, 'Program', $2, now())`,
		programID, []string{"http://127.0.0.1/cb"})
	require.NoError(t, err)
}

// adminToken returns the access token of the installation's admin.
func adminToken(ctx context.Context, t *testing.T, s *testenv.Installation) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"username": "admin", "password": s.Password.Reveal()})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/auth/login", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	var out struct{ Token string }
	require.NoError(t, json.NewDecoder(res.Body).Decode(&out))
	require.NotEmpty(t, out.Token)
	return out.Token
}

// oauthReport is the report of the strict OAuth client.
type oauthReport struct {
	Resource string
	Cache    string
	Device   struct {
		Interval, Expires, Lives                  int
		Complete, Pending, Fast, Client, Approved string
		Type, Me, Again, Denied                   string
		Page                                      int
		Asked                                     struct {
			ClientName    string `json:"client_name"`
			ClientAddress string `json:"client_address"`
			State         string
		}
	}
	Code struct {
		Denied, Verifier, Target, Scope, Reuse, Family, Replay, Replayed, Revoked string
		API                                                                       int
		Claims                                                                    struct {
			Iss, Aud, Scope string
			ClientID        string `json:"client_id"`
			Lives           int
		}
	}
}

// runOAuthClient runs the strict OAuth client.
func runOAuthClient(ctx context.Context, t *testing.T, s *testenv.Installation, person string) oauthReport {
	t.Helper()
	folder := filepath.Join(testenv.Root(t), "test", "identity", "oauth4webapi")
	task, err := json.Marshal(map[string]string{
		"base": s.URL, "resource": s.URL + "/api/mcp", "person": person, "client": programID, "redirect": programRedirect,
	})
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, testenv.Tool(ctx, t, "node.sh"), filepath.Join(folder, "device.mjs"))
	cmd.Env = append(os.Environ(), "NODE_MODULES="+testenv.Tool(ctx, t, "npm.sh", folder))
	var reported bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(task), &reported
	out, err := cmd.Output()
	require.NoError(t, err, reported.String()+s.Tail())
	var w oauthReport
	require.NoError(t, json.Unmarshal(out, &w))
	return w
}

// TestAuthorizationServer tests the device flow with its OAuth and JSON routes, and the code flow.
func TestAuthorizationServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s := testenv.Single(t, testenv.Options{Env: map[string]string{"SERVICE_AUTH_HASH_MEMORY_KIB": "64", "SERVICE_AUTH_HASH_ITERATIONS": "1"}})
	insertOAuthClient(ctx, t, s)
	person := adminToken(ctx, t, s)
	t.Run("strict client", func(t *testing.T) { strictClient(ctx, t, s, person) })
	t.Run("pages of other sites", func(t *testing.T) { requireForeignPagesRejected(ctx, t, s) })
	t.Run("JSON routes", func(t *testing.T) { requireJSONDeviceFlow(ctx, t, s, person) })
}

// strictClient runs oauth4webapi, which checks every response against the RFCs. It uses discovery, the
// device flow with OAuth forms, and the code flow with refresh and revocation.
func strictClient(ctx context.Context, t *testing.T, s *testenv.Installation, person string) {
	t.Helper()
	w := runOAuthClient(ctx, t, s, person)
	require.Equal(t, s.URL+"/api/mcp", w.Resource)
	require.Contains(t, w.Cache, "no-store")

	d := w.Device
	require.Equal(t, []int{5, 900, 8 * 3600, http.StatusOK}, []int{d.Interval, d.Expires, d.Lives, d.Page})
	require.True(t, strings.HasPrefix(d.Complete, s.URL+"/device?user_code="), d.Complete)
	require.Equal(t, "400 authorization_pending", d.Pending)
	require.Equal(t, "400 slow_down", d.Fast)
	require.Equal(t, "400 unauthorized_client", d.Client)
	require.Equal(t, []string{"Signalbox CLI", "127.0.0.1", "pending"}, []string{d.Asked.ClientName, d.Asked.ClientAddress, d.Asked.State},
		"opening the page and reading the request must not approve or deny it")
	require.Equal(t, []string{"approved", "bearer", "admin"}, []string{d.Approved, d.Type, d.Me})
	require.Equal(t, "400 invalid_grant", d.Again)
	require.Equal(t, "400 access_denied", d.Denied)

	c := w.Code
	require.Equal(t, "access_denied", c.Denied)
	require.Equal(t, "400 invalid_grant", c.Verifier)
	require.Equal(t, "400 invalid_target", c.Target)
	require.Equal(t, []string{s.URL, s.URL + "/api/mcp", "read", programID}, []string{c.Claims.Iss, c.Claims.Aud, c.Claims.Scope, c.Claims.ClientID})
	require.Equal(t, 3600, c.Claims.Lives)
	require.Equal(t, http.StatusUnauthorized, c.API, "the API must reject a token for the MCP resource")
	require.Equal(t, "read", c.Scope)
	for name, reported := range map[string]string{
		"reuse": c.Reuse, "token of the same grant after a reuse": c.Family, "code used twice": c.Replay, "token of that code": c.Replayed, "revoked": c.Revoked,
	} {
		require.Equal(t, "400 invalid_grant", reported, name)
	}
}
