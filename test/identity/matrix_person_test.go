package identity

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// person is a user with its own client address. Rate limits therefore apply to each user separately.
type person struct {
	name, id, password, token string

	http *http.Client
}

// response is an HTTP response and its duration. Its body is nil if the response is an open stream.
type response struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

// at returns a caller without a credential that connects from address number n in 127.0.0.0/8.
func at(n int) *person {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+n/250), byte(1+n%250))}, Timeout: 10 * time.Second}
	return &person{http: &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// call sends a request with the person's access token.
func (p *person) call(ctx context.Context, t *testing.T, s *testenv.Installation, method, path, body string) response {
	t.Helper()
	return p.send(ctx, t, s, method, path, body, func(r *http.Request) {
		if p.token != "" {
			r.Header.Set("Authorization", "Bearer "+p.token)
		}
	})
}

// send sends a request. It first calls the function change with the request.
func (p *person) send(ctx context.Context, t *testing.T, s *testenv.Installation, method, path, body string, change func(*http.Request)) response {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	if method == "*" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, reader)
	require.NoError(t, err)
	switch {
	case strings.HasPrefix(body, "{"):
		req.Header.Set("Content-Type", "application/json")
	case body != "":
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	change(req)
	began := time.Now()
	resp, err := p.http.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	out := response{status: resp.StatusCode, header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return out // the stream ends only with the job
	}
	out.body, err = io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	out.took = time.Since(began)
	require.NoError(t, err)
	return out
}

// do sends a request that must succeed.
func (p *person) do(ctx context.Context, t *testing.T, s *testenv.Installation, method, path string, body, out any) {
	t.Helper()
	text := ""
	if body != nil {
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		text = string(raw)
	}
	a := p.call(ctx, t, s, method, path, text)
	require.Less(t, a.status, 300, "%s %s: %s", method, path, a.body)
	if out != nil {
		require.NoError(t, json.Unmarshal(a.body, out), "%s %s: %s", method, path, a.body)
	}
}

// login signs the person in and stores the access token.
func (p *person) login(ctx context.Context, t *testing.T, s *testenv.Installation) response {
	t.Helper()
	body, err := json.Marshal(map[string]string{"username": p.name, "password": p.password})
	require.NoError(t, err)
	a := p.send(ctx, t, s, http.MethodPost, "/api/auth/login", string(body), func(*http.Request) {})
	require.Equal(t, http.StatusOK, a.status, "%s: %s", p.name, a.body)
	var in struct {
		Token string `json:"token"`
	}
	require.NoError(t, json.Unmarshal(a.body, &in))
	p.token = in.Token
	return a
}

// newSession returns the same person with a new session and another client address.
func (p *person) newSession(ctx context.Context, t *testing.T, s *testenv.Installation, n int) *person {
	t.Helper()
	q := at(n)
	q.name, q.id, q.password = p.name, p.id, p.password
	q.login(ctx, t, s)
	return q
}
