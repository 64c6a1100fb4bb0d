package rpc_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// harness is a set of services on one kind of network. Most tests run on both kinds, in memory and over TCP.
type harness struct {
	clk    clock.Clock
	signer *authn.Signer
	keys   *authn.Keys
	as     func(t *testing.T, identity string) rpc.Network
}

func harnesses() map[string]func(t *testing.T) *harness {
	return map[string]func(t *testing.T) *harness{
		"memory": func(t *testing.T) *harness { t.Helper(); return newHarness(t, memoryNetwork()) },
		"tcp":    func(t *testing.T) *harness { t.Helper(); return newHarness(t, tcpNetwork(t)) },
	}
}

func newHarness(t *testing.T, as func(t *testing.T, identity string) rpc.Network) *harness {
	t.Helper()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	clk := clock.Real()
	var n atomic.Int64
	newID := func() string { return fmt.Sprintf("jti-%d", n.Add(1)) }
	return &harness{
		clk: clk, as: as, keys: authn.StaticKeys(clk, key.Public()),
		signer: authn.NewSigner(clk, newID, func() authn.SigningKey { return key }),
	}
}

func memoryNetwork() func(*testing.T, string) rpc.Network {
	bus := rpc.Memory(rpc.ClientOptions{Clock: clock.Real()})
	return func(_ *testing.T, identity string) rpc.Network { return bus.As(identity) }
}

// tcpNetwork gives each identity a real certificate. A service uses a free port at its first start and the same
// port after a restart.
func tcpNetwork(t *testing.T) func(*testing.T, string) rpc.Network {
	t.Helper()
	ca, err := pki.NewCA(clock.Real().Now(), time.Hour)
	require.NoError(t, err)
	at := &addresses{services: map[string]string{}, agents: map[string]string{}}
	return func(t *testing.T, name string) rpc.Network {
		t.Helper()
		n, err := rpc.TCP(at.config(identity(t, ca, name), name))
		require.NoError(t, err)
		return recording{n, at}
	}
}

type addresses struct {
	mu               sync.Mutex
	services, agents map[string]string
}

func (a *addresses) config(ident *pki.Identity, name string) rpc.TCPConfig {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.services
	if strings.HasPrefix(name, "node/") {
		known = a.agents
	}
	peers := map[string]string{}
	for _, s := range []string{"jobs", "registry", "auth", "gateway", "ingest"} {
		peers[s] = cmp.Or(known[s], "127.0.0.1:1")
	}
	return rpc.TCPConfig{
		Identity: ident, Peers: peers, Client: rpc.ClientOptions{Clock: clock.Real()},
		Listen: cmp.Or(a.services[name], "127.0.0.1:0"), ListenAgents: cmp.Or(a.agents[name], "127.0.0.1:0"),
	}
}

// recording records the address of each listener.
type recording struct {
	rpc.Network
	at *addresses
}

func (r recording) Listen(service string) (*rpc.Listener, error) {
	l, err := r.Network.Listen(service)
	return r.note(r.at.services, service, l), err
}

func (r recording) ListenAgents(service string) (*rpc.Listener, error) {
	l, err := r.Network.ListenAgents(service)
	return r.note(r.at.agents, service, l), err
}

func (r recording) note(in map[string]string, service string, l *rpc.Listener) *rpc.Listener {
	if l != nil {
		r.at.mu.Lock()
		defer r.at.mu.Unlock()
		in[service] = l.Addr().String()
	}
	return l
}

func identity(t *testing.T, ca *pki.CA, name string) *pki.Identity {
	t.Helper()
	now := clock.Real().Now()
	var pair pki.Pair
	var err error
	if id, isNode := pki.NodeID(name); isNode {
		var request []byte
		pair.Key, request, err = pki.NewRequest()
		require.NoError(t, err)
		pair.Cert, err = ca.SignNode(request, id, now, time.Hour)
	} else {
		pair, err = ca.IssueService(name, now, time.Hour)
	}
	require.NoError(t, err)
	ident, err := pki.Parse(pair.Cert, pair.Key, ca.CertPEM())
	require.NoError(t, err)
	return ident
}

// logs collects the log of a server.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) lines(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []map[string]any
	for line := range strings.SplitSeq(strings.TrimSpace(l.buf.String()), "\n") {
		if line == "" {
			continue
		}
		m := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		out = append(out, m)
	}
	return out
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

type running struct {
	logs *logs
	stop func() error
}

type setup struct {
	service  string
	handlers *handlers
	agents   bool
	change   func(*rpc.ServerOptions)
	settle   func(context.Context) error // nil registers the service without Settled
}

// serve starts a service, which runs until stop is called or the test ends.
func (w *harness) serve(t *testing.T, s setup) *running {
	t.Helper()
	r := &running{logs: &logs{}}
	o := rpc.ServerOptions{
		Service: s.service, Clock: w.clk, NewRequestID: func() string { return "req_made" },
		Log:      slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Verifier: authn.NewVerifier(w.clk, w.keys), StopTimeout: 5 * time.Second,
	}
	if s.change != nil {
		s.change(&o)
	}
	server := rpc.NewServer(o)
	var to grpc.ServiceRegistrar = server
	if s.settle != nil {
		to = rpc.Settled(server, s.settle)
	}
	to.RegisterService(s.handlers.desc(testService), s.handlers)
	n := w.as(t, s.service)
	listeners := []*rpc.Listener{listen(t, n.Listen, s.service)}
	if s.agents {
		listeners = append(listeners, listen(t, n.ListenAgents, s.service))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listeners...) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return r
}

func listen(t *testing.T, open func(string) (*rpc.Listener, error), service string) *rpc.Listener {
	t.Helper()
	l, err := open(service)
	require.NoError(t, err)
	return l
}

func (w *harness) dial(t *testing.T, from, to string) *grpc.ClientConn {
	t.Helper()
	cc, err := w.as(t, from).Dial(to)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cc.Close()) })
	return cc
}

// calledBy returns a context with the caller and its token, as a request from the gateway has it.
func (w *harness) calledBy(t *testing.T, c *authn.Caller) context.Context {
	t.Helper()
	token, expires, err := w.signer.Sign(c)
	require.NoError(t, err)
	return authn.WithToken(authn.NewContext(t.Context(), c), token, expires)
}

func person(role string) *authn.Caller {
	return &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: role}
}

// echo returns handlers that respond in the field text. A unary response contains the peer and the caller, a stream
// response the peer and the request id.
func echo() *handlers {
	return &handlers{
		unary: func(ctx context.Context, _ string, _ *dynamicpb.Message) (*dynamicpb.Message, error) {
			c, ok := authn.FromContext(ctx)
			if !ok {
				c = &authn.Caller{}
			}
			return pingText(fmt.Sprintf("%s|%s|%s", rpc.Peer(ctx), c.Kind, c.Subject)), nil
		},
		stream: func(_ string, s grpc.ServerStream) error {
			for {
				m := ping()
				if err := s.RecvMsg(m); err != nil {
					if errors.Is(err, io.EOF) {
						return nil
					}
					return err
				}
				if err := s.SendMsg(pingText(rpc.Peer(s.Context()) + "|" + obs.RequestID(s.Context()))); err != nil {
					return err
				}
			}
		},
	}
}
