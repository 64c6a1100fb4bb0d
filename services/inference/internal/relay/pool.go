package relay

import (
	"bufio"
	"errors"
	"net"
	"sync"
)

// maxIdle bounds the idle connections to one engine.
const maxIdle = 256

// link is one connection to an engine with its reader.
type link struct {
	net.Conn

	addr string
	in   *bufio.Reader
	// left is how many bytes may still be read, -1 for any number: what bounds the head of an answer.
	left int
}

func newLink(raw net.Conn, addr string) *link {
	l := &link{Conn: raw, addr: addr, left: -1}
	l.in = bufio.NewReaderSize(l, bufferSize)
	return l
}

// errHead refuses an answer whose head does not end.
var errHead = errors.New("the head of the engine's answer is too large")

// Read reads for the buffer of in.
func (l *link) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, errHead
	}
	if l.left > 0 && len(p) > l.left {
		p = p[:l.left]
	}
	n, err := l.Conn.Read(p)
	if l.left > 0 {
		l.left -= n
	}
	return n, err
}

// pool keeps idle connections by address, the last used first.
type pool struct {
	mu   sync.Mutex
	idle map[string][]*link
}

func (p *pool) get(addr string) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[addr]
	if len(list) == 0 {
		return nil
	}
	conn := list[len(list)-1]
	p.idle[addr] = list[:len(list)-1]
	return conn
}

func (p *pool) put(conn *link) {
	// Bytes that no one asked for would be taken for the next answer.
	if conn.in.Buffered() > 0 {
		_ = conn.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.idle = map[string][]*link{}
	}
	if len(p.idle[conn.addr]) >= maxIdle {
		_ = conn.Close()
		return
	}
	p.idle[conn.addr] = append(p.idle[conn.addr], conn)
}

func (p *pool) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.idle {
		for _, conn := range list {
			_ = conn.Close()
		}
	}
	p.idle = nil
}
