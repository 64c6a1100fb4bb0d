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

// whole reports whether the suites run at full size (make identity) rather than as samples.
func whole() bool { return os.Getenv("IDENTITY") == "all" }

// sized returns the count for CI, or the full one.
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

// cheap returns the settings of an installation whose password hashes cost nothing to check, and that trusts this
// host's X-Forwarded-For headers.
func cheap() map[string]string {
	return map[string]string{
		"SERVICE_AUTH_HASH_MEMORY_KIB": cheapMemory, "SERVICE_AUTH_HASH_ITERATIONS": cheapPasses,
		"SERVICE_GATEWAY_TRUSTED_PROXIES": trustLoopback,
	}
}

// answer is a whole response and the time it took.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// cookie returns the refresh cookie that the response sets, or "" if it sets none.
func (a answer) cookie() string {
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == cookieName {
			return c.Value
		}
	}
	return ""
}

// token returns the access token of a login or a refresh.
func (a answer) token() string {
	var body struct {
		Token string `json:"token"`
	}
	_ = json.Unmarshal([]byte(a.body), &body)
	return body.Token
}

// caller sends requests to an installation over its own connections, from an address of this host.
type caller struct {
	base string
	http *http.Client
}

// from returns a caller; from is a loopback address, or empty for any.
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

// ask sends a request; header holds names and values in turn.
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

// login tries a password; forwarded is the X-Forwarded-For header, empty for none.
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

// signIn signs in as admin, which must succeed.
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

// client returns the nth of many client addresses.
func client(n int) string { return fmt.Sprintf("198.18.%d.%d", n/250, 1+n%250) }
