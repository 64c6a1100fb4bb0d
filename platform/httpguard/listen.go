// Package httpguard owns what happens on an HTTP connection before any handler sees a request.
//
// It rejects requests that two servers may read differently, so that a proxy in front cannot be made to smuggle a request:
// Content-Length together with Transfer-Encoding, header lines that end in a bare LF, and folded header lines. net/http
// accepts them and hides them from handlers.
//
// It also replaces the error responses that the server itself writes, for headers that are too long or malformed, a missing
// Host or an unknown transfer encoding. net/http writes them as plain text; the API contract requires a JSON body with
// `detail` for every failure, and for calls to engines also the object `error`.
//
// It also lets a server stop without resetting the connections that wait to be accepted (see Listener.Settle).
//
// It also lets a client that is still sending a request see the response that refuses it: before a connection is closed,
// the rest of the request is read and discarded, within bounds of bytes and time (see linger).
//
// It also gives requests with plain heads to a relay, which serves them without package net/http (see relayed).
//
// It promises to change nothing else: responses of handlers, HTTP/2 frames and the bytes of upgraded
// connections pass unchanged.
package httpguard

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// JSONErrors returns a listener whose TCP connections reject ambiguous requests with 400 and replace the server's own
// error responses with JSON. The server's ConnState must be State. The function newID generates the request id of a
// rejected request.
func JSONErrors(l net.Listener, newID func() string) *Listener {
	return &Listener{
		Listener: l, newID: newID, settled: make(chan struct{}), closed: make(chan struct{}),
		linger:      linger{bytes: lingerBytes, time: lingerTime, pause: lingerPause},
		connections: connections{open: map[*use]struct{}{}, changed: make(chan struct{}, 1), elapsed: clock.Monotonic()},
	}
}

// State must be the ConnState of a server with a JSONErrors listener. It records which connections are hijacked, so
// that their bytes pass unchanged, and which are idle, for Settle.
func State(c net.Conn, state http.ConnState) {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	switch own := c.(type) {
	case *conn:
		own.connections.set(own, state)
	case *secured:
		own.connections.track(&own.use, state)
	}
}

// Listener is the listener that JSONErrors returns.
type Listener struct {
	net.Listener

	newID       func() string
	settling    atomic.Bool
	settled     chan struct{}
	settledOnce sync.Once
	closed      chan struct{}
	close       sync.Once
	linger      linger
	relaying    Relaying
	tls         *tls.Config // nil without TLS

	connections connections
}

// Secure makes the connections use TLS. Their requests pass unchanged, without the checks of JSONErrors; Settle concerns
// them, too. Secure must be called before Accept.
func (l *Listener) Secure(config *tls.Config) { l.tls = config }

// secured is the TCP connection of a TLS connection.
type secured struct {
	*net.TCPConn

	connections *connections
	use         use
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	for err != nil && l.settling.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		if err = l.settle(); err == nil {
			c, err = l.Listener.Accept()
		}
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // net/http inspects it
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c, nil
	}
	if l.tls != nil {
		return tls.Server(&secured{TCPConn: tcp, connections: &l.connections}, l.tls), nil
	}
	return &conn{
		TCPConn: tcp, rewriter: rewriter{newID: l.newID}, connections: &l.connections, linger: l.linger, closed: l.closed,
		relayed: relayed{Relaying: l.relaying, tcp: tcp},
	}, nil
}

// conn embeds *net.TCPConn and not net.Conn, because net/http also uses its sendfile and CloseWrite.
type conn struct {
	*net.TCPConn
	rewriter
	reader      checkedReader
	connections *connections
	use         use
	linger      linger
	lingered    atomic.Bool
	closed      <-chan struct{} // closed with the listener
	relayed     relayed
	// handed is true while package net/http has a request: from the first byte that it gets until the connection is idle. It
	// may have read the request ahead, and reads from the connection while a handler runs.
	handed atomic.Bool
}

