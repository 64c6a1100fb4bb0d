package engineclient

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
	// maxIdle is the maximum number of idle connections to one engine.
	maxIdle = 256
	// maxIdleFor is how long an idle connection stays open.
	maxIdleFor = 90 * time.Second
)

// link is one connection to an engine with its reader.
type link struct {
	net.Conn // a TLS connection if the engine is on another host

	raw net.Conn        // the TCP connection
	fd  syscall.RawConn // its file descriptor; nil if it has none
	to  Engine
	in  *bufio.Reader
	// left is how many more bytes may be read, or -1 for no limit. It limits the headers of a response.
	left     int
	since    time.Time // when the connection became idle
	wait     *wait     // the call that uses the connection
	reused   bool      // the connection has carried another exchange before
	received bool      // a byte has arrived in the current exchange
	late     bool      // a read of the current exchange exceeded its deadline

	mu   sync.Mutex
	over bool // cut was called
}

func newLink(conn, raw net.Conn, to Engine) *link {
	l := &link{Conn: conn, raw: raw, to: to, left: -1}
	if own, ok := raw.(syscall.Conn); ok {
		l.fd, _ = own.SyscallConn() // an error means that the connection is closed, as nil does
	}
	l.in = bufio.NewReaderSize(l, bufferSize)
	return l
}

// Close closes the TCP connection at once, because a TLS close alert could block on a peer that does not read.
func (l *link) Close() error { return l.raw.Close() }

// cut ends all reads and writes, the blocked ones too. It does not close the connection.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	_ = l.Conn.SetDeadline(time.Unix(1, 0)) // fails only if the connection is closed
}

// unlessCut calls the function set. Once cut was called, unlessCut returns an error instead, so that no goroutine
// replaces the deadline that cut has set.
func (l *link) unlessCut(set func(time.Time) error, to time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return net.ErrClosed
	}
	return set(to)
}

// SetDeadline implements net.Conn.
func (l *link) SetDeadline(to time.Time) error { return l.unlessCut(l.Conn.SetDeadline, to) }

// SetReadDeadline implements net.Conn.
func (l *link) SetReadDeadline(to time.Time) error { return l.unlessCut(l.Conn.SetReadDeadline, to) }

// SetWriteDeadline implements net.Conn.
func (l *link) SetWriteDeadline(to time.Time) error { return l.unlessCut(l.Conn.SetWriteDeadline, to) }

// errHead means that the status line and headers of a response exceed maxHeader.
var errHead = errors.New("the headers of the engine's response are too large")

// Read reads from the connection. It returns errHead once it has read as many bytes as the field left allowed. The
// buffered reader of the link calls it.
func (l *link) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, errHead
	}
	if l.left > 0 && len(p) > l.left {
		p = p[:l.left]
	}
	n, err := l.Conn.Read(p)
	l.late = l.late || errors.Is(err, os.ErrDeadlineExceeded)
	if l.left > 0 {
		l.left -= n
	}
	if n > 0 {
		l.received = true
		if l.wait != nil {
			l.wait.byte()
		}
	}
	return n, err
}

// quiet reports whether an idle connection can be reused. It cannot be reused if the engine has closed it or has sent
// bytes, because these bytes would be taken for the next response.
func (l *link) quiet() bool { return l.silent() && l.drained() }

// silent reports whether the socket's receive buffer is empty and the connection is open.
func (l *link) silent() bool {
	if l.fd == nil {
		return false
	}
	quiet := false
	err := l.fd.Read(func(fd uintptr) bool {
		var one [1]byte
		_, err := syscall.Read(int(fd), one[:])
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && quiet
}

// drained reports whether the buffer of the TLS connection is empty. TLS reads whole records, so the buffer may
// contain bytes that were not read yet. With a deadline in the past, Read returns only such bytes.
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

// pool stores the idle connections of each engine. It reuses the most recently used one first. The node is part of
// the key, so that a connection to one node is never used for another node that gets the same address later.
type pool struct {
	mu   sync.Mutex
	idle map[Engine][]*link
}

// get returns an idle connection that is still usable, or nil.
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

// closeBefore closes the connections that became idle before the given time. It also deletes the map entries of engines
// that have no more connections.
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
