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

// allSamples reports whether the tests use all samples, as in `make identity`, and not only a part of them.
func allSamples() bool { return os.Getenv("IDENTITY") == "all" }

// sampleCount returns the number of samples: the parameter `all` in `make identity`, otherwise the parameter `ci`.
func sampleCount(ci, all int) int {
	if allSamples() {
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

// cheapHashing returns settings that make password hashes cheap to check. The installation also trusts the
// X-Forwarded-For headers that this host sends.
func cheapHashing() map[string]string {
	return map[string]string{
		"SERVICE_AUTH_HASH_MEMORY_KIB": cheapMemory, "SERVICE_AUTH_HASH_ITERATIONS": cheapPasses,
		"SERVICE_GATEWAY_TRUSTED_PROXIES": trustLoopback,
	}
}

// response is a complete response and its duration.
type response struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// cookie returns the refresh cookie that the response sets, or "" if it sets none.
func (a response) cookie() string {
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == cookieName {
			return c.Value
		}
	}
	return ""
}

// token returns the access token of a login or a refresh.
func (a response) token() string {
	var body struct {
		Token string `json:"token"`
	}
	_ = json.Unmarshal([]byte(a.body), &body)
	return body.Token
}

// caller sends requests to an installation over its own connections.
type caller struct {
	base string
	http *http.Client
}

// newCaller returns a caller that connects from the given loopback address. If the parameter from is empty, any
// address may be used.
func newCaller(t testing.TB, base, from string) *caller {
	t.Helper()
	dialer := &net.Dialer{Timeout: askTimeout}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{base: base, http: &http.Client{Transport: transport, Timeout: askTimeout}}
}

// request sends a request. The parameter header contains names of header fields, each followed by its value.
func (c *caller) request(ctx context.Context, method, path, body string, header ...string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return response{}, err
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
		return response{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(raw), time.Since(began)}, err
}

// login tries a password. The parameter forwarded is the X-Forwarded-For header; if it is empty, no such header is
// sent.
func (c *caller) login(ctx context.Context, user, pass, forwarded string) (response, error) {
	body, err := json.Marshal(map[string]string{"username": user, "password": pass})
	if err != nil {
		return response{}, err
	}
	if forwarded == "" {
		return c.request(ctx, http.MethodPost, "/api/auth/login", string(body))
	}
	return c.request(ctx, http.MethodPost, "/api/auth/login", string(body), "X-Forwarded-For", forwarded)
}

// signIn signs in as admin. The login must succeed.
func (c *caller) signIn(t testing.TB, s *testenv.Installation, forwarded string) response {
	t.Helper()
	a, err := c.login(t.Context(), "admin", s.Password.Reveal(), forwarded)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.NotEmpty(t, a.cookie())
	return a
}

// refresh exchanges a refresh cookie for new tokens.
func (c *caller) refresh(ctx context.Context, cookie string) (response, error) {
	return c.request(ctx, http.MethodPost, "/api/auth/refresh", "", "Cookie", cookieName+"="+cookie)
}

// client returns client address number n.
func client(n int) string { return fmt.Sprintf("198.18.%d.%d", n/250, 1+n%250) }
