package identity

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// peerNetwork is an installation with one process per service, as seen from the network between the services.
type peerNetwork struct {
	*testenv.Installation

	ca    *pki.CA
	ports map[string]string // addresses of the services; "node" is the listener for agents
	conns map[string]*grpc.ClientConn
}

// newPeerNetwork reads the installation's CA and the addresses of its services.
func newPeerNetwork(t *testing.T, s *testenv.Installation) *peerNetwork {
	t.Helper()
	ca, err := pki.LoadCA(filepath.Join(s.Dir, "etc", "signalbox", "ca"))
	require.NoError(t, err)
	w := &peerNetwork{Installation: s, ca: ca, ports: map[string]string{"node": s.Processes["jobs"].Setting("SERVICE_JOBS_AGENT_LISTEN")}}
	for pair := range strings.SplitSeq(s.Processes["gateway"].Setting("SERVICE_PEERS"), ",") {
		name, addr, _ := strings.Cut(pair, "=")
		w.ports[name] = addr
	}
	require.Len(t, w.ports, 6)
	require.NotEmpty(t, w.ports["node"])
	return w
}

// identity issues a certificate for a name. It is valid for an hour from the given time.
func identity(t *testing.T, ca *pki.CA, name string, from time.Time) *pki.Identity {
	t.Helper()
	cert, key, err := certificate(ca, name, from)
	require.NoError(t, err)
	id, err := pki.Parse(cert, key, ca.CertPEM())
	require.NoError(t, err)
	return id
}

func certificate(ca *pki.CA, name string, from time.Time) (cert, key []byte, err error) {
	if id, isNode := pki.NodeID(name); isNode {
		key, request, err := pki.NewRequest()
		if err != nil {
			return nil, nil, err
		}
		cert, err = ca.SignNode(request, id, from, time.Hour)
		return cert, key, err
	}
	pair, err := ca.IssueService(name, from, time.Hour)
	return pair.Cert, pair.Key, err
}

// dial connects to a service, or to the listener for agents, with the given identity. It does not use the
// product's client, which would reject some of the calls before sending them.
func (w *peerNetwork) dial(t *testing.T, who *pki.Identity, at string) *grpc.ClientConn {
	t.Helper()
	return w.connect(t, at, pki.ClientTLS(who, server(at)))
}

// server returns the name of the service at a port. The jobs service has the listener for agents.
func server(at string) string {
	if at == "node" {
		return "jobs"
	}
	return at
}

func (w *peerNetwork) connect(t *testing.T, at string, cfg *tls.Config) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("dns:///"+w.ports[at], grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call calls a method with an empty message and returns the error. For a stream it receives only the first
// message.
func call(ctx context.Context, conn grpc.ClientConnInterface, method string, stream bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if !stream {
		return conn.Invoke(ctx, "/"+method, &emptypb.Empty{}, &emptypb.Empty{})
	}
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+method)
	if err != nil {
		return err
	}
	_ = s.SendMsg(&emptypb.Empty{}) // RecvMsg returns the error
	_ = s.CloseSend()
	return s.RecvMsg(&emptypb.Empty{})
}

// health is a method that every service may call.
const health = "grpc.health.v1.Health/Check"

// outcomeOf returns the outcome of a call in one or two words.
func outcomeOf(err error) string {
	switch st := status.Convert(err); st.Code() {
	case codes.PermissionDenied:
		return "refused"
	case codes.Unauthenticated:
		return "unauthenticated"
	case codes.Unavailable:
		return "no connection"
	case codes.Unimplemented:
		if !strings.Contains(st.Message(), "unknown") && !strings.Contains(st.Message(), "not implemented") {
			return "in" // accepted, but the feature is switched off
		}
		return "not served"
	default:
		return "in"
	}
}
