// Package listen words what an HTTP server says by itself, before any handler sees a request: headers that are
// too long or malformed, a missing Host, an unknown transfer encoding. net/http writes those as plain text;
// the contract has a JSON body with `detail` for every failure.
//
// It promises that nothing else is touched: an answer of a handler, a frame of HTTP/2 and the bytes of an
// upgraded connection pass as they are.
package listen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
)

// Told is a listener whose TCP connections tell the server's own refusals in JSON. The server's ConnState must be
// State. newID makes the id of a refused request.
func Told(l net.Listener, newID func() string) net.Listener { return &listener{l, newID} }

// State is the ConnState of a server that serves a listener of Told.
func State(c net.Conn, state http.ConnState) {
	if state != http.StateHijacked {
		return
	}
	if t, ok := c.(interface{ handOver() }); ok {
		t.handOver()
	}
}

type listener struct {
	net.Listener

	newID func() string
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // the server looks at it
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c, nil // of TLS, for one, which the server must see
	}
	return &conn{TCPConn: tcp, teller: teller{newID: l.newID}}, nil
}

// conn keeps what net/http uses of a TCP connection beside net.Conn: sendfile and the half-closed end.
type conn struct {
	*net.TCPConn
	teller
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) { return c.tell(c.TCPConn, p) }

// teller knows a server's own refusal when it sees one.
type teller struct {
	newID func() string
	over  atomic.Bool // what is written belongs to no server any more
}

func (t *teller) handOver() { t.over.Store(true) }

func (t *teller) tell(to net.Conn, p []byte) (int, error) {
	said, ok := t.refusal(p)
	if !ok {
		return to.Write(p) //nolint:wrapcheck // the server looks at it
	}
	if _, err := to.Write(said); err != nil {
		return 0, err //nolint:wrapcheck // the server looks at it
	}
	return len(p), nil
}

// plain are the headers of net/http's own refusals: the only answers without a date.
const plain = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// refusal is the same refusal in JSON.
func (t *teller) refusal(p []byte) ([]byte, bool) {
	const protocol = "HTTP/1.1 "
	if !bytes.HasPrefix(p, []byte(protocol)) || t.over.Load() {
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
	body, err := json.Marshal(struct {
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}{detail, word})
	if err != nil {
		return nil, false
	}
	return fmt.Appendf(nil, "%s%d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Content-Type-Options: nosniff\r\n"+
		"X-Request-Id: %s\r\nConnection: close\r\n\r\n%s", protocol, status, http.StatusText(status), len(body)+1, t.newID(), append(body, '\n')), true
}

// words are what a client is told: net/http's own, which name no cause of ours. The contract's table of statuses has
// no 431: what is understood and refused is 400.
func words(status int, said string) (_ int, detail, code string) {
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return http.StatusBadRequest, "the headers of the request are too large", "headers_too_large"
	case http.StatusNotImplemented:
		return status, "Unsupported transfer encoding", "transfer_encoding"
	default:
		return status, said, "malformed_request"
	}
}
