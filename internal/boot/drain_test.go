package boot

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// patience bounds every wait in these tests. Tests that pass do not wait this long.
const patience = time.Minute

// gate is a handler that blocks each request until the test sends a body on release.
type gate struct {
	entered chan string
	release chan string // response bodies
}

func newGate() *gate { return &gate{entered: make(chan string, 16), release: make(chan string)} }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case g.entered <- r.URL.Path:
	case <-r.Context().Done():
		return
	}
	select {
	case text := <-g.release:
		_, _ = io.WriteString(w, text)
	case <-r.Context().Done():
	}
}

// customRefusal is a service that refuses requests with a response of its own, as inference does.
type customRefusal struct {
	*keys
	*gate
	draining atomic.Bool
	drained  chan struct{}
}

func (s *customRefusal) Drain() {
	if !s.draining.Swap(true) {
		close(s.drained)
	}
}

func (s *customRefusal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "in its own words")
		return
	}
	s.gate.ServeHTTP(w, r)
}

// plainService is a service without Drain, as ingest is.
type plainService struct{ *keys }

// envWithoutDatabase returns an Env without a database.
func envWithoutDatabase(t *testing.T) *Env {
	t.Helper()
	clk := clock.Real()
	e := NewEnv("auth", telemetry(t, io.Discard), clk, id.NewSource(clk, rand.Reader), rpc.Memory(rpc.ClientOptions{Clock: clk}).As("auth"))
	e.Stop.StopGrace = patience
	return e
}

// getLater sends a GET request in the background and returns a channel with its body.
func getLater(t *testing.T, url string) <-chan string {
	t.Helper()
	out := make(chan string, 1)
	go func() {
		_, body, err := get(context.WithoutCancel(t.Context()), url)
		if err != nil {
			body = "failed: " + err.Error()
		}
		out <- body
	}()
	return out
}

// awaitRefusal repeats a request until the response is 503, and returns its body. A request that arrives before the
// stop has begun may be held by a gate, so none waits for longer than a moment.
func awaitRefusal(t *testing.T, url string) string {
	t.Helper()
	var body string
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		status, text, err := get(ctx, url)
		body = text
		return err == nil && status == http.StatusServiceUnavailable
	}, patience, time.Millisecond)
	return body
}

func TestHolding_drainRefusesNewAndFinishesOpenRequests(t *testing.T) {
	t.Parallel()
	e := envWithoutDatabase(t)
	svc := &customRefusal{keys: newKeys(t), gate: newGate(), drained: make(chan struct{})}
	l := listener(t)
	url := "http://" + l.Addr().String()
	stop := started(t, e.holding(svc, svc).worker("http", l, nil), patience)
	first, second := getLater(t, url+"/first"), getLater(t, url+"/second")
	<-svc.entered
	<-svc.entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	<-svc.drained
	require.Equal(t, "in its own words", awaitRefusal(t, url))
	svc.release <- "finished"
	require.Equal(t, "in its own words", awaitRefusal(t, url), "the listener stays open while one of two requests runs")
	svc.release <- "finished"
	require.Equal(t, []string{"finished", "finished"}, []string{<-first, <-second})
	require.NoError(t, <-stopped)
	_, _, err := get(t.Context(), url)
	require.Error(t, err, "the listener is closed")
	require.Empty(t, svc.entered, "no refused request reached the handler")
}

func TestHolding_defaultRefusal(t *testing.T) {
	t.Parallel()
	e := envWithoutDatabase(t)
	svc, g := &plainService{newKeys(t)}, newGate()
	l := listener(t)
	url := "http://" + l.Addr().String()
	stop := started(t, e.holding(svc, g).worker("http", l, nil), patience)
	held := getLater(t, url)
	<-g.entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	awaitRefusal(t, url)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("x"))
	require.NoError(t, err)
	resp, err := (&http.Transport{}).RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var out map[string]any
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&out))
	require.Equal(t, map[string]any{"detail": "the server is shutting down", "code": "draining"}, out)
	require.True(t, resp.Close, "the connection is closed, so that the next request goes to another instance")
	require.NotEmpty(t, resp.Header.Get("Retry-After"))
	require.Regexp(t, `^req_[0-9a-z]{26}$`, resp.Header.Get("X-Request-Id"))
	g.release <- "finished"
	require.Equal(t, "finished", <-held)
	require.NoError(t, <-stopped)
}

func TestHolding_releasesAbortedRequests(t *testing.T) {
	t.Parallel()
	e := envWithoutDatabase(t)
	entered := make(chan struct{})
	l := listener(t)
	stop := started(t, e.holding(&plainService{newKeys(t)}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})).worker("http", l, nil), patience)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { defer close(left); _, _, _ = get(ctx, "http://"+l.Addr().String()) }()
	<-entered
	leave()
	<-left
	require.NoError(t, stop(), "a handler that panicked counts as finished")
}

func TestHolding_drain_isIdempotent(t *testing.T) {
	t.Parallel()
	h := &holding{next: http.NotFoundHandler(), refuse: http.NotFoundHandler(), empty: make(chan struct{})}
	require.True(t, h.enter())
	h.drain()
	h.drain()
	select {
	case <-h.empty:
		require.Fail(t, "a request is still open")
	default:
	}
	require.False(t, h.enter())
	h.leave()
	<-h.empty
	h.drain()
}