// Read implements net.Conn. While the server waits for a request, Read serves those that the relay takes.
func (c *conn) Read(p []byte) (int, error) {
	if c.relayed.Relay != nil && !c.handed.Load() && c.reader.between() && !c.over.Load() {
		if c.relay(); c.relayed.ended {
			return 0, io.EOF
		}
	}
	n, err := c.reader.read(c.TCPConn, p, c.over.Load())
	if n > 0 {
		c.handed.Store(true)
	}
	return n, err
}

// WriteTo implements io.WriterTo. Without it, io.Copy would bypass Read.
func (c *conn) WriteTo(w io.Writer) (int64, error) {
	if c.over.Load() && len(c.reader.held) == 0 {
		return c.TCPConn.WriteTo(w) //nolint:wrapcheck // callers inspect it
	}
	return io.Copy(w, struct{ io.Reader }{c}) //nolint:wrapcheck // callers inspect it
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	return c.write(c.TCPConn, p, c.reader.reason.Load(), c.reader.engine.Load())
}

// rewriter replaces the error responses that net/http itself writes.
type rewriter struct {
	newID func() string
	over  atomic.Bool // the connection was hijacked, so net/http no longer writes to it
}

// write writes p, or a JSON response instead. The parameter reason is why a head was rejected; it may be nil. The
// parameter engine is true if the request was for an engine.
func (w *rewriter) write(to net.Conn, p []byte, reason *string, engine bool) (int, error) {
	out, ok := w.refusal(p, reason, engine)
	if !ok {
		return to.Write(p) //nolint:wrapcheck // net/http inspects it
	}
	if _, err := to.Write(out); err != nil {
		return 0, err //nolint:wrapcheck // net/http inspects it
	}
	return len(p), nil
}

// plain is the header block of net/http's own error responses. Responses of handlers never match it, because these
// have a Date header.
const plain = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// refusal returns a JSON response to send instead of p if p is an error response of net/http itself.
func (w *rewriter) refusal(p []byte, reason *string, engine bool) ([]byte, bool) {
	const protocol = "HTTP/1.1 "
	if !bytes.HasPrefix(p, []byte(protocol)) || w.over.Load() {
		return nil, false
	}
	line, _, ok := bytes.Cut(p[len(protocol):], []byte(plain))
	if !ok || bytes.IndexByte(line, '\n') >= 0 {
		return nil, false
	}
	code, _, _ := bytes.Cut(line, []byte(" "))
	status, err := strconv.Atoi(string(code))
	if err != nil {
		return nil, false
	}
	status, detail, word := words(status, string(bytes.TrimSpace(line[len(code):])))
	switch {
	case reason == nil:
	case *reason == reasonSize:
		status, detail, word = words(http.StatusRequestHeaderFieldsTooLarge, "")
	default:
		detail = *reason
	}
	doc := document{Detail: detail, Code: word}
	if engine {
		doc.Error = &errorObject{Message: detail, Type: "invalid_request_error", Code: word}
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, false
	}
	return fmt.Appendf(nil, "%s%d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Content-Type-Options: nosniff\r\n"+
		"X-Request-Id: %s\r\nConnection: close\r\n\r\n%s", protocol, status, http.StatusText(status), len(body)+1, w.newID(), append(body, '\n')), true
}

// document is the body of an error response.
type document struct {
	Detail string       `json:"detail"`
	Code   string       `json:"code"`
	Error  *errorObject `json:"error,omitempty"`
}

// errorObject is the object that the clients of engines expect; package fault writes the same one.
type errorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Param   *string `json:"param"`
}

// words returns the status, detail and code of the JSON response for a message of net/http. The API contract has no
// status 431 and uses 400 for requests that are understood and rejected.
func words(status int, text string) (_ int, detail, code string) {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return http.StatusBadRequest, "the request headers are too large", "headers_too_large"
	case http.StatusNotImplemented:
		return status, "unsupported transfer encoding", "transfer_encoding"
	default:
		return status, text, "malformed_request"
	}
}
