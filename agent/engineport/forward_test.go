package engineport_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/engineport"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// listen starts a fake engine on loopback and returns its address. serve handles each connection.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return "http://" + l.Addr().String()
}

func (w *harness) config(service string) *tls.Config {
	w.Helper()
	pair, err := w.ca.IssueService(service, time.Now(), time.Hour)
	require.NoError(w, err)
	identity, err := pki.Parse(pair.Cert, pair.Key, w.ca.CertPEM())
	require.NoError(w, err)
	return pki.ClientTLS(identity, "node/nod_1")
}

func (w *harness) dial() *tls.Conn {
	w.Helper()
	conn, err := (&tls.Dialer{Config: w.config("inference")}).DialContext(w.Context(), "tcp", strings.TrimPrefix(w.address(), "https://"))
	require.NoError(w, err)
	w.Cleanup(func() { _ = conn.Close() })
	secured, ok := conn.(*tls.Conn)
	require.True(w, ok)
	return secured
}

func TestForward_halfClosedRequest(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.set(listen(t, func(c net.Conn) {
		question, _ := io.ReadAll(c) // ReadAll returns after the client has closed its sending side.
		_, _ = c.Write([]byte("heard " + string(question)))
	}))
	conn := w.dial()
	_, err := conn.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "heard hello", string(answer))
}

func TestForward_responseEndClosesConnection(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.set(listen(t, func(c net.Conn) { _, _ = c.Write([]byte("bye")) }))
	answer, err := io.ReadAll(w.dial())
	require.NoError(t, err)
	require.Equal(t, "bye", string(answer))
}

func TestForward_callerDisconnects(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	left := make(chan struct{})
	w.engines.set(listen(t, func(c net.Conn) {
		_, _ = io.Copy(io.Discard, c)
		close(left)
	}))
	conn := w.dial()
	_, err := conn.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	<-left
}

func TestForward_streamsWithoutBuffering(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	next := make(chan string)
	w.engines.set(listen(t, func(c net.Conn) {
		for word := range next {
			_, _ = c.Write([]byte(word + "\n"))
		}
	}))
	lines := bufio.NewReader(w.dial())
	for i := range 3 {
		// The engine sends the next token only after the client has received this one.
		next <- "token " + strconv.Itoa(i)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "token "+strconv.Itoa(i)+"\n", line)
	}
	close(next)
	_, err := lines.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

func TestForward_engineDown(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dead := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	w.engines.set(dead)
	_, err = get(w.as("inference"), w.address())
	require.Error(t, err)
	w.engines.set(engineSending(t, "back"))
	got, err := get(w.as("inference"), w.address())
	require.NoError(t, err)
	require.Equal(t, "back", got)
}

func TestForward_silentCallersDoNotBlock(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.set(engineSending(t, "tokens"))
	address := w.address()
	for range 16 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "https://"))
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
	}
	got, err := get(w.as("inference"), address)
	require.NoError(t, err)
	require.Equal(t, "tokens", got)
	w.stop() // stop must not wait for clients that send nothing.
}

func TestRelay_Observed_onePortPerEngine(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	all := func(words ...string) map[string]string {
		w.engines.mu.Lock()
		w.engines.all = nil
		for _, word := range words {
			w.engines.all = append(w.engines.all, executor.Observation{
				Key: executor.Key{WorkID: word}, Engine: &executor.EngineReport{Address: engineSending(t, word), Ready: true},
			})
		}
		w.engines.mu.Unlock()
		addresses := map[string]string{}
		for _, o := range w.relay.Observed() {
			addresses[o.WorkID] = o.Engine.Address
		}
		return addresses
	}
	first := all("a", "b")
	require.NotEqual(t, first["a"], first["b"])
	for word, address := range first {
		got, err := get(w.as("inference"), address)
		require.NoError(t, err)
		require.Equal(t, word, got)
	}
	second := all("b", "c")
	require.Equal(t, first["b"], second["b"], "a remaining engine must keep its port")
	_, err := get(w.as("inference"), first["a"])
	require.Error(t, err, "the port of a removed engine must be closed")
}

