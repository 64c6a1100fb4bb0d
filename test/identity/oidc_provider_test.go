package identity

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/stand"
)

const (
	oidcClient = "signalbox-of-the-tests"
	oidcSecret = "a secret that only provider and installation know"
)

// oidcPeople are whom the provider knows, with their claims.
type oidcPeople map[string]map[string]any

// oidcProvider is the certified provider oidc-provider, running under the pinned Node.
type oidcProvider struct {
	t      *testing.T
	issuer string
	stop   func()
}

// oidcTool runs a script of scripts/tools, which prints a path.
func oidcTool(t *testing.T, argv ...string) string {
	t.Helper()
	argv[0] = filepath.Join(stand.Root(t), "scripts", "tools", argv[0])
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, argv[0])
	return strings.TrimSpace(string(out))
}

func newOIDCProvider(t *testing.T) *oidcProvider {
	t.Helper()
	p := &oidcProvider{t: t}
	p.start("0")
	return p
}

// start runs the provider with keys of its own, and nobody whom it knows.
func (p *oidcProvider) start(port string) {
	p.t.Helper()
	folder := filepath.Join(stand.Root(p.t), "test", "identity", "oidc-provider")
	cmd := exec.CommandContext(p.t.Context(), oidcTool(p.t, "node.sh"), filepath.Join(folder, "server.mjs"))
	cmd.Env = []string{
		"NODE_MODULES=" + oidcTool(p.t, "npm.sh", folder), "CLIENT_ID=" + oidcClient, "CLIENT_SECRET=" + oidcSecret, "PORT=" + port,
	}
	cmd.WaitDelay = 30 * time.Second
	in, err := cmd.StdinPipe()
	require.NoError(p.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(p.t, cmd.Start())
	p.stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
		p.stop = func() {}
	}
	p.t.Cleanup(func() { p.stop() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.stop()
		require.NoError(p.t, err, said.String())
	}
	p.issuer = strings.TrimSpace(line)
}

// again starts the provider at its old address with new keys.
func (p *oidcProvider) again() {
	p.t.Helper()
	u, err := url.Parse(p.issuer)
	require.NoError(p.t, err)
	p.start(u.Port())
}

// knows replaces the people of the provider.
func (p *oidcProvider) knows(people oidcPeople) {
	p.t.Helper()
	body, err := json.Marshal(people)
	require.NoError(p.t, err)
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPut, p.issuer+"/people", bytes.NewReader(body))
	require.NoError(p.t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	require.NoError(p.t, answer.Body.Close())
	require.Equal(p.t, http.StatusNoContent, answer.StatusCode)
}

// settings are those of an installation whose people sign in here.
func (p *oidcProvider) settings() map[string]string {
	return map[string]string{
		"SERVICE_OIDC_ISSUER": p.issuer, "SERVICE_OIDC_CLIENT_ID": oidcClient, "SERVICE_OIDC_CLIENT_SECRET": oidcSecret,
		"SERVICE_OIDC_NAME": "Company login", "SERVICE_OIDC_SCOPES": "openid,profile,email,groups", "SERVICE_OIDC_ADMIN_GROUPS": "admins",
		"SERVICE_OIDC_OPERATOR_GROUPS": "staff", "SERVICE_OIDC_TEAM_GROUPS": "vision-people=vision", "SERVICE_EGRESS_ALLOW": "127.0.0.1",
	}
}

// oidcBrowser is a person's browser: cookies, redirects, and the access token that its pages hold.
type oidcBrowser struct {
	t     *testing.T
	base  string
	http  *http.Client
	token string
	// callback is the address by which the provider last sent it back.
	callback string
}

func newOIDCBrowser(t *testing.T, base string) *oidcBrowser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	b := &oidcBrowser{t: t, base: base, http: &http.Client{Jar: jar, Timeout: time.Minute}}
	b.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return b
}

// answer is what a server said.
type oidcAnswer struct {
	status   int
	body     string
	location string
}

func (b *oidcBrowser) do(method, address, body string) oidcAnswer {
	b.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = b.base + address
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(body))
	require.NoError(b.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet {
		r.Header.Set("Origin", b.base)
	}
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	got, err := b.http.Do(r)
	require.NoError(b.t, err)
	defer got.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(got.Body)
	require.NoError(b.t, err)
	a := oidcAnswer{status: got.StatusCode, body: string(text)}
	if at, err := got.Location(); err == nil {
		a.location = at.String()
	}
	return a
}

// visit goes to the provider as this person and follows it back as far as it leads.
func (b *oidcBrowser) visit(person string) oidcAnswer {
	b.t.Helper()
	b.token = ""
	a := b.do(http.MethodGet, "/api/auth/oidc/start?next=/device", "")
	if a.status != http.StatusFound {
		return a
	}
	a.location += "&login_hint=" + person
	for range 12 {
		if strings.HasPrefix(a.location, b.base+"/auth/callback") {
			b.callback = a.location
			return b.do(http.MethodGet, a.location, "")
		}
		a = b.do(http.MethodGet, a.location, "")
		require.NotEmpty(b.t, a.location, "the provider stopped: %d %s", a.status, a.body)
	}
	require.FailNow(b.t, "the provider goes round in circles")
	return a
}

// signIn is a visit that ends with a session: the cookie is exchanged for an access token.
func (b *oidcBrowser) signIn(person string) oidcMe {
	b.t.Helper()
	a := b.visit(person)
	require.Equal(b.t, http.StatusSeeOther, a.status, a.body)
	require.Equal(b.t, b.base+"/device", a.location, "where the person wanted to go")
	a = b.do(http.MethodPost, "/api/auth/refresh", "")
	require.Equal(b.t, http.StatusOK, a.status, a.body)
	var said struct {
		Token string `json:"token"`
	}
	require.NoError(b.t, json.Unmarshal([]byte(a.body), &said))
	b.token = said.Token
	return b.me()
}

// oidcMe is who the installation says somebody is.
type oidcMe struct {
	Username string   `json:"username"`
	Role     string   `json:"role"`
	Email    *string  `json:"email"`
	Teams    []string `json:"teams"`
}

func (b *oidcBrowser) me() (m oidcMe) {
	b.t.Helper()
	a := b.do(http.MethodGet, "/api/auth/me", "")
	require.Equal(b.t, http.StatusOK, a.status, a.body)
	require.NoError(b.t, json.Unmarshal([]byte(a.body), &m))
	return m
}
