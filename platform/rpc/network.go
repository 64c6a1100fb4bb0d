// Package rpc owns the calls between services: networks, servers and clients, and the interceptors on both sides.
//
// Its promises are the same in one process (Memory) and over TCP with mutual TLS (TCP), and the same for unary calls
// and streams:
//   - both ends of a connection know each other's identity (`jobs`, `node/<id>`);
//   - a server enforces the option signalbox.options.v1.access of each method; it does not start if a
//     method lacks the option or has a contradictory one, and the error contains the name of the method;
//   - a unary call has a deadline (10 s if the caller sets none); a stream runs until its caller's
//     context is done or the server drains;
//   - requests are validated by their protovalidate rules before a handler sees them;
//   - an error arrives as the *fault.Error that the handler returned, without the errors that wrap it;
//   - a panic is an internal error, logged once with its stack; every finished call has one log line;
//   - a call is retried only if its method is marked idempotent and no server has responded.
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

// Network connects one identity with the services.
type Network interface {
	// Listen opens the listener for other services.
	Listen(service string) (*Listener, error)
	// ListenAgents opens the listener for agents.
	ListenAgents(service string) (*Listener, error)
	// Dial returns a client of a service. It connects at the first call and reconnects as needed. If the identity is
	// an agent, it connects to the service's listener for agents.
	Dial(service string) (*grpc.ClientConn, error)
}

// Listener accepts connections. The server verifies the identity of the peer in the handshake.
type Listener struct {
	net.Listener
	handshake func(net.Conn) (net.Conn, *link, error)
	agents    bool
}

// Accept waits for a connection. The identity is verified later, in the handshake of the server.
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

// link describes the peer of a connection.
type link struct {
	kind   string
	name   string // identity of the peer
	agents bool   // accepted by a listener for agents
}

// AuthType returns how the identity was verified.
func (l *link) AuthType() string { return l.kind }

// Peer returns the identity of the client of a call: the name of a service or `node/<id>`. It is empty
// if ctx does not belong to a call in a server.
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

// handshakes lets one grpc server serve listeners of several networks, for services and for agents.
type handshakes struct {
	credentials.TransportCredentials
}

func (handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, ok := raw.(*accepted)
	if !ok {
		return nil, nil, errors.New("rpc: the connection was not accepted by an rpc.Listener")
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

// allowed returns the identity check of a listener.
func allowed(agents bool) func(string) error {
	if agents {
		return pki.OnlyNodes
	}
	return pki.OnlyServices
}