func TestRelay_Observed_newGenerationGetsNewPort(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	at := func(generation int64) string {
		w.engines.mu.Lock()
		w.engines.all = []executor.Observation{{
			Key: executor.Key{WorkID: "w", Generation: generation}, Engine: &executor.EngineReport{Address: "http://127.0.0.1:1", Ready: true},
		}}
		w.engines.mu.Unlock()
		return w.address()
	}
	require.NotEqual(t, at(1), at(2))
}

func TestRelay_invalidClientCertificates(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.set(engineSending(t, "tokens"))
	address := w.address()
	strange, err := pki.NewCA(time.Now(), time.Hour)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		ca   *pki.CA
		from time.Time
	}{
		"other CA":      {strange, time.Now()},
		"expired":       {w.ca, time.Now().Add(-2 * time.Hour)},
		"not yet valid": {w.ca, time.Now().Add(30 * time.Minute)},
	} {
		pair, err := c.ca.IssueService("inference", c.from, time.Hour)
		require.NoError(t, err)
		identity, err := pki.Parse(pair.Cert, pair.Key, w.ca.CertPEM())
		require.NoError(t, err)
		_, err = get(&http.Client{Transport: &http.Transport{TLSClientConfig: pki.ClientTLS(identity, "node/nod_1"), DisableKeepAlives: true}}, address)
		require.Error(t, err, name)
	}
}

func TestRelay_nodeCertificateRejected(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.set(engineSending(t, "tokens"))
	key, request, err := pki.NewRequest()
	require.NoError(t, err)
	cert, err := w.ca.SignNode(request, "inference", time.Now(), time.Hour)
	require.NoError(t, err)
	node, err := pki.Parse(cert, key, w.ca.CertPEM())
	require.NoError(t, err)
	_, err = get(&http.Client{Transport: &http.Transport{TLSClientConfig: pki.ClientTLS(node, "node/nod_1"), DisableKeepAlives: true}}, w.address())
	require.Error(t, err, "a node named like a service must be rejected")
}

func TestRelay_Observed_engineWithoutAddress(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.mu.Lock()
	w.engines.all = []executor.Observation{
		{Key: executor.Key{WorkID: "starting"}, Engine: &executor.EngineReport{Phase: executor.EngineStarting, Message: "fetching"}},
	}
	w.engines.mu.Unlock()
	all := w.relay.Observed()
	require.Len(t, all, 1)
	require.Equal(t, executor.EngineReport{Phase: executor.EngineStarting, Message: "fetching"}, *all[0].Engine)
}

func TestRelay_Observed_portFailureIsNotReady(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	taken := httptest.NewServer(nil)
	defer taken.Close()
	node := func() (pki.Source, error) {
		key, request, err := pki.NewRequest()
		require.NoError(t, err)
		cert, err := w.ca.SignNode(request, "nod_1", time.Now(), time.Hour)
		require.NoError(t, err)
		return pki.Parse(cert, key, w.ca.CertPEM())
	}
	w.engines.set("http://127.0.0.1:1")
	for name, c := range map[string]struct {
		listen   string
		identity func() (pki.Source, error)
		words    string
	}{
		"port in use":         {strings.TrimPrefix(taken.URL, "http://"), node, "open a port"},
		"invalid address":     {"nowhere:x", node, "open a port"},
		"missing certificate": {"127.0.0.1:0", func() (pki.Source, error) { return nil, errors.New("not joined") }, "not joined"},
	} {
		r := engineport.New(engineport.Config{Listen: c.listen, Host: "h"}, w.engines, c.identity, slog.New(slog.DiscardHandler))
		got := r.Observed()[0].Engine
		require.False(t, got.Ready, name)
		require.Empty(t, got.Address, name)
		require.Contains(t, got.Message, c.words, name)
	}
}

func TestRelay_Observed_concurrentCallsOpenOnePort(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.engines.set(engineSending(t, "x"))
	var wg sync.WaitGroup
	addresses := make(chan string, 16)
	for range cap(addresses) {
		wg.Go(func() { addresses <- w.relay.Observed()[0].Engine.Address })
	}
	wg.Wait()
	close(addresses)
	want := w.address()
	for a := range addresses {
		require.Equal(t, want, a)
	}
}
