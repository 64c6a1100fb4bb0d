package relay

import (
	"bufio"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// maxIdle bounds the idle connections to one engine.
	maxIdle = 256
	// maxIdleFor is how long a connection is kept without use.
	maxIdleFor = 90 * time.Second
)

// link is one connection to an engine with its reader.
type link struct {
	net.Conn // over TLS where the engine is on another host

	raw net.Conn // what lies below
	to  Engine
	in  *bufio.Reader
	// left is how many bytes may still be read, -1 for any number: what bounds the head of an answer.
	left  int
	since time.Time // when it became idle
}

func newLink(conn, raw net.Conn, to Engine) *link {
	l := &link{Conn: conn, raw: raw, to: to, left: -1}
	l.in = bufio.NewReaderSize(l, bufferSize)
	return l
}

// Close cuts the connection at once: a farewell of TLS could wait for a peer that takes nothing.
func (l *link) Close() error { return l.raw.Close() }

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

// quiet tells that nothing has come on an idle connection: neither its end, nor bytes that no one asked
// for and that would be taken for the next answer.
func (l *link) quiet() bool { return l.silent() && l.drained() }

// silent tells that nothing waits in the system's buffer.
func (l *link) silent() bool {
	sc, ok := l.raw.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, err := syscall.Read(int(fd), one[:])
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && quiet
}

// drained tells that nothing waits in the buffer of TLS, which may have read further than it was asked
// to: with a deadline that is over, it gives only what it has.
func (l *link) drained() bool {
	if l.to.Node == "" {
		return true
	}
	if l.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	var one [1]byte
	_, err := l.Conn.Read(one[:])
	return errors.Is(err, os.ErrDeadlineExceeded) && l.SetReadDeadline(time.Time{}) == nil
}

// pool keeps idle connections by engine, the last used first. The node is a part of the engine: a
// connection to one node is never another's, though both had the address after one another.
type pool struct {
	mu   sync.Mutex
	idle map[Engine][]*link
}

// get answers an idle connection that is still good, nil where there is none.
func (p *pool) get(to Engine) *link {
	for {
		conn := p.take(to)
		if conn == nil || conn.quiet() {
			return conn
		}
		_ = conn.Close()
	}
}

func (p *pool) take(to Engine) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[to]
	if len(list) == 0 {
		return nil
	}
	conn := list[len(list)-1]
	list[len(list)-1] = nil
	p.idle[to] = list[:len(list)-1]
	return conn
}

func (p *pool) put(conn *link, now time.Time) {
	if conn.in.Buffered() > 0 {
		_ = conn.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.idle = map[Engine][]*link{}
	}
	if len(p.idle[conn.to]) >= maxIdle {
		_ = conn.Close()
		return
	}
	conn.since = now
	p.idle[conn.to] = append(p.idle[conn.to], conn)
}

// closeBefore closes what has been idle since before a time; the engines that are gone go
// with their last connection.
func (p *pool) closeBefore(limit time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for to, list := range p.idle {
		kept := list[:0]
		for _, conn := range list {
			if conn.since.Before(limit) {
				_ = conn.Close()
				continue
			}
			kept = append(kept, conn)
		}
		clear(list[len(kept):])
		if p.idle[to] = kept; len(kept) == 0 {
			delete(p.idle, to)
		}
	}
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
