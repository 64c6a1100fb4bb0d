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

// wire is the split installation as somebody beside its services sees it.
type wire struct {
	*testenv.Stand

	ca    *pki.CA
	ports map[string]string // of each service, and of agents
	conns map[string]*grpc.ClientConn
}

// tap finds the installation's CA and where its services listen.
func tap(t *testing.T, s *testenv.Stand) *wire {
	t.Helper()
	ca, err := pki.LoadCA(filepath.Join(s.Dir, "etc", "signalbox", "ca"))
	require.NoError(t, err)
	w := &wire{Stand: s, ca: ca, ports: map[string]string{"node": s.Processes["jobs"].Setting("SERVICE_JOBS_AGENT_LISTEN")}}
	for pair := range strings.SplitSeq(s.Processes["gateway"].Setting("SERVICE_PEERS"), ",") {
		name, addr, _ := strings.Cut(pair, "=")
		w.ports[name] = addr
	}
	require.Len(t, w.ports, 6)
	require.NotEmpty(t, w.ports["node"])
	return w
}

// identity is a certificate of a CA for a name, valid from a time on for an hour.
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

// dial reaches a service, or the listener for agents, with an identity, and by none of the product's clients:
// what is sent along arrives.
func (w *wire) dial(t *testing.T, who *pki.Identity, at string) *grpc.ClientConn {
	t.Helper()
	return w.connect(t, at, pki.ClientTLS(who, server(at)))
}

// server is who serves where agents connect.
func server(at string) string {
	if at == "node" {
		return "jobs"
	}
	return at
}

func (w *wire) connect(t *testing.T, at string, cfg *tls.Config) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("dns:///"+w.ports[at], grpc.WithTransportCredentials(credentials.NewTLS(cfg)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call calls a method with an empty message and tells how that went; a stream is over once something came.
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
	_ = s.SendMsg(&emptypb.Empty{}) // a refusal is told by the receive
	_ = s.CloseSend()
	return s.RecvMsg(&emptypb.Empty{})
}

// health is open to every service.
const health = "grpc.health.v1.Health/Check"

// judged is what came of a call.
func judged(err error) string {
	switch said := status.Convert(err); said.Code() {
	case codes.PermissionDenied:
		return "refused"
	case codes.Unauthenticated:
		return "nobody"
	case codes.Unavailable:
		return "no connection"
	case codes.Unimplemented:
		if !strings.Contains(said.Message(), "unknown") && !strings.Contains(said.Message(), "not implemented") {
			return "in" // a feature that is off
		}
		return "not served"
	default:
		return "in"
	}
}
