package engineclient_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	agentrelay "github.com/signalbox-dev/signalbox/agent/engineport"
	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
)

// installation issues certificates with the CA of one installation.
type installation struct {
	t  *testing.T
	ca *pki.CA
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	ca, err := pki.NewCA(clock.Real().Now(), time.Hour)
	require.NoError(t, err)
	return &installation{t: t, ca: ca}
}

func (h *installation) service(name string) *pki.Identity {
	h.t.Helper()
	pair, err := h.ca.IssueService(name, clock.Real().Now(), time.Hour)
	require.NoError(h.t, err)
	identity, err := pki.Parse(pair.Cert, pair.Key, h.ca.CertPEM())
	require.NoError(h.t, err)
	return identity
}

func (h *installation) node(id string) *pki.Identity {
	h.t.Helper()
	key, request, err := pki.NewRequest()
	require.NoError(h.t, err)
	cert, err := h.ca.SignNode(request, id, clock.Real().Now(), time.Hour)
	require.NoError(h.t, err)
	identity, err := pki.Parse(cert, key, h.ca.CertPEM())
	require.NoError(h.t, err)
	return identity
}

// as returns a client with the certificate of a service.
func (h *installation) as(service string) *engineclient.Client {
	h.t.Helper()
	c, identity := client(h.t), h.service(service)
	c.TLS = func(node string) *tls.Config { return pki.ClientTLS(identity, node) }
	return c
}

// singleEngine is an executor that reports one engine.
type singleEngine struct {
	executor.Executor
	address string
}

func (o singleEngine) Observed() []executor.Observation {
	return []executor.Observation{{
		Key: executor.Key{WorkID: "w"}, Engine: &executor.EngineReport{Address: "http://" + o.address, Ready: true},
	}}
}

// behindNode runs the real relay of a node's agent in front of an engine and returns the address of the relay.
func (h *installation) behindNode(id, engine string) engineclient.Engine {
	h.t.Helper()
	identity := h.node(id)
	r := agentrelay.New(agentrelay.Config{Listen: "127.0.0.1:0", Host: "127.0.0.1"}, singleEngine{address: engine},
		func() (pki.Source, error) { return identity, nil }, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	h.t.Cleanup(func() { cancel(); require.NoError(h.t, <-done) })
	address := r.Observed()[0].Engine.Address
	return engineclient.Engine{Addr: strings.TrimPrefix(address, "https://"), Node: "node/" + id}
}

func TestRemoteEngineBehindNode(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	addr, conns := peer(t, echo)
	to, c := h.behindNode("nod_1", addr), h.as("inference")
	for range 20 {
		a, err := c.Do(t.Context(), to, post("hello"))
		require.NoError(t, err)
		require.Equal(t, "hello", whole(t, a))
	}
	require.Equal(t, int32(1), conns.Load(), "TLS connections must be reused too")
	large := strings.Repeat("0123456789abcdef", 64<<10)
	a, err := c.Do(t.Context(), to, post(large))
	require.NoError(t, err)
	require.Equal(t, large, whole(t, a), "a body of many TLS records must pass unchanged")
}

func TestOtherIdentitiesUnreachable(t *testing.T) {
	t.Parallel()
	h, other := newInstallation(t), newInstallation(t)
	addr, conns := peer(t, echo)
	to, foreign := h.behindNode("nod_1", addr), other.behindNode("nod_1", addr)
	for name, c := range map[string]struct {
		to     engineclient.Engine
		client *engineclient.Client
	}{
		"other node":              {engineclient.Engine{Addr: to.Addr, Node: "node/nod_2"}, h.as("inference")},
		"longer name":             {engineclient.Engine{Addr: to.Addr, Node: "node/nod_12"}, h.as("inference")},
		"name of a service":       {engineclient.Engine{Addr: to.Addr, Node: "inference"}, h.as("inference")},
		"other installation":      {foreign, h.as("inference")},
		"engine without TLS":      {engineclient.Engine{Addr: addr, Node: to.Node}, h.as("inference")},
		"client without TLS":      {to, client(t)},
		"service instead of node": {h.server("registry"), h.as("inference")},
		"inference itself":        {h.server("inference"), h.as("inference")},
	} {
		_, err := c.client.Do(t.Context(), c.to, post("secret"))
		require.ErrorIs(t, err, engineclient.ErrUnreachable, name)
	}
	_, err := h.as("gateway").Do(t.Context(), to, post("secret"))
	require.Error(t, err, "the agent must accept no service but inference")
	require.Equal(t, int32(1), conns.Load(), "only the engine without TLS must get a connection, which begins with a TLS ClientHello")
}

// server starts a listener with the certificate of a service. The returned Engine wrongly names a node at its address.
func (h *installation) server(service string) engineclient.Engine {
	h.t.Helper()
	identity := h.service(service)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(h.t, err)
	l := tls.NewListener(inner, pki.ServerTLS(identity, pki.Only("inference")))
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	}()
	h.t.Cleanup(func() { _ = l.Close(); <-served })
	return engineclient.Engine{Addr: inner.Addr().String(), Node: "node/" + service}
}

