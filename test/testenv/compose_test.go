package testenv

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// browserAddress is the loopback address from which the test connects to Caddy.
const browserAddress = "127.0.0.2"

// browser returns a transport that trusts only Caddy's own authority, and connects to Caddy whatever the host.
func (c *Containers) browser() *http.Transport {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), readyTimeout)
	defer cancel()
	roots := x509.NewCertPool()
	c.Until(ctx, "Caddy has created its authority", func() bool {
		raw, err := os.ReadFile(filepath.Join(c.Dir, "data", "caddy", "pki", "authorities", "local", "root.crt"))
		return err == nil && roots.AppendCertsFromPEM(raw)
	})
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(addr)
			require.NoError(c.T, err)
			from := &net.TCPAddr{IP: net.ParseIP(browserAddress)}
			return (&net.Dialer{LocalAddr: from}).DialContext(ctx, network, net.JoinHostPort(c.Addresses["caddy"], port))
		},
	}
	c.T.Cleanup(transport.CloseIdleConnections)
	return transport
}

func TestCompose_servesThroughCaddy(t *testing.T) {
	t.Parallel()
	c := Compose(t, "signalbox.test")
	transport := c.browser()
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	guest := client.New(c.URL, transport)
	c.Until(ctx, "Caddy serves", func() bool {
		a, err := guest.Call(ctx, http.MethodGet, "/api/auth/config", nil)
		return err == nil && a.Status == http.StatusOK
	})
	admin := c.firstLogin(ctx, guest)
	requireEveryService(ctx, t, admin)
	c.requireInference(ctx, guest)

	redirect := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://signalbox.test/jobs", nil)
	require.NoError(t, err)
	resp, err := redirect.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "https://signalbox.test/jobs", resp.Header.Get("Location"), "Caddy redirects HTTP to HTTPS")

	require.Contains(t, c.Processes["gateway"].Log(), `"client":"`+browserAddress+`"`, "the gateway must trust what Caddy reports about the client")
	for name, p := range c.Processes {
		require.NotContains(t, p.Log(), "nothing reads it", "the settings of %s must contain none that it ignores", name)
	}
	c.requireOnlyVolumes()
	c.requireRestored(ctx)
}

// requireRestored runs the command that deploy/README.md names for the time after a restore, in the container database.
func (c *Containers) requireRestored(ctx context.Context) {
	c.T.Helper()
	const journals = "/var/lib/signalbox/audit"
	hasJournals := func(m mount) bool { return m.Target == journals }
	require.True(c.T, slices.ContainsFunc(c.containers["database"].Volumes, hasJournals))
	cmd := exec.CommandContext(ctx, filepath.Join(c.programs, "signalbox-setup"), "restored", "--audit-dir", filepath.Join(c.Dir, journals), "--root", c.Dir)
	out, err := cmd.CombinedOutput()
	require.NoError(c.T, err, "%s", out)
	require.Contains(c.T, string(out), "The restore is complete.")
}

// firstLogin signs in with the password that auth has printed, and changes it.
func (c *Containers) firstLogin(ctx context.Context, guest *client.Client) *client.Client {
	c.T.Helper()
	found := regexp.MustCompile(`first login \(shown once\): admin / (\S+)`).FindStringSubmatch(c.Processes["auth"].Log())
	require.NotNil(c.T, found, c.Processes["auth"].Tail())
	const changed = "correct horse battery staple"
	login := func(password string) *client.Client {
		var out struct {
			Token string `json:"token"`
		}
		require.NoError(c.T, guest.Post(ctx, "/api/auth/login", map[string]string{"username": "admin", "password": password}, &out), c.Tail())
		return guest.With(secret.New(out.Token))
	}
	require.NoError(c.T, login(found[1]).Post(ctx, "/api/profile/password",
		map[string]string{"current_password": found[1], "new_password": changed}, nil), c.Tail())
	return login(changed)
}

// requireEveryService calls each service except inference through the gateway.
func requireEveryService(ctx context.Context, t *testing.T, admin *client.Client) {
	t.Helper()
	var project struct {
		ID string `json:"id"`
	}
	var run struct {
		Run struct {
			ID string `json:"id"`
		} `json:"run"`
	}
	require.NoError(t, admin.Post(ctx, "/api/projects", map[string]string{"key": "first", "name": "First"}, &project), "auth")
	require.NoError(t, admin.Post(ctx, "/api/runs", map[string]string{"name": "first", "project": project.ID}, &run), "jobs")
	require.NoError(t, admin.Get(ctx, "/api/runs/"+run.Run.ID+"/metrics", nil, nil), "ingest")
	require.NoError(t, admin.Get(ctx, "/api/models", nil, nil), "registry")
}

// requireInference waits until inference refuses a call because of its token, which it can only check with registry.
func (c *Containers) requireInference(ctx context.Context, guest *client.Client) {
	c.T.Helper()
	var body string
	c.Until(ctx, "inference knows the tokens of registry", func() bool {
		a, err := guest.With(secret.New("none")).Call(ctx, http.MethodGet, "/inference/dep_none/v1/models", nil)
		require.NoError(c.T, err)
		body = string(a.Body)
		return a.Status == http.StatusUnauthorized
	})
	require.Contains(c.T, body, `"type":`, "only inference responds in the form of OpenAI")
}

// requireOnlyVolumes requires that no process has written outside its volumes, which it could not do in a container.
func (c *Containers) requireOnlyVolumes() {
	c.T.Helper()
	entries, err := os.ReadDir(filepath.Join(c.Dir, "var", "lib", "signalbox"))
	require.NoError(c.T, err)
	for _, e := range entries {
		require.Contains(c.T, []string{"audit", "objects", "spool"}, e.Name())
	}
}
