package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

// takes reads a request and its body, reports it to the channel and waits until the connection ends.
func takes(taken chan<- struct{}) func(c net.Conn, in *bufio.Reader) {
	return func(_ net.Conn, in *bufio.Reader) {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		taken <- struct{}{}
		_, _ = in.ReadByte()
	}
}

// readResponse is a response whose body has been read.
type readResponse struct {
	status int
	header http.Header
	body   string
}

// post sends a POST through the server and returns the response.
func (r *harness) post(ctx context.Context, s *httptest.Server, bearer string, body io.Reader) readResponse {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/inference/"+dep("a")+"/v1/x", body)
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer "+bearer)
	resp, err := s.Client().Do(req)
	require.NoError(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return readResponse{resp.StatusCode, resp.Header, string(text)}
}

// Clients repeat a call after 502 and 503. They must not if the engine may have worked on it.
func TestShouldNotRetryWhatEngineGot(t *testing.T) {
	t.Parallel()
	silent := make(chan struct{}, 1)
	lapsing := make(chan struct{}, 1)
	reads := func(_ net.Conn, in *bufio.Reader) { _, _ = http.ReadRequest(in) }
	for name, tc := range map[string]struct {
		play          func(c net.Conn, in *bufio.Reader)
		during        func(r *harness) // runs while the engine works
		status        int
		code, outcome string
		retry         string
	}{
		"no response in time": {takes(silent), nil, 502, "engine_timeout", traffic.Timeout, "false"},
		"lost":                {reads, nil, 502, "engine_lost", traffic.EngineError, "false"},
		"invalid response":    {replies("rubbish\r\n\r\n"), nil, 502, "engine_lost", traffic.EngineError, "false"},
		"lease lost":          {takes(lapsing), func(r *harness) { <-lapsing; r.part() }, 503, "lease_over", traffic.LeaseOver, "false"},
		"unreachable":         {nil, nil, 502, "engine_unreachable", traffic.Unreachable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok, address := mint(t, secret.KindDeployment), closedPort(t)
			if tc.play != nil {
				address = engine(t, tc.play)
			}
			r := newHarness(t, served("a", tok, address))
			if tc.code == "engine_timeout" {
				r.proxy.Engines.Timeouts.FirstByte = 50 * time.Millisecond
			}
			s := r.serve()
			if tc.during != nil {
				go tc.during(r)
			}
			got := r.post(t.Context(), s, tok.text, strings.NewReader("{}"))
			require.Equal(t, tc.status, got.status, got.body)
			require.Contains(t, got.body, `"code":"`+tc.code+`"`)
			require.Equal(t, tc.retry, got.header.Get("X-Should-Retry"))
			require.Empty(t, got.header.Get("Retry-After"))
			require.Empty(t, got.header.Get(fault.HeaderRefused), "the engine may have worked on the call")
			require.Equal(t, tc.outcome, r.recorder.recorded(t, 1)[0].Outcome)
		})
	}
}

// The limits of a revision take the place of the service's, in both directions.
func TestRevisionLimitsWait(t *testing.T) {
	t.Parallel()
	tok := mint(t, secret.KindDeployment)
	d := served("a", tok, closedPort(t))
	d.Promoted.Replicas[0].FirstByteS, d.Promoted.Replicas[0].IdleS = 7, 9
	r := newHarness(t, d)
	deployment, ok := r.proxy.Lease.Deployment(dep("a"))
	require.True(t, ok)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/x", nil)
	e := r.proxy.exchange(t.Context(), nil, &admitted{request: requestOf(req), token: &routing.Token{}, deployment: deployment, target: req.URL})
	_, err := e.dial(t.Context())
	require.ErrorIs(t, err, engineclient.ErrUnreachable)
	require.Equal(t, engineclient.Waits{FirstByte: 7 * time.Second, Idle: 9 * time.Second}, e.in.Waits)

	d = served("a", tok, engine(t, replies(whole)))
	d.Promoted.Replicas[0].FirstByteS, d.Promoted.Replicas[0].IdleS = 3600, 3600
	r = newHarness(t, d)
	r.proxy.Engines.Timeouts.FirstByte, r.proxy.Engines.Timeouts.Idle = time.Nanosecond, time.Nanosecond
	got := r.post(t.Context(), r.serve(), tok.text, strings.NewReader("{}"))
	require.Equal(t, 200, got.status, got.body)
}

// An engine may refuse a request after its headers, read nothing more and keep the connection open.
func TestEarlyResponseReachesCaller(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		size    int
		chunked bool
		answer  string
	}{
		"300 KB":           {300 << 10, false, "HTTP/1.1 413 No\r\nContent-Length: 9\r\n\r\ntoo large"},
		"900 KB":           {900 << 10, false, "HTTP/1.1 413 No\r\nContent-Length: 9\r\n\r\ntoo large"},
		"streamed":         {maxBody, false, "HTTP/1.1 413 No\r\nContent-Length: 9\r\n\r\ntoo large"},
		"chunked":          {900 << 10, true, "HTTP/1.1 413 No\r\nContent-Length: 9\r\n\r\ntoo large"},
		"chunked response": {900 << 10, true, "HTTP/1.1 413 No\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ntoo large\r\n0\r\n\r\n"},
		"chunked, 900 KB":  {900 << 10, false, "HTTP/1.1 413 No\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ntoo large\r\n0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			tok := mint(t, secret.KindDeployment)
			r := newHarness(t, served("a", tok, engine(t, func(c net.Conn, in *bufio.Reader) {
				for line := "-"; strings.TrimSpace(line) != ""; {
					var err error
					if line, err = in.ReadString('\n'); err != nil {
						return
					}
				}
				_, _ = io.WriteString(c, tc.answer)
				<-over
			})))
			defer close(over)
			var body io.Reader = strings.NewReader(strings.Repeat("x", tc.size))
			if tc.chunked {
				body = struct{ io.Reader }{body}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience/2) // less than any limit of the proxy
			defer cancel()
			s := r.serve()
			got := r.post(ctx, s, tok.text, body)
			require.Equal(t, 413, got.status)
			require.Equal(t, "too large", got.body)
		})
	}
}

// HTTP/2 ends a stream whose write deadline passes, even if nothing is written. An engine may pause for longer than a
// caller may.
func TestNoWriteDeadlineWhileEnginePauses(t *testing.T) {
	t.Parallel()
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, replies("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"))))
	d := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/inference/"+dep("a")+"/v1/x", strings.NewReader("{}"))
	req.Header.Set("Authorization", "Bearer "+tok.text)
	r.proxy.ServeHTTP(d, req)
	require.Equal(t, "data: 1\n\ndata: 2\n\n", d.Body.String())
	require.GreaterOrEqual(t, len(d.write), 2, "a write must set a deadline and clear it")
	for i, at := range d.write {
		require.True(t, at.IsZero() || d.write[i+1].IsZero(), "each write must clear its deadline")
	}
}
