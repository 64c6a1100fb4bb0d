// Package oidcprovider runs oidc-provider, a certified OpenID provider, for tests. The provider runs in the
// pinned Node and stops when its test ends.
package oidcprovider

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	client = "signalbox-of-the-tests"
	secret = "a secret that only provider and installation know"
)

// People contains the claims of each account of the provider.
type People map[string]map[string]any

// Provider is an OpenID provider that runs for one test.
type Provider struct {
	// Issuer is the provider's address.
	Issuer string

	t    *testing.T
	stop func()
}

// tool runs a script of scripts/tools and returns the path that it prints.
func tool(t *testing.T, argv ...string) string {
	t.Helper()
	argv[0] = filepath.Join(testenv.Root(t), "scripts", "tools", argv[0])
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, argv[0])
	return strings.TrimSpace(string(out))
}

// New starts a provider without accounts.
func New(t *testing.T) *Provider {
	t.Helper()
	p := &Provider{t: t}
	p.start("0")
	return p
}

// start runs the provider with new keys and without accounts.
func (p *Provider) start(port string) {
	p.t.Helper()
	folder := filepath.Join(testenv.Root(p.t), "test", "identity", "oidc-provider")
	cmd := exec.CommandContext(p.t.Context(), tool(p.t, "node.sh"), filepath.Join(folder, "server.mjs"))
	cmd.Env = []string{"NODE_MODULES=" + tool(p.t, "npm.sh", folder), "CLIENT_ID=" + client, "CLIENT_SECRET=" + secret, "PORT=" + port}
	cmd.WaitDelay = 30 * time.Second
	in, err := cmd.StdinPipe()
	require.NoError(p.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(p.t, cmd.Start())
	p.stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
		p.stop = func() {}
	}
	p.t.Cleanup(p.Stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.stop()
		require.NoError(p.t, err, stderr.String())
	}
	p.Issuer = strings.TrimSpace(line)
}

// Stop stops the provider.
func (p *Provider) Stop() { p.stop() }

// Restart starts the provider at its previous address with new keys.
func (p *Provider) Restart() {
	p.t.Helper()
	u, err := url.Parse(p.Issuer)
	require.NoError(p.t, err)
	p.start(u.Port())
}

// SetPeople replaces the accounts of the provider.
func (p *Provider) SetPeople(people People) {
	p.t.Helper()
	body, err := json.Marshal(people)
	require.NoError(p.t, err)
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPut, p.Issuer+"/people", bytes.NewReader(body))
	require.NoError(p.t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	require.NoError(p.t, resp.Body.Close())
	require.Equal(p.t, http.StatusNoContent, resp.StatusCode)
}

// Settings returns the settings of an installation whose users sign in with the provider.
func (p *Provider) Settings() map[string]string {
	return map[string]string{
		"SERVICE_OIDC_ISSUER": p.Issuer, "SERVICE_OIDC_CLIENT_ID": client, "SERVICE_OIDC_CLIENT_SECRET": secret,
		"SERVICE_OIDC_NAME": "Company login", "SERVICE_OIDC_SCOPES": "openid,profile,email,groups", "SERVICE_OIDC_ADMIN_GROUPS": "admins",
		"SERVICE_OIDC_OPERATOR_GROUPS": "staff", "SERVICE_OIDC_TEAM_GROUPS": "vision-people=vision", "SERVICE_EGRESS_ALLOW": "127.0.0.1",
	}
}
