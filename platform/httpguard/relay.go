package httpguard

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

const (
	// watchAfter is how long a call runs before its connection is watched for a disconnect. Shorter calls need no watcher.
	watchAfter = 10 * time.Millisecond
	// maxAhead is how many bytes a client may send while its request is served. The connection of a client that sends more
	// is no longer watched.
	maxAhead = 64 << 10
	// slack is how much later than required an idle connection may be closed, so that its deadline is rarely set again.
	slack = 15 * time.Second
)

// Relaying are the settings for requests that package net/http does not see.
type Relaying struct {
	Relay httprelay.Relay
	// Idle is how long a connection may be idle between two requests, and Head how long the head of a request may take to
	// arrive after its first byte.
	Idle, Head time.Duration
}

// Relay makes the connections of the listener give requests with plain heads to a relay first. It must be called before
// the server serves the listener.
func (l *Listener) Relay(r Relaying) { l.relaying = r }

// relayed is the part of a connection that serves requests in place of package net/http. It runs within Read: the server
// reads from the connection when it waits for the next request, and gets only requests that the relay declines. So a
// connection may carry requests of both kinds, and the server limits, counts and closes all connections alike.
type relayed struct {
	Relaying

	tcp   *net.TCPConn
	timer *time.Timer // starts the watcher

	body   []byte // bytes of the current request's body that have arrived, and what follows them
	served bool   // a request was served, so that the deadlines are not those of package net/http
	ended  bool   // the connection must be closed
	wrote  bool   // a write has set a deadline
	// armed is the read deadline of the connection while it waits for a head; zero if it is unknown.
	armed time.Time

	mu          sync.Mutex
	interrupted bool
	farewell    bool          // the last write has begun, so Interrupt must not end it
	stopped     bool          // the watcher must not run
	watching    chan struct{} // closed when the watcher has ended; nil if none runs
	watched     bool          // the watcher has replaced the read deadline
	gone        func()
	ahead       []byte // what the watcher has read
}

// relay serves requests until one is declined, the next head does not arrive, or the connection ends. Then the reader
// delivers what has arrived to package net/http.
func (c *conn) relay() {
	r := &c.reader
	defer c.relayed.clearWrites()
	for !c.relayed.ended {
		end, ok := c.awaitHead()
		if !ok {
			return
		}
		request, ok := httprelay.ParseRequest(r.held[:end])
		if !ok {
			return
		}
		c.relayed.start(r.held[end:])
		c.use.active.Store(true)
		switch c.relayed.Relay.Relay(c, request) {
		case httprelay.Declined:
			c.connections.idle(&c.use)
			return
		case httprelay.Ended:
			c.relayed.ended = true
		case httprelay.Served:
			c.relayed.ended = c.relayed.isInterrupted()
		}
		c.connections.idle(&c.use)
		c.connections.notify()
		c.relayed.served = true
		r.heads = 1
		r.keep(c.relayed.body, c.relayed.ahead)
		c.relayed.body, c.relayed.ahead = nil, nil
	}
}

// start begins a request. The parameter body is what has arrived of its body, and what follows that.
func (r *relayed) start(body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.body, r.farewell = body, false
}

// awaitHead reads until a whole head has arrived, and returns its length. ok is false if the head cannot be a plain one, or
// if reading fails.
func (c *conn) awaitHead() (end int, ok bool) {
	r, began := &c.reader, false
	for {
		end, checked, reason := headEnd(r.held, r.checked)
		r.checked = checked
		if reason != "" || len(r.held) > maxHead {
			return 0, false
		}
		if end > 0 {
			return end, true
		}
		if !began && c.relayed.limitHead(len(r.held) > 0) != nil {
			return 0, false
		}
		began = len(r.held) > 0
		r.grow()
		n, err := c.TCPConn.Read(r.held[len(r.held):cap(r.held)])
		r.held = r.held[:len(r.held)+n]
		r.unscanned = len(r.held) > 0
		if err != nil {
			// The next read of package net/http fails, too, unless it sets a new deadline before.
			c.relayed.ended = c.relayed.served && errors.Is(err, os.ErrDeadlineExceeded)
			return 0, false
		}
	}
}

// limitHead sets the deadline for the next bytes of a head. The parameter begun is true if its first bytes have just
// arrived. Before the first request, the server has set the deadline.
func (r *relayed) limitHead(begun bool) error {
	now := clock.Real().Now()
	switch {
	case !r.served: // package net/http has set a deadline
		return nil
	case begun:
		r.armed = time.Time{}
		return r.tcp.SetReadDeadline(now.Add(r.Head))
	case r.armed.Sub(now) >= r.Idle:
		return nil
	}
	r.armed = now.Add(r.Idle + slack)
	return r.tcp.SetReadDeadline(r.armed)
}

