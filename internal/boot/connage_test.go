package boot

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aging is a holding that serves on a listener, its clock, and a client that keeps its connections.
type aging struct {
	url    string
	client *http.Client
	now    atomic.Int64 // elapsed time
	stop   func() error
}

// serveAging starts a server whose connections take requests for a time that the parameter chance selects.
func serveAging(t *testing.T, secured bool, chance float64, handler http.HandlerFunc) *aging {
	t.Helper()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(certified.Close)
	h := envWithoutDatabase(t).holding(&plainService{newKeys(t)}, handler)
	l := listener(t)
	a := &aging{client: certified.Client(), url: "http://" + l.Addr().String()}
	h.ages = connectionAges{
		elapsed: func() time.Duration { return time.Duration(a.now.Load()) },
		chance:  func() float64 { return chance },
	}
	var config *tls.Config
	if secured {
		a.url = "https://" + l.Addr().String()
		config = &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS13}
	}
	stop := started(t, h.worker("http", l, config), patience)
	a.stop = func() error { a.client.CloseIdleConnections(); return stop() }
	return a
}

// open sends a request. It returns the response and whether the request was sent on a kept connection.
func (a *aging) open(t *testing.T, path string, header http.Header) (resp *http.Response, kept bool) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { kept = info.Reused },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	require.NoError(t, err)
	req.Header = header
	resp, err = a.client.Do(req)
	require.NoError(t, err)
	return resp, kept
}

// exchange describes a request and its response.
type exchange struct {
	kept bool // the request was sent on a kept connection
	ends bool // the response ends the connection
	body string
}

// at sends a request at the given elapsed time and reads the response to its end.
func (a *aging) at(t *testing.T, now time.Duration) exchange {
	t.Helper()
	a.now.Store(int64(now))
	resp, kept := a.open(t, "/", nil)
	return exchange{kept: kept, ends: resp.Close, body: read(t, resp)}
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(raw)
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// Behind a balancer, a client reaches replicas that were added only over new connections.
func TestHolding_oldConnectionTakesNoNewRequests(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		secured bool
		chance  float64
		age     time.Duration
	}{
		"public":  {chance: 0, age: 4*time.Minute + 30*time.Second},
		"gateway": {secured: true, chance: 0.5, age: 5 * time.Minute},
		"latest":  {secured: true, chance: 0.75, age: 5*time.Minute + 15*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serveAging(t, row.secured, row.chance, hello)
			require.Equal(t, exchange{body: "hello"}, a.at(t, time.Hour))
			require.Equal(t, exchange{kept: true, body: "hello"}, a.at(t, time.Hour+row.age-1))
			require.Equal(t, exchange{kept: true, ends: true, body: "hello"}, a.at(t, time.Hour+row.age))
			require.Equal(t, exchange{body: "hello"}, a.at(t, time.Hour+row.age), "the next request needs a new connection")
			require.Equal(t, exchange{kept: true, body: "hello"}, a.at(t, time.Hour+2*row.age-1), "the new connection has its own age")
			require.Equal(t, exchange{kept: true, ends: true, body: "hello"}, a.at(t, time.Hour+2*row.age))
			require.NoError(t, a.stop())
		})
	}
}

func TestHolding_streamOutlivesConnectionAge(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a := serveAging(t, true, 0.5, func(w http.ResponseWriter, r *http.Request) {
		hello(w, r)
		if r.URL.Path != "/stream" {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
			_, _ = io.WriteString(w, " again")
		case <-r.Context().Done():
		}
	})
	finish := func(resp *http.Response) string {
		begun := make([]byte, len("hello"))
		_, err := io.ReadFull(resp.Body, begun)
		require.NoError(t, err)
		a.now.Add(int64(time.Hour))
		release <- struct{}{}
		return string(begun) + read(t, resp)
	}
	first, kept := a.open(t, "/stream", nil)
	defer func() { _ = first.Body.Close() }()
	require.Equal(t, exchange{body: "hello again"}, exchange{kept, first.Close, finish(first)}, "the connection ages during the stream")
	second, kept := a.open(t, "/stream", nil)
	defer func() { _ = second.Body.Close() }()
	require.Equal(t, exchange{true, true, "hello again"}, exchange{kept, second.Close, finish(second)}, "the stream begins on an old connection")
	require.Equal(t, exchange{body: "hello"}, a.at(t, 2*time.Hour))
	require.NoError(t, a.stop())
}

func TestHolding_upgradeOnOldConnection(t *testing.T) {
	t.Parallel()
	a := serveAging(t, true, 0.5, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			hello(w, r)
			return
		}
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, in)
		_ = conn.Close()
	})
	a.at(t, 0)
	a.now.Store(int64(time.Hour))
	resp, kept := a.open(t, "/", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}})
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, []any{true, http.StatusSwitchingProtocols, []string{"Upgrade"}}, []any{kept, resp.StatusCode, resp.Header["Connection"]})
	upgraded, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok)
	_, err := io.WriteString(upgraded, "ping")
	require.NoError(t, err)
	echoed := make([]byte, len("ping"))
	_, err = io.ReadFull(upgraded, echoed)
	require.NoError(t, err)
	require.Equal(t, "ping", string(echoed))
	require.NoError(t, upgraded.Close())
	require.NoError(t, a.stop())
}

// Connections that were opened together must not end together.
func TestHolding_connectionAgesDiffer(t *testing.T) {
	t.Parallel()
	h := envWithoutDatabase(t).holding(&plainService{newKeys(t)}, http.NotFoundHandler())
	h.ages.elapsed = func() time.Duration { return 0 }
	first, second := h.ages.begin(t.Context(), nil), h.ages.begin(t.Context(), nil)
	require.NotEqual(t, first.Value(connectionEnds{}), second.Value(connectionEnds{}))
}