// TestProcess_drainsBothListeners stops a process that has one open request on each of its two listeners: the mutual
// TLS listener for the gateway and the public plain HTTP listener.
func TestProcess_drainsBothListeners(t *testing.T) {
	t.Parallel()
	ca, vars := installation(t, "auth")
	db := pgtest.New(t, pgtest.Schema{Name: "auth"})
	httpAddr, openAddr, adminAddr := free(t), free(t), free(t)
	vars = with(vars, "SERVICE_AUTH_LISTEN", free(t), "SERVICE_AUTH_HTTP_LISTEN", httpAddr, "SERVICE_AUTH_LISTEN_PUBLIC", openAddr,
		"SERVICE_ADMIN_LISTEN", adminAddr, "SERVICE_STOP_TIMEOUT", "1m", "SERVICE_STOP_GRACE", "1m")
	svc := &customRefusal{keys: newKeys(t), gate: newGate(), drained: make(chan struct{})}
	log, stop := startProcess(t, Spec{Name: "auth", Config: &struct{}{}, TakesRequests: true, TakesAgents: true, Build: func(ctx context.Context, p *Process) ([]process.Worker, error) {
		if err := p.OpenPool(ctx, p.Closers, conf.Postgres{URL: db.URL("auth"), MaxConns: 4, StatementTimeout: patience}, true); err != nil {
			return nil, err
		}
		var err error
		if p.Sealing, err = OpenSealing(p.Settings.Audit); err != nil {
			return nil, err
		}
		own := func(context.Context) ([]authn.PublicKey, error) { return []authn.PublicKey{svc.key.Public()}, nil }
		return p.ServeBoth(ctx, svc, own, svc)
	}}, vars)
	require.Eventually(t, func() bool { return bytes.Contains([]byte(log.String()), []byte(`"serving"`)) }, patience, time.Millisecond)
	relayed := gatewayOf(t, ca)
	getRelayed := func() string {
		resp, err := relayed.Get("https://" + httpAddr + "/relayed")
		if err != nil {
			return err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		raw, _ := io.ReadAll(resp.Body)
		return resp.Status + " " + string(raw)
	}
	first, second := getLater(t, "http://"+openAddr+"/open"), make(chan string, 1)
	go func() { second <- getRelayed() }()
	require.ElementsMatch(t, []string{"/open", "/relayed"}, []string{<-svc.entered, <-svc.entered})
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	<-svc.drained
	require.Equal(t, "in its own words", awaitRefusal(t, "http://"+openAddr))
	require.Equal(t, "503 Service Unavailable in its own words", getRelayed(), "both listeners drain at once")
	_, ready, err := get(t.Context(), "http://"+adminAddr+"/readyz")
	require.NoError(t, err)
	require.Contains(t, ready, "draining", "/readyz reports draining while requests are still open")
	svc.release <- "finished"
	svc.release <- "finished"
	require.Equal(t, []string{"finished", "200 OK finished"}, []string{<-first, <-second})
	require.NoError(t, <-stopped)
	for _, addr := range []string{openAddr, httpAddr} {
		_, _, err := get(t.Context(), "http://"+addr)
		require.Error(t, err, "the listener is closed")
	}
}

// gatewayOf returns an HTTP client that calls the service auth with the certificate of the gateway.
func gatewayOf(t *testing.T, ca *pki.CA) *http.Client {
	t.Helper()
	pair, err := ca.IssueService("gateway", clock.Real().Now(), pki.DefaultServiceLife)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, pair.Save(dir, "gateway"))
	require.NoError(t, pki.WriteFile(filepath.Join(dir, "ca.pem"), ca.CertPEM()))
	files, err := pki.OpenFiles(filepath.Join(dir, "gateway.pem"), filepath.Join(dir, "gateway-key.pem"), filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: pki.ClientTLS(files, "auth"), DisableKeepAlives: true}
	return &http.Client{Transport: transport}
}

// If the gateway serves a service's HTTP routes, the service has no listener of its own to close.
func TestEnv_Hold_drainsBeforeGatewayStops(t *testing.T) {
	t.Parallel()
	e := envWithoutDatabase(t)
	svc := &customRefusal{keys: newKeys(t), gate: newGate(), drained: make(chan struct{})}
	handler, w := e.Hold(svc, "calls", svc)
	l := listener(t)
	url := "http://" + l.Addr().String()
	edge := started(t, HTTPWorker("edge", l, handler), patience)
	stop := started(t, w, patience)
	held := getLater(t, url)
	<-svc.entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	<-svc.drained
	require.Equal(t, "in its own words", awaitRefusal(t, url))
	select {
	case err := <-stopped:
		require.Fail(t, "the worker stopped while a call was running", err)
	default:
	}
	svc.release <- "finished"
	require.Equal(t, "finished", <-held)
	require.NoError(t, <-stopped)
	require.Equal(t, "in its own words", awaitRefusal(t, url), "the gateway still serves")
	require.NoError(t, edge())

	_, w = e.Hold(&plainService{newKeys(t)}, "calls", http.NotFoundHandler())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Stop(ctx), "no request is open")
	handler, w = e.Hold(&plainService{newKeys(t)}, "calls", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		require.ErrorIs(t, w.Stop(ctx), context.Canceled, "Stop reports an unfinished request")
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
}
