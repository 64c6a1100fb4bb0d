package httpguard

import (
	"net"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// The bounds of what a connection reads after its last response: the bytes, the whole time, and each pause of the client.
const (
	lingerBytes = 64 << 20
	lingerTime  = 30 * time.Second
	lingerPause = 5 * time.Second
)

// linger bounds what a connection reads and discards after its last response, while the client still sends.
//
// A server that responds before the whole body has arrived, with 413 for example, cannot read another request on that
// connection, so net/http closes it. But the kernel resets a connection that is closed with unread bytes. A client that
// sends the whole body before it reads the response then fails with a broken pipe and never sees the response. RFC 9112,
// section 9.6, requires the server to close the sending half first and to continue to read.
type linger struct {
	bytes       int64
	time, pause time.Duration
}

// rest closes the sending half of the connection, and then reads and discards until done reports that the request has
// ended, the client closes the connection, or a bound is reached.
func (l linger) rest(c *net.TCPConn, done func(read []byte) bool) {
	if c.CloseWrite() != nil {
		return // the client is gone
	}
	now := clock.Real().Now // connection deadlines use the real clock
	buf, end := make([]byte, 32<<10), now().Add(l.time)
	for left := l.bytes; left > 0; {
		pause := now().Add(l.pause)
		if pause.After(end) {
			pause = end
		}
		if c.SetReadDeadline(pause) != nil {
			return
		}
		n, err := c.Read(buf)
		if err != nil || done(buf[:n]) {
			return
		}
		left -= int64(n)
	}
}

// CloseWrite closes the sending half of the connection. If the client is still sending a request, it first waits until
// the client has finished, within the bounds of linger. net/http calls it after a response that ends the connection.
func (c *conn) CloseWrite() error {
	if c.lingers() {
		c.linger.rest(c.TCPConn, c.reader.pass)
	}
	return c.TCPConn.CloseWrite() //nolint:wrapcheck // net/http inspects it
}

// Close implements net.Conn. If the client is still sending a request, Close first waits until the client has finished,
// within the bounds of linger. It does not wait a second time, nor after the listener was closed: a server that is
// closed must not wait for its connections.
func (c *conn) Close() error {
	if c.lingers() {
		c.linger.rest(c.TCPConn, c.reader.pass)
	}
	return c.TCPConn.Close() //nolint:wrapcheck // net/http inspects it
}

// lingers reports whether to wait for the rest of a request. It returns true only once.
func (c *conn) lingers() bool {
	if c.over.Load() || !c.reader.sending.Load() {
		return false
	}
	select {
	case <-c.closed:
		return false
	default:
		return c.lingered.CompareAndSwap(false, true)
	}
}