func TestContextCutsTLSHandshake(t *testing.T) {
	t.Parallel()
	h, why := newInstallation(t), errors.New("why")
	ctx, cut := context.WithCancelCause(t.Context())
	addr, _ := peer(t, func(_ int, _ net.Conn, in *bufio.Reader) {
		_, _ = in.ReadByte() // the ClientHello has arrived; no ServerHello is sent
		cut(why)
		_, _ = io.Copy(io.Discard, in)
	})
	_, err := h.as("inference").Do(ctx, engineclient.Engine{Addr: addr, Node: "node/nod_1"}, post("x"))
	require.ErrorIs(t, err, why)
	require.NotErrorIs(t, err, engineclient.ErrUnreachable)
}

func TestPooledConnectionNotSharedBetweenNodes(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	addr, conns := peer(t, echo)
	to, c := h.behindNode("nod_1", addr), h.as("inference")
	a, err := c.Do(t.Context(), to, post("mine"))
	require.NoError(t, err)
	require.Equal(t, "mine", whole(t, a))
	_, err = c.Do(t.Context(), engineclient.Engine{Addr: to.Addr, Node: "node/nod_2"}, post("not for nod_1"))
	require.ErrorIs(t, err, engineclient.ErrUnreachable, "an idle connection to the same address must not be used")
	_, err = c.Do(t.Context(), engineclient.Engine{Addr: to.Addr}, post("without TLS"))
	require.Error(t, err)
	require.NotErrorIs(t, err, engineclient.ErrUnreachable, "a port that accepts connections but not plain HTTP must not count as unreachable")
	require.Equal(t, int32(1), conns.Load())
}

// respondTwice starts a node that sends two responses to each request, each in its own TLS record. When the first
// response has been read, the second can be in the TLS buffer.
func (h *installation) respondTwice(id string) (to engineclient.Engine, sent <-chan struct{}) {
	h.t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(h.t, err)
	l := tls.NewListener(inner, pki.ServerTLS(h.node(id), pki.Only("inference")))
	both := make(chan struct{}, 64)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				for in := bufio.NewReader(c); ; {
					if _, _, ok := take(in); !ok {
						return
					}
					for _, word := range []string{"mine", "evil"} {
						_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"+word)
					}
					both <- struct{}{}
				}
			})
		}
	})
	h.t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return engineclient.Engine{Addr: inner.Addr().String(), Node: "node/" + id}, both
}

func TestUnrequestedResponseInTLSBufferDiscarded(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	to, sent := h.respondTwice("nod_1")
	c := h.as("inference")
	for range 20 {
		a, err := c.Do(t.Context(), to, post("x"))
		require.NoError(t, err)
		<-sent
		require.Equal(t, "mine", whole(t, a))
	}
}

func TestContextEndFreesRemoteEngine(t *testing.T) {
	t.Parallel()
	h, left := newInstallation(t), make(chan struct{})
	addr, _ := peer(t, func(_ int, c net.Conn, in *bufio.Reader) {
		_, _, _ = take(in)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n")
		_, _ = io.Copy(io.Discard, in)
		close(left)
	})
	ctx, leave := context.WithCancel(t.Context())
	a, err := h.as("inference").Do(ctx, h.behindNode("nod_1", addr), post("x"))
	require.NoError(t, err)
	got := make([]byte, 3)
	_, err = io.ReadFull(a, got)
	require.NoError(t, err)
	leave()
	<-left
	_, err = a.Read(got)
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
	_ = a.Close()
}

func TestHostHeaderIsNodeAddress(t *testing.T) {
	t.Parallel()
	h, hosts := newInstallation(t), make(chan string, 1)
	addr, _ := peer(t, func(_ int, c net.Conn, in *bufio.Reader) {
		r, _, ok := take(in)
		if ok {
			hosts <- r.Host
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	to := h.behindNode("nod_1", addr)
	a, err := h.as("inference").Do(t.Context(), to, engineclient.Request{Method: http.MethodGet, Target: post("").Target})
	require.NoError(t, err)
	require.Empty(t, whole(t, a))
	require.Equal(t, to.Addr, <-hosts)
}
