package engineport

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"
)

// forward is the port that other hosts use to reach one engine.
type forward struct {
	listener net.Listener
	address  string
	serving  sync.WaitGroup

	mu     sync.Mutex
	target string
	ended  bool
	conns  map[net.Conn]bool
}

const (
	handshakeTimeout = 10 * time.Second
	dialTimeout      = 5 * time.Second
	maxConns         = 1024
)

// aim sets the target of new connections. The target changes because a restarted engine listens on another
// port.
func (f *forward) aim(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
}

func (f *forward) serve() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		if target, ok := f.admit(conn); ok {
			f.serving.Go(func() {
				defer f.drop(conn)
				f.carry(conn, target)
			})
		}
	}
}

// admit registers the connection and returns its target. It closes the connection if the
// port is closed or has maxConns connections.
func (f *forward) admit(conn net.Conn) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || len(f.conns) >= maxConns {
		_ = conn.Close()
		return "", false
	}
	f.conns[conn] = true
	return f.target, true
}

func (f *forward) drop(conn net.Conn) {
	_ = conn.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, conn)
}

// carry performs the TLS handshake and copies bytes in both directions. When the client has ended its
// request, the response continues. When the engine has ended its response, carry returns.
func (f *forward) carry(conn net.Conn, target string) {
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	if secured.HandshakeContext(ctx) != nil {
		return
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	engine, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = engine.Close() }()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(secured, engine)
		// The engine's response has ended: end the response to the client, and stop reading the client's request.
		_ = secured.CloseWrite()
		_ = secured.SetReadDeadline(time.Unix(1, 0))
	})
	_, _ = io.Copy(engine, secured)
	if half, ok := engine.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	back.Wait()
}

// close closes the port and its connections and waits until serve and all connections have ended.
func (f *forward) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.ended = true
	for conn := range f.conns {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.serving.Wait()
}