// clearWrites removes the deadline of writes, which package net/http would not replace.
func (r *relayed) clearWrites() {
	if r.wrote {
		_ = r.tcp.SetWriteDeadline(time.Time{}) // fails only if the connection is closed
		r.wrote = false
	}
}

// ReadBody implements httprelay.Conn.
func (c *conn) ReadBody(p []byte, until time.Time) error {
	r := &c.relayed
	n := copy(p, r.body)
	if r.body = r.body[n:]; n == len(p) {
		return nil
	}
	r.armed = time.Time{}
	if err := r.unlessInterrupted(r.tcp.SetReadDeadline, until); err != nil {
		return err
	}
	m, err := io.ReadFull(c.TCPConn, p[n:])
	if err != nil {
		// The connection is closed after the response, and lingers for the rest of the body.
		c.reader.left = int64(len(p) - n - m)
		c.reader.sending.Store(true)
	}
	return err //nolint:wrapcheck // the relay wraps it
}

// WriteUntil implements httprelay.Conn.
func (c *conn) WriteUntil(p []byte, until time.Time) error {
	c.relayed.wrote = true
	if err := c.relayed.unlessInterrupted(c.TCPConn.SetWriteDeadline, until); err != nil {
		return err
	}
	_, err := c.TCPConn.Write(p)
	if err != nil {
		c.relayed.breakOff()
	}
	return err //nolint:wrapcheck // the relay wraps it
}

// breakOff records that the connection must end, because only a part of a write may have been sent.
func (r *relayed) breakOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interrupted = true
}

// Farewell implements httprelay.Conn.
func (c *conn) Farewell(p []byte, until time.Time) {
	r := &c.relayed
	r.mu.Lock()
	r.farewell = true
	err := r.tcp.SetWriteDeadline(until)
	r.mu.Unlock()
	if err == nil {
		_, err = c.TCPConn.Write(p)
	}
	if err != nil {
		r.breakOff()
	}
}

// Interrupt implements httprelay.Conn.
func (c *conn) Interrupt() {
	r := &c.relayed
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.interrupted = true; !r.farewell {
		_ = r.tcp.SetDeadline(time.Unix(1, 0)) // fails only if the connection is closed
	}
}

func (r *relayed) isInterrupted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.interrupted
}

// unlessInterrupted sets a deadline. After Interrupt, it returns an error instead.
func (r *relayed) unlessInterrupted(set func(time.Time) error, to time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.interrupted {
		return os.ErrDeadlineExceeded
	}
	return set(to)
}

// Watch implements httprelay.Conn.
func (c *conn) Watch(gone func()) {
	r := &c.relayed
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone, r.stopped = gone, false
	if r.timer == nil {
		r.timer = time.AfterFunc(watchAfter, r.watch) //nolint:forbidigo // deadlines of connections use the real clock, too
		return
	}
	r.timer.Reset(watchAfter)
}

// Unwatch implements httprelay.Conn.
func (c *conn) Unwatch() {
	r := &c.relayed
	r.timer.Stop()
	r.mu.Lock()
	r.stopped = true // the timer may have fired, although the watcher does not run yet
	watching := r.watching
	if watching != nil {
		_ = r.tcp.SetReadDeadline(time.Unix(1, 0)) // fails only if the connection is closed
	}
	if r.watched {
		r.armed, r.watched = time.Time{}, false
	}
	r.mu.Unlock()
	if watching != nil {
		<-watching
	}
}

// watch reads from the connection until it ends, Unwatch is called or too much has arrived.
func (r *relayed) watch() {
	ended := make(chan struct{})
	gone, open := r.begin(ended)
	if gone == nil {
		return
	}
	defer close(ended)
	buf := make([]byte, 512)
	for open && len(r.ahead) < maxAhead {
		n, err := r.tcp.Read(buf)
		r.ahead = append(r.ahead, buf[:n]...)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		open = err == nil
	}
	if !open {
		gone() // without r.mu, because it may interrupt the connection
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = nil
}

// begin returns the function to call when the client has disconnected, or nil if the watcher must not run. It removes the
// read deadline of the head. open is false if the server has closed the connection.
func (r *relayed) begin(ended chan struct{}) (gone func(), open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || r.interrupted || r.watching != nil {
		return nil, false
	}
	r.watching, r.watched = ended, true
	return r.gone, r.tcp.SetReadDeadline(time.Time{}) == nil
}
