package engineport_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/engineport"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// engines is an executor with fixed observations.
type engines struct {
	executor.Executor
	mu  sync.Mutex
	all []executor.Observation
}

func (e *engines) Observed() []executor.Observation {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []executor.Observation
	for _, o := range e.all {
		report := *o.Engine
		o.Engine = &report
		all = append(all, o)
	}
	return all
}

func (e *engines) set(addresses ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = nil
	for _, a := range addresses {
		e.all = append(e.all, executor.Observation{Key: executor.Key{WorkID: "w"}, Engine: &executor.EngineReport{Address: a, Ready: true}})
	}
}

type harness struct {
	*testing.T
	ca      *pki.CA
	engines *engines
	relay   *engineport.Relay
	// opened are the addresses of the ports that the relay has opened.
	opened []string
	stop   func()
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	ca, err := pki.NewCA(time.Now(), time.Hour)
	require.NoError(t, err)
	w := &harness{T: t, ca: ca, engines: &engines{}}
	key, request, err := pki.NewRequest()
	require.NoError(t, err)
	cert, err := ca.SignNode(request, "nod_1", time.Now(), time.Hour)
	require.NoError(t, err)
	node, err := pki.Parse(cert, key, ca.CertPEM())
	require.NoError(t, err)
	opened := func(_ executor.Key, address string) { w.opened = append(w.opened, address) }
	w.relay = engineport.New(engineport.Config{Listen: "127.0.0.1:0", Host: "127.0.0.1", Opened: opened}, w.engines,
		func() (pki.Source, error) { return node, nil }, slog.New(slog.NewTextHandler(t.Output(), nil)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.relay.Run(ctx) }()
	w.stop = sync.OnceFunc(func() { cancel(); require.NoError(t, <-done) })
	t.Cleanup(w.stop)
	return w
}

// as returns an HTTP client with a certificate for the given service.
func (w *harness) as(service string) *http.Client {
	w.Helper()
	pair, err := w.ca.IssueService(service, time.Now(), time.Hour)
	require.NoError(w, err)
	identity, err := pki.Parse(pair.Cert, pair.Key, w.ca.CertPEM())
	require.NoError(w, err)
	transport := &http.Transport{TLSClientConfig: pki.ClientTLS(identity, "node/nod_1"), DisableKeepAlives: true}
	w.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (w *harness) address() string {
	w.Helper()
	all := w.relay.Observed()
	require.Len(w, all, 1)
	return all[0].Engine.Address
}

func get(c *http.Client, url string) (string, error) {
	resp, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return string(raw), err
}

func engineSending(t *testing.T, words string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		_, _ = w.Write([]byte(words))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestRelay_acceptsOnlyInference(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.set(engineSending(t, "tokens"))
	address := w.address()
	require.True(t, strings.HasPrefix(address, "https://127.0.0.1:"), address)
	require.Equal(t, address, w.address(), "a second call must not open another port")
	got, err := get(w.as("inference"), address)
	require.NoError(t, err)
	require.Equal(t, "tokens", got)
	for _, other := range []string{"registry", "gateway", "jobs"} {
		_, err := get(w.as(other), address)
		require.Error(t, err, other)
	}
	_, err = get(&http.Client{}, address)
	require.Error(t, err, "a client without a certificate must be rejected")
	_, err = get(&http.Client{}, strings.Replace(address, "https", "http", 1))
	require.Error(t, err, "a client without TLS must be rejected")
}

func TestRelay_restartedEngineKeepsPort(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.set(engineSending(t, "first"))
	address := w.address()
	w.engines.set(engineSending(t, "second"))
	require.Equal(t, address, w.address())
	got, err := get(w.as("inference"), address)
	require.NoError(t, err)
	require.Equal(t, "second", got)
}

// The shim of an engine connects without a handshake to check whether the relay responds.
func TestRelay_endsConnectionWithoutHandshake(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.set(engineSending(t, "x"))
	require.Equal(t, []string{strings.TrimPrefix(w.address(), "https://")}, w.opened)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.opened[0])
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, tcp.CloseWrite())
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, err = io.Copy(io.Discard, conn)
	require.NoError(t, err)
	w.address()
	require.Len(t, w.opened, 1)
}

func TestRelay_Observed_closesPortOfGoneEngine(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.set(engineSending(t, "x"))
	host := strings.TrimPrefix(w.address(), "https://")
	w.engines.set()
	require.Empty(t, w.relay.Observed())
	_, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	require.Error(t, err)
}

func TestRelay_Run_closesConnectionsAtEnd(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	begun := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.(http.Flusher).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	defer s.Close()
	w.engines.set(s.URL)
	client, address, done := w.as("inference"), w.address(), make(chan error, 1)
	go func() { _, err := get(client, address); done <- err }()
	<-begun
	w.stop()
	require.Error(t, <-done)
	require.Empty(t, w.address())
	require.False(t, w.relay.Observed()[0].Engine.Ready)
}

func TestRelay_Observed_noCertificate(t *testing.T) {
	t.Parallel()
	e := &engines{}
	e.set("http://127.0.0.1:1")
	r := engineport.New(engineport.Config{Listen: "127.0.0.1:0"}, e, func() (pki.Source, error) { return nil, errors.New("not joined") }, slog.New(slog.DiscardHandler))
	all := r.Observed()
	require.False(t, all[0].Engine.Ready)
	require.Empty(t, all[0].Engine.Address)
}
