// Package rpc owns how services talk: networks, servers and clients, and what every call goes
// through on both sides.
//
// It promises, the same in one process (Memory) and over TCP with mutual TLS (TCP), the same for
// unary calls and streams:
//   - both ends of a connection know each other's identity (`jobs`, `node/<id>`);
//   - a method is served only as its option signalbox.options.v1.access says; a server with a method
//     that lacks one, or whose option contradicts itself, does not start and names the method;
//   - a unary call has a deadline (10 s where the caller set none); a stream lives as long as its
//     caller's context or until the server drains;
//   - requests are validated by their protovalidate rules before a handler sees them;
//   - an error arrives as the same *fault.Error that was returned, and nothing else of it arrives;
//   - a panic is an internal error, logged once with its stack; every finished call is one log line;
//   - a call is repeated only when its method is marked idempotent and no server has answered.
package rpc

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// Network is where the services are. It belongs to one identity.
type Network interface {
	// Listen opens the listener on which other services reach this one.
	Listen(service string) (*Listener, error)
	// ListenAgents opens the listener on which agents reach this service.
	ListenAgents(service string) (*Listener, error)
	// Dial makes a client of a service; it connects at the first call and again when needed. An
	// agent's identity reaches the service's listener for agents.
	Dial(service string) (*grpc.ClientConn, error)
}

// Listener accepts connections whose other end has proved who it is.
type Listener struct {
	net.Listener
	handshake func(net.Conn) (net.Conn, *link, error)
	agents    bool
}

// Accept waits for a connection. The proof of identity follows in the server's handshake.
func (l *Listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &accepted{Conn: raw, from: l}, nil
}

type accepted struct {
	net.Conn
	from *Listener
}

// link is what both ends know of a connection.
type link struct {
	kind   string
	name   string // the other end's identity
	agents bool   // came in on a listener for agents
}

// AuthType says how the identity was proved.
func (l *link) AuthType() string { return l.kind }

// Peer is the identity of the other end of a call: a service's name or `node/<id>`. It is empty
// outside of a server's call.
func Peer(ctx context.Context) string {
	if l := linkOf(ctx); l != nil {
		return l.name
	}
	return ""
}

func linkOf(ctx context.Context) *link {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	l, _ := p.AuthInfo.(*link)
	return l
}

// handshakes lets one grpc server serve listeners of several networks and kinds.
type handshakes struct {
	credentials.TransportCredentials
}

func (handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, ok := raw.(*accepted)
	if !ok {
		return nil, nil, errors.New("rpc: connection of a listener without identities")
	}
	secured, l, err := conn.from.handshake(conn.Conn)
	if err != nil {
		return nil, nil, err
	}
	l.agents = conn.from.agents
	return secured, l, nil
}

func (handshakes) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "signalbox"}
}

func (h handshakes) Clone() credentials.TransportCredentials { return h }

// allowed is the policy of a listener on identities.
func allowed(agents bool) func(string) error {
	if agents {
		return pki.OnlyNodes
	}
	return pki.OnlyServices
}
