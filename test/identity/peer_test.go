package identity

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gen/route"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestServicesOnTheWire connects directly to the ports of the services: with the certificate of each
// service and of a node, and with certificates that the installation's CA did not issue.
func TestServicesOnTheWire(t *testing.T) {
	w := newPeerNetwork(t, testenv.Split(t, testenv.Options{Env: cheapHashing()}))
	ctx := t.Context()
	t.Run("methods between services", func(t *testing.T) { w.requirePeerMethods(ctx, t) })
	t.Run("methods for people", func(t *testing.T) { w.requireUserMethods(ctx, t) })
	t.Run("strangers", func(t *testing.T) { w.requireStrangersRejected(t) })
	t.Run("reflection", func(t *testing.T) { w.reflection(ctx, t) })
	t.Run("listeners", func(t *testing.T) { w.listeners(t) })
	t.Run("people", func(t *testing.T) {
		// The tests of the single process must also pass if each service has its own process.
		people := newHarness(ctx, t, w.Installation)
		t.Run("credentials", func(t *testing.T) { people.requireCredentialPlaces(ctx, t) })
		t.Run("routes", func(t *testing.T) { people.routes(ctx, t) })
	})
	t.Run("another CA", func(t *testing.T) { w.anotherCA(ctx, t) })
}

// streamMethods reports for each method whether it is a stream.
func streamMethods() map[string]bool {
	out := map[string]bool{}
	for _, m := range methods() {
		out[nameOf(m)] = m.IsStreamingClient() || m.IsStreamingServer()
	}
	return out
}

// requirePeerMethods calls every method of peers.txt at every service that serves it, as each service, as an unknown
// service and as a node.
func (w *peerNetwork) requirePeerMethods(ctx context.Context, t *testing.T) {
	t.Helper()
	streams := streamMethods()
	now := clock.Real().Now()
	callers := append(services(), "billing", "node/nod_0")
	for _, at := range []string{"auth", "jobs", "ingest", "registry", "inference", "node"} {
		for _, who := range callers {
			conn := w.dial(t, identity(t, w.ca, who, now), at)
			if node := who == "node/nod_0"; node != (at == "node") {
				require.Equal(t, "no connection", outcomeOf(call(ctx, conn, health, false)), "%s at %s: each listener accepts either services or nodes", who, at)
				continue
			}
			for _, m := range peerMethods(t) {
				if !slices.Contains(m.on, server(at)) {
					continue
				}
				want := "refused"
				if agents := m.callers[0] == "node"; at == "node" && agents || at != "node" && slices.Contains(m.callers, who) {
					want = "in"
				}
				got := outcomeOf(call(ctx, conn, m.name, streams[m.name]))
				assert.Equal(t, want, got, "%s at %s as %s", m.name, at, who)
			}
		}
	}
}

// requireUserMethods calls methods of the route table as each service: without a caller token, with caller tokens that
// auth did not sign, and with other kinds of tokens. Only the gateway may send a caller token. From any other service,
// even the valid caller token of an admin must give no access.
func (w *peerNetwork) requireUserMethods(ctx context.Context, t *testing.T) {
	t.Helper()
	now := clock.Real().Now()
	access := w.access(ctx, t)
	bad := map[string][]string{
		"no caller": nil, "an access token": {access}, "a caller signed with another key": {foreignCallerToken(t)}, "two": {foreignCallerToken(t), foreignCallerToken(t)}, "none": {""},
		"an unsigned caller": {unsigned(t, foreignCallerToken(t))},
	}
	good := w.callerOf(ctx, t, access)
	table := draw.Table(t, rowShare, route.Table())
	for _, who := range services() {
		want, tokens := "refused", maps.Clone(bad)
		if who == "gateway" {
			want = "unauthenticated"
		} else {
			tokens["a valid caller"] = []string{good}
		}
		for _, rt := range table {
			if rt.RPC == "" {
				continue
			}
			for _, at := range servers(rt) {
				conn := w.conn(t, who, at, now)
				for name, values := range tokens {
					got := outcomeOf(call(withCaller(ctx, values), conn, rt.RPC, rt.Kind == route.Stream))
					assert.Equal(t, want, got, "%s at %s as %s with %s", rt.RPC, at, who, name)
				}
			}
		}
	}
	me := "signalbox.auth.v1.AuthService/GetMe"
	assert.Equal(t, "in", outcomeOf(call(withCaller(ctx, []string{w.callerOf(ctx, t, access)}), w.conn(t, "gateway", "auth", now), me, false)), "the valid caller must be accepted from the gateway")
}

// servers returns the services that implement the method of a route.
func servers(rt route.Route) []string {
	if rt.Service == "search" {
		return []string{"auth", "jobs", "registry"}
	}
	return []string{rt.Service}
}

// callerOf returns the caller token that the gateway receives from auth for an access token.
func (w *peerNetwork) callerOf(ctx context.Context, t *testing.T, access string) string {
	t.Helper()
	conn := w.conn(t, "gateway", "auth", clock.Real().Now())
	out, err := authpeerv1.NewCredentialServiceClient(conn).Authenticate(ctx, &authpeerv1.AuthenticateRequest{Credential: access, ClientAddress: "127.0.0.1"})
	require.NoError(t, err)
	return out.GetCallerToken()
}

