package identity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// whole says that the figures are taken whole (make identity), not as samples.
func whole() bool { return os.Getenv("IDENTITY") == "all" }

// sized is a count of CI, or the whole one.
func sized(ci, all int) int {
	if whole() {
		return all
	}
	return ci
}

const (
	password      = "not the password"
	cookieName    = "service_refresh"
	askTimeout    = 30 * time.Second
	retryEvery    = 20 * time.Millisecond
	cheapMemory   = "64"
	cheapPasses   = "1"
	trustLoopback = "127.0.0.0/8"
)

// cheap are the settings of an installation whose passwords cost nothing to check, and that takes the
// word of this host on where its clients are.
func cheap() map[string]string {
	return map[string]string{
		"SERVICE_AUTH_HASH_MEMORY_KIB": cheapMemory, "SERVICE_AUTH_HASH_ITERATIONS": cheapPasses,
		"SERVICE_GATEWAY_TRUSTED_PROXIES": trustLoopback,
	}
}

// answer is a whole answer, and how long it took.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// cookie is the refresh cookie that the answer sets, empty where it sets none.
func (a answer) cookie() string {
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == cookieName {
			return c.Value
		}
	}
	return ""
}

// token is the access token of a login's or a refresh's answer.
func (a answer) token() string {
	var body struct {
		Token string `json:"token"`
	}
	_ = json.Unmarshal([]byte(a.body), &body)
	return body.Token
}

// caller asks an installation over connections of its own, from an address of this host.
type caller struct {
	base string
	http *http.Client
}

// from makes a caller; from is a loopback address, empty for any.
func from(t testing.TB, base, from string) *caller {
	t.Helper()
	dialer := &net.Dialer{Timeout: askTimeout}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{base: base, http: &http.Client{Transport: transport, Timeout: askTimeout}}
}

// ask sends a request; header are names and values.
func (c *caller) ask(ctx context.Context, method, path, body string, header ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	began := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(raw), time.Since(began)}, err
}

// login tries a password; forwarded is what a proxy would say of the client, empty for nothing.
func (c *caller) login(ctx context.Context, user, pass, forwarded string) (answer, error) {
	body, err := json.Marshal(map[string]string{"username": user, "password": pass})
	if err != nil {
		return answer{}, err
	}
	if forwarded == "" {
		return c.ask(ctx, http.MethodPost, "/api/auth/login", string(body))
	}
	return c.ask(ctx, http.MethodPost, "/api/auth/login", string(body), "X-Forwarded-For", forwarded)
}

// signIn is a login that must succeed.
func (c *caller) signIn(t testing.TB, s *testenv.Stand, forwarded string) answer {
	t.Helper()
	a, err := c.login(t.Context(), "admin", s.Password.Reveal(), forwarded)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.NotEmpty(t, a.cookie())
	return a
}

// refresh exchanges a refresh cookie.
func (c *caller) refresh(ctx context.Context, cookie string) (answer, error) {
	return c.ask(ctx, http.MethodPost, "/api/auth/refresh", "", "Cookie", cookieName+"="+cookie)
}

// client is the nth of many client addresses.
func client(n int) string { return fmt.Sprintf("198.18.%d.%d", n/250, 1+n%250) }
