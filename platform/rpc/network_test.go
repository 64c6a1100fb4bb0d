package rpc_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

func TestNetwork_Listen_asOtherService(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			_, err := w.as(t, "jobs").Listen("auth")
			require.ErrorContains(t, err, "jobs cannot listen as auth")
			_, err = w.as(t, "node/nod_1").ListenAgents("jobs")
			require.ErrorContains(t, err, "node/nod_1 cannot listen as jobs")
		})
	}
}

func TestNetwork_Listen_twice(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			l := listen(t, w.as(t, "jobs").Listen, "jobs")
			_, err := w.as(t, "jobs").Listen("jobs")
			require.ErrorContains(t, err, "jobs")
			require.NoError(t, l.Close())
			l = listen(t, w.as(t, "jobs").Listen, "jobs")
			require.NoError(t, l.Close())
		})
	}
}

func TestNetwork_Dial_invalidName(t *testing.T) {
	t.Parallel()
	for kind, open := range harnesses() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			_, err := w.as(t, "jobs").Dial("no such")
			require.Error(t, err)
		})
	}
}

func TestPeer_outsideOfCall(t *testing.T) {
	t.Parallel()
	require.Empty(t, rpc.Peer(t.Context()))
}

func TestMemory_invalidIdentities(t *testing.T) {
	t.Parallel()
	bus := rpc.Memory(rpc.ClientOptions{Clock: clock.Real()})
	w := newHarness(t, func(_ *testing.T, identity string) rpc.Network { return bus.As(identity) })
	w.serve(t, setup{service: "jobs", handlers: echo(), agents: true})
	for _, name := range []string{"", "node", "Jobs", "node/", "node/A", "jobs/evil", string(make([]byte, 300))} {
		_, err := try(t.Context(), w.dial(t, name, "jobs"), "PeerOnce")
		require.Equal(t, codes.Unavailable, status.Code(err), "%q", name)
	}
}

func TestTCP_invalidConfig(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA(clock.Real().Now(), time.Hour)
	require.NoError(t, err)
	ident := identity(t, ca, "jobs")
	_, err = rpc.TCP(rpc.TCPConfig{})
	require.ErrorContains(t, err, "certificate")
	_, err = rpc.TCP(rpc.TCPConfig{Identity: ident, Peers: map[string]string{"auth": "no-port"}})
	require.ErrorContains(t, err, "auth")
	_, err = rpc.TCP(rpc.TCPConfig{Identity: ident, Peers: map[string]string{"Auth": "a:1"}})
	require.Error(t, err)
	wire, err := rpc.TCP(rpc.TCPConfig{Identity: ident})
	require.NoError(t, err)
	_, err = wire.ListenAgents("jobs")
	require.ErrorContains(t, err, "no listen address configured for jobs for agents")
	_, err = wire.Dial("auth")
	require.ErrorContains(t, err, "no address configured for service auth")
}

// attacker calls a TCP service with the given credentials. It returns nil if all calls fail to connect.
func attacker(t *testing.T, addr string, creds credentials.TransportCredentials) error {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds))
	require.NoError(t, err)
	defer func() { require.NoError(t, cc.Close()) }()
	for _, m := range methods() {
		if _, err = try(t.Context(), cc, m.GetName()); status.Code(err) != codes.Unavailable {
			return err
		}
	}
	return nil
}

func TestTCP_foreignCertificateIsRejected(t *testing.T) {
	t.Parallel()
	w := newHarness(t, tcpNetwork(t))
	r := w.serve(t, setup{service: "jobs", handlers: echo(), agents: true})
	at := w.as(t, "jobs").(recording).at
	foreign, err := pki.NewCA(clock.Real().Now(), time.Hour)
	require.NoError(t, err)
	skip := func(c *tls.Config) *tls.Config { c.VerifyConnection = nil; return c }
	for _, addr := range []string{at.services["jobs"], at.agents["jobs"]} {
		for name, creds := range map[string]credentials.TransportCredentials{
			"plain text":         insecure.NewCredentials(),
			"no certificate":     credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}),
			"another CA":         credentials.NewTLS(skip(pki.ClientTLS(identity(t, foreign, "gateway"), "jobs"))),
			"node of another CA": credentials.NewTLS(skip(pki.ClientTLS(identity(t, foreign, "node/nod_1"), "jobs"))),
		} {
			require.NoError(t, attacker(t, addr, creds), name)
		}
	}
	require.NoError(t, r.stop())
	require.Empty(t, r.logs.lines(t), "no call reached an interceptor")
}

func TestTCP_listenersSeparateServicesAndNodes(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA(clock.Real().Now(), time.Hour)
	require.NoError(t, err)
	client := rpc.ClientOptions{Clock: clock.Real()}
	jobs, err := rpc.TCP(rpc.TCPConfig{Identity: identity(t, ca, "jobs"), Listen: "127.0.0.1:0", ListenAgents: "127.0.0.1:0", Client: client})
	require.NoError(t, err)
	at := &addresses{services: map[string]string{}, agents: map[string]string{}}
	w := newHarness(t, func(*testing.T, string) rpc.Network { return recording{jobs, at} })
	w.serve(t, setup{service: "jobs", handlers: echo(), agents: true})
	for name, addr := range map[string]string{"node/nod_1": at.services["jobs"], "gateway": at.agents["jobs"]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong, err := rpc.TCP(rpc.TCPConfig{Identity: identity(t, ca, name), Peers: map[string]string{"jobs": addr}, Client: client})
			require.NoError(t, err)
			cc, err := wrong.Dial("jobs")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, cc.Close()) })
			for _, m := range methods() {
				t.Run(m.GetName(), func(t *testing.T) {
					t.Parallel()
					_, err := try(t.Context(), cc, m.GetName())
					require.Equal(t, codes.Unavailable, status.Code(err))
				})
			}
		})
	}
}

func TestTCP_clientChecksServerIdentity(t *testing.T) {
	t.Parallel()
	w := newHarness(t, tcpNetwork(t))
	r := w.serve(t, setup{service: "registry", handlers: echo()})
	at := w.as(t, "registry").(recording).at
	at.mu.Lock()
	at.services["auth"] = at.services["registry"] // another service listens at the address of auth
	at.mu.Unlock()
	_, err := try(w.calledBy(t, person("admin")), w.dial(t, "jobs", "auth"), "Open")
	require.True(t, fault.Is(err, fault.Unavailable))
	require.ErrorContains(t, err, "the server is registry, not auth")
	require.NoError(t, r.stop())
	require.Empty(t, r.logs.lines(t), "the token of the caller was not sent")
}

func TestTCPNetwork_HTTPBetweenServices(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA(clock.Real().Now(), time.Hour)
	require.NoError(t, err)
	wire := func(name string) *rpc.TCPNetwork {
		w, err := rpc.TCP(rpc.TCPConfig{Identity: identity(t, ca, name), Client: rpc.ClientOptions{Clock: clock.Real()}})
		require.NoError(t, err)
		return w
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	server.Listener = tls.NewListener(server.Listener, wire("inference").ServerTLS("gateway"))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	defer server.Close()
	address := "https://" + server.Listener.Addr().String()
	for name, ok := range map[string]bool{"gateway": true, "jobs": false, "node/nod_1": false} {
		transport := &http.Transport{TLSClientConfig: wire(name).ClientTLS("inference")}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		require.NoError(t, err)
		resp, err := transport.RoundTrip(req)
		require.Equal(t, ok, err == nil, name)
		if ok {
			require.NoError(t, resp.Body.Close())
		}
		transport.CloseIdleConnections()
	}
}
