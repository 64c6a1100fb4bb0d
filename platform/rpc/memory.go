package rpc

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/test/bufconn"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

const pipeSize = 256 << 10

// Bus is a network inside one process. As returns the Network of one identity. The identity is not verified,
// because As is called only by the code of this process that connects the services.
type Bus struct {
	options ClientOptions

	mu      sync.Mutex
	open    map[string]*bufconn.Listener
	servers map[string]*Server // servers that clients of this process call directly
}

// Memory returns an empty Bus.
func Memory(o ClientOptions) *Bus {
	return &Bus{options: o, open: map[string]*bufconn.Listener{}, servers: map[string]*Server{}}
}

// As returns the network of one identity: the name of a service or `node/<id>`.
func (b *Bus) As(identity string) Network { return busUser{b, identity} }

type busUser struct {
	bus  *Bus
	name string
}

func (u busUser) Listen(service string) (*Listener, error) { return u.listen(service, false) }

func (u busUser) ListenAgents(service string) (*Listener, error) { return u.listen(service, true) }

func (u busUser) listen(service string, agents bool) (*Listener, error) {
	if u.name != service {
		return nil, fmt.Errorf("%s cannot listen as %s", u.name, service)
	}
	key := busKey(service, agents)
	u.bus.mu.Lock()
	defer u.bus.mu.Unlock()
	if u.bus.open[key] != nil {
		return nil, fmt.Errorf("%s is already listening", key)
	}
	inner := bufconn.Listen(pipeSize)
	u.bus.open[key] = inner
	shake := func(raw net.Conn) (net.Conn, *link, error) { return readHello(raw, agents) }
	l := &Listener{Listener: &busListener{Listener: inner, bus: u.bus, key: key}, handshake: shake, agents: agents}
	if !agents {
		l.attach = func(s *Server) func() { return u.bus.attach(key, s) }
	}
	return l, nil
}

// attach makes the server available to direct calls until the returned function is called.
func (b *Bus) attach(key string, s *Server) (detach func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers[key] = s
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.servers[key] == s {
			delete(b.servers, key)
		}
	}
}

// server returns the server that direct calls can use, or nil.
func (b *Bus) server(key string) *Server {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.servers[key]
}

func busKey(service string, agents bool) string {
	if agents {
		return service + " for agents"
	}
	return service
}

// busListener releases its name when it closes, so that a service can start again.
type busListener struct {
	*bufconn.Listener
	bus *Bus
	key string
}

func (l *busListener) Close() error {
	l.bus.mu.Lock()
	if l.bus.open[l.key] == l.Listener {
		delete(l.bus.open, l.key)
	}
	l.bus.mu.Unlock()
	return l.Listener.Close()
}

func (u busUser) Dial(service string) (*grpc.ClientConn, error) {
	if _, err := pki.ServiceName(service); err != nil {
		return nil, err
	}
	_, isNode := pki.NodeID(u.name)
	key := busKey(service, isNode)
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		u.bus.mu.Lock()
		l := u.bus.open[key]
		u.bus.mu.Unlock()
		if l == nil {
			return nil, fmt.Errorf("%s is not listening", key)
		}
		return l.DialContext(ctx)
	}
	return newClient(service, "passthrough:///"+service, u.bus.options, u.direct(key),
		grpc.WithContextDialer(dial), grpc.WithTransportCredentials(hello{name: u.name, server: service}))
}

// direct returns the object that makes the direct calls of this identity. It is nil for agents, which use a listener of
// their own, and for an identity that the handshake of a connection would reject.
func (u busUser) direct(key string) *direct {
	if _, err := pki.ServiceName(u.name); err != nil {
		return nil
	}
	at := bufconn.Listen(0).Addr() // the same for all connections of a bus
	return &direct{bus: u.bus, key: key, clock: u.bus.options.Clock, from: &peer.Peer{Addr: at, LocalAddr: at, AuthInfo: &link{kind: "memory", name: u.name}}}
}

// hello sends the identity of the client over the pipe: one byte with its length, then the identity.
type hello struct {
	credentials.TransportCredentials
	name   string
	server string
}

func (h hello) ClientHandshake(_ context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if len(h.name) > 255 {
		return nil, nil, fmt.Errorf("identity %q is too long", h.name)
	}
	if _, err := raw.Write(append([]byte{byte(len(h.name))}, h.name...)); err != nil {
		return nil, nil, fmt.Errorf("send the client identity: %w", err)
	}
	return raw, &link{kind: "memory", name: h.server}, nil
}

func (h hello) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "memory"}
}

func (h hello) Clone() credentials.TransportCredentials { return h }

func readHello(raw net.Conn, agents bool) (net.Conn, *link, error) {
	size := make([]byte, 1)
	if _, err := io.ReadFull(raw, size); err != nil {
		return nil, nil, fmt.Errorf("read the client identity: %w", err)
	}
	text := make([]byte, size[0])
	if _, err := io.ReadFull(raw, text); err != nil {
		return nil, nil, fmt.Errorf("read the client identity: %w", err)
	}
	name := string(text)
	check := pki.ServiceName
	if id, isNode := pki.NodeID(name); isNode {
		check = func(string) (string, error) { return pki.NodeName(id) }
	}
	if _, err := check(name); err != nil {
		return nil, nil, err
	}
	if err := allowed(agents)(name); err != nil {
		return nil, nil, err
	}
	return raw, &link{kind: "memory", name: name}, nil
}
