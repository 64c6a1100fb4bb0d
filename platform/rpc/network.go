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
//
// In one process, unary calls between services do not use a connection (see direct). Streams and calls of agents do.
package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
	// attach lets clients in this process call the server directly, until the function that it returns is called. It is
	// nil if the clients are in other processes, or are agents.
	attach func(*Server) (detach func())
}

// Accept waits for a connection. The identity is verified later, in the handshake of the server.
func (l *Listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &accepted{Conn: raw, from: l}, nil
}

// attach lets the listeners' clients in this process call the server directly, until the returned function is called.
func attach(s *Server, listeners []*Listener) (detach func()) {
	var all []func()
	for _, l := range listeners {
		if l.attach != nil {
			all = append(all, l.attach(s))
		}
	}
	return func() {
		for _, detach := range all {
			detach()
		}
	}
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

// TCPConfig holds the identity of this process and the addresses of the services.
type TCPConfig struct {
	// Identity provides the certificate of this process and the CA.
	Identity pki.Source
	// Listen is the address on which to listen for other services, and ListenAgents the one for agents. Empty means
	// that there is no such listener.
	Listen       string
	ListenAgents string
	// Peers holds the address (host:port) of each service that this process calls, by service name. If a host
	// resolves to several addresses, calls are balanced over them.
	Peers  map[string]string
	Client ClientOptions
}

// TCPNetwork is a Network over TCP with mutual TLS.
type TCPNetwork struct{ cfg TCPConfig }

// TCP returns the network of a process.
func TCP(cfg TCPConfig) (*TCPNetwork, error) {
	if cfg.Identity == nil || cfg.Identity.Current() == nil {
		return nil, errors.New("rpc: TCPConfig must have an Identity with a certificate")
	}
	for service, addr := range cfg.Peers {
		if _, err := pki.ServiceName(service); err != nil {
			return nil, err
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("parse the address of service %s: %w", service, err)
		}
	}
	return &TCPNetwork{cfg}, nil
}

// Listen implements Network.
func (w *TCPNetwork) Listen(service string) (*Listener, error) {
	return w.listen(service, w.cfg.Listen, false)
}

// ListenAgents implements Network.
func (w *TCPNetwork) ListenAgents(service string) (*Listener, error) {
	return w.listen(service, w.cfg.ListenAgents, true)
}

func (w *TCPNetwork) listen(service, addr string, agents bool) (*Listener, error) {
	if own := w.cfg.Identity.Current().Name; own != service {
		return nil, fmt.Errorf("%s cannot listen as %s", own, service)
	}
	if addr == "" {
		return nil, fmt.Errorf("no listen address configured for %s", busKey(service, agents))
	}
	inner, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen as %s: %w", service, err)
	}
	creds := credentials.NewTLS(pki.ServerTLS(w.cfg.Identity, allowed(agents)))
	shake := func(raw net.Conn) (net.Conn, *link, error) {
		secured, info, err := creds.ServerHandshake(raw)
		if err != nil {
			return nil, nil, err
		}
		l, err := linkOfTLS(info)
		return secured, l, err
	}
	return &Listener{Listener: inner, handshake: shake, agents: agents}, nil
}

// Dial implements Network.
func (w *TCPNetwork) Dial(service string) (*grpc.ClientConn, error) {
	addr, ok := w.cfg.Peers[service]
	if !ok {
		return nil, fmt.Errorf("no address configured for service %s", service)
	}
	creds := credentials.NewTLS(pki.ClientTLS(w.cfg.Identity, service))
	return newClient(service, "dns:///"+addr, w.cfg.Client, nil, grpc.WithTransportCredentials(creds))
}

// ServerTLS returns the TLS config of an HTTP listener of this process. It accepts only the given services as
// clients.
func (w *TCPNetwork) ServerTLS(services ...string) *tls.Config {
	return pki.ServerTLS(w.cfg.Identity, pki.Only(services...))
}

// ClientTLS returns the TLS config of an HTTP client of this process that calls the service.
func (w *TCPNetwork) ClientTLS(service string) *tls.Config {
	return pki.ClientTLS(w.cfg.Identity, service)
}

func linkOfTLS(info credentials.AuthInfo) (*link, error) {
	t, ok := info.(credentials.TLSInfo)
	if !ok || len(t.State.PeerCertificates) == 0 {
		return nil, errors.New("rpc: the peer has no certificate")
	}
	name, err := pki.NameOf(t.State.PeerCertificates[0])
	if err != nil {
		return nil, err
	}
	return &link{kind: "tls", name: name}, nil
}