// foreignCallerToken returns a caller token that is not signed with auth's key.
func foreignCallerToken(t *testing.T) string {
	t.Helper()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	signer := authn.NewSigner(clock.Real(), func() string { return "jti" }, func() authn.SigningKey { return key })
	token, _, err := signer.Sign(&authn.Caller{Kind: authn.KindUser, Subject: "usr_01" + "000000000000000000000000", Role: authn.RoleAdmin, Username: "admin", SessionID: "ses_1", Epoch: 1})
	require.NoError(t, err)
	return token
}

// requireStrangersRejected connects without a certificate, with invalid certificates and with TLS 1.2. Every connection
// must fail.
func (w *peerNetwork) requireStrangersRejected(t *testing.T) {
	t.Helper()
	now := clock.Real().Now()
	other, err := pki.NewCA(now, time.Hour)
	require.NoError(t, err)
	for _, at := range []string{"auth", "jobs", "ingest", "registry", "inference", "node"} {
		who := "gateway"
		if at == "node" {
			who = "node/nod_0"
		}
		good := pki.ClientTLS(identity(t, w.ca, who, now), server(at))
		require.NotEqual(t, "no connection", w.handshake(t, at, good), "a valid certificate must connect to %s", at)
		old, none, wrong, late := good.Clone(), good.Clone(), good.Clone(), good.Clone()
		old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		none.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
		wrong.GetClientCertificate = pki.ClientTLS(identity(t, other, who, now), server(at)).GetClientCertificate
		late.GetClientCertificate = pki.ClientTLS(identity(t, w.ca, who, now.Add(-2*time.Hour)), server(at)).GetClientCertificate
		for name, cfg := range map[string]*tls.Config{"TLS 1.2": old, "no certificate": none, "another CA's": wrong, "an expired one": late} {
			require.Equal(t, "no connection", w.handshake(t, at, cfg), "%s at %s", name, at)
		}
	}
}

// handshake connects with the TLS configuration and returns the outcome.
func (w *peerNetwork) handshake(t *testing.T, at string, cfg *tls.Config) string {
	t.Helper()
	return outcomeOf(call(t.Context(), w.connect(t, at, cfg), health, false))
}

// reflection calls the reflection and channelz services. They must not be served.
func (w *peerNetwork) reflection(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, at := range []string{"auth", "jobs", "ingest", "registry", "inference"} {
		conn := w.conn(t, "gateway", at, clock.Real().Now())
		for _, name := range []protoreflect.FullName{"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"} {
			require.Equal(t, "not served", outcomeOf(call(ctx, conn, string(name)+"/ServerReflectionInfo", true)), "%s at %s", name, at)
		}
		require.Equal(t, "not served", outcomeOf(call(ctx, conn, "grpc.channelz.v1.Channelz/GetServers", false)), at)
	}
}

// anotherCA replaces the installation's CA while the services are running. It makes the services trust both
// CAs, then replaces the certificates, and then removes the old CA.
func (w *peerNetwork) anotherCA(ctx context.Context, t *testing.T) {
	t.Helper()
	now := clock.Real().Now()
	other, err := pki.NewCA(now, time.Hour)
	require.NoError(t, err)
	dir := filepath.Join(w.Dir, "etc", "signalbox", "tls")
	replace(t, filepath.Join(dir, "ca.pem"), append(append([]byte{}, w.ca.CertPEM()...), other.CertPEM()...))
	for _, who := range services() {
		cert, key, err := certificate(other, who, now)
		require.NoError(t, err)
		// For a moment, key and certificate do not match. The service must keep using the previous pair.
		replace(t, filepath.Join(dir, who+"-key.pem"), key)
		replace(t, filepath.Join(dir, who+".pem"), cert)
	}
	replace(t, filepath.Join(dir, "ca.pem"), other.CertPEM())
	for _, at := range []string{"auth", "jobs", "ingest", "registry", "inference"} {
		old := identity(t, w.ca, "gateway", now)
		require.Equal(t, "no connection", outcomeOf(call(ctx, w.dial(t, old, at), health, false)), at)
		require.NotEqual(t, "no connection", outcomeOf(call(ctx, w.dial(t, identity(t, other, "gateway", now), at), health, false)), at)
	}
	// A restarted service must find its peers, and the running services must continue.
	for _, name := range []string{"registry", "gateway"} {
		p := w.Processes[name]
		_, ended := p.Stop(time.Minute)
		require.True(t, ended)
		p.Start()
	}
	w.AwaitServing()
	l := w.Loop(ctx)
	require.NoError(t, l.Client.Get(ctx, "/api/models", nil, nil))
	require.NoError(t, l.Client.Get(ctx, "/api/jobs", nil, nil))
	require.NoError(t, l.Client.Do(ctx, http.MethodPost, "/api/models", map[string]any{"name": l.Name}, nil), "the registry must reach auth for the project")
}

// replace rewrites a file without changing its owner and mode, and sets a later modification time.
func replace(t *testing.T, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o600))
	later := time.Now().Add(time.Second)
	require.NoError(t, os.Chtimes(path, later, later))
}

// conn returns a connection to the service named by at, with the identity of the service named by who. Further calls
// with the same names in the same test return the same connection.
func (w *peerNetwork) conn(t *testing.T, who, at string, now time.Time) *grpc.ClientConn {
	t.Helper()
	if w.conns == nil {
		w.conns = map[string]*grpc.ClientConn{}
	}
	key := t.Name() + who + at
	if w.conns[key] == nil {
		w.conns[key] = w.dial(t, identity(t, w.ca, who, now), at)
	}
	return w.conns[key]
}
