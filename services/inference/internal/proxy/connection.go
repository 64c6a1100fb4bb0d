package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
)

// Relay implements httprelay.Relay. It serves calls that it admits, and declines all others: ServeHTTP makes the same checks
// and refuses them.
func (p *Proxy) Relay(c httprelay.Conn, r *httprelay.Request) httprelay.Result {
	if r.Length > min(readFirst, p.MaxBody) || r.Method == http.MethodHead {
		return httprelay.Declined
	}
	d := &direct{}
	a := &d.admitted
	if a.request = d.request.plain(r); p.admit(a) != nil || a.socket {
		return httprelay.Declined
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	cut := func(cause error) { cancel(cause); c.Interrupt() }
	if !p.Lease.Enter(&a.open, a.sum, a.token, cut) {
		return httprelay.Declined
	}
	defer p.Lease.Leave(&a.open)
	a.requestID = p.IDs.New(id.Request)
	d.connection = connection{conn: c, idle: p.Idle, ctx: ctx, proxy: p, last: r.Close}
	return p.relayOn(ctx, d, func() { cut(context.Canceled) })
}

// direct is a call that package net/http has not seen. It is one value, because each allocation takes time.
type direct struct {
	request    request
	admitted   admitted
	connection connection
	exchange   exchange
}

// relayOn relays one admitted call and records it. The function gone ends the call when the caller has disconnected.
func (p *Proxy) relayOn(ctx context.Context, d *direct, gone func()) httprelay.Result {
	a, own, e := &d.admitted, &d.connection, &d.exchange
	c := own.conn
	p.begin(ctx, e, own, a)
	defer e.flight.End()
	e.in = engineclient.Request{Method: a.method, Target: a.line, Length: a.length, Informational: e.informational}
	if err := e.read(own); err != nil {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			gone() // the caller has disconnected
		}
		e.fail(ctx, err)
	} else {
		c.Watch(gone)
		defer c.Unwatch()
		e.relay(ctx)
	}
	if e.aborted || own.last || ctx.Err() != nil {
		return httprelay.Ended
	}
	return httprelay.Served
}

// plain makes in what a plain head requests, and returns it.
func (in *request) plain(r *httprelay.Request) *request {
	path, query, hasQuery := strings.Cut(r.Target, "?")
	*in = request{method: r.Method, header: r.Header, length: r.Length, http11: true, sent: r.Target}
	in.address.Path, in.address.RawQuery, in.address.ForceQuery = path, query, hasQuery && query == ""
	in.url = &in.address
	return in
}

// read reads the body of a call completely.
func (e *exchange) read(own *connection) error {
	if e.a.length == 0 {
		return nil
	}
	whole := make([]byte, e.a.length)
	if err := own.conn.ReadBody(whole, own.soon()); err != nil {
		own.last = true // the rest of the body may follow
		return fmt.Errorf("%w: %w", engineclient.ErrRequestBody, err)
	}
	e.hold(whole)
	return nil
}

// connection is the connection to a caller whose request package net/http has not seen.
type connection struct {
	conn  httprelay.Conn
	ctx   context.Context //nolint:containedctx // the context of the call.
	idle  time.Duration
	proxy *Proxy // has the buffers
	last  bool   // the connection must end with the response

	out     []byte  // what was not written yet
	taken   *[]byte // the buffer of out; nil if it has none
	inHead  bool    // the head of the response is not complete
	length  int64   // of the body, -1 if it is sent in chunks
	hasBody bool    // the status allows a body
}

func (c *connection) soon() time.Time { return clock.Real().Now().Add(c.idle) }

// buffer makes out ready to be appended to.
func (c *connection) buffer() {
	if c.taken == nil {
		c.taken = c.proxy.takeBuffer()
		c.out = (*c.taken)[:0]
	}
}

// inform implements client.
func (c *connection) inform(status int, h httprelay.Header) {
	head := append(httprelay.AppendFields(httprelay.AppendStatus(nil, status), h), "\r\n"...)
	_ = c.conn.WriteUntil(head, c.soon()) // an error does not matter: the final response will fail, too
}

// begin implements client.
func (c *connection) begin(status int, h httprelay.Header, length int64, last bool) {
	c.buffer()
	c.last = c.last || last
	c.out = httprelay.AppendStatus(c.out, status)
	for i := range h {
		if h[i].Name != "Content-Length" {
			c.out = httprelay.AppendFields(c.out, h[i:i+1])
		}
	}
	if !h.Has("Date") {
		c.out = append(c.out, "Date: "...)
		c.out = clock.Real().Now().AppendFormat(c.out, http.TimeFormat)
		c.out = append(c.out, "\r\n"...)
	}
	c.inHead, c.length = true, length
	c.hasBody = status != http.StatusNoContent && status != http.StatusNotModified
}

// endHead appends the end of the head, unless that was done before.
func (c *connection) endHead() {
	c.buffer()
	if !c.inHead {
		return
	}
	c.inHead = false
	if c.hasBody {
		c.out = httprelay.AppendFraming(c.out, c.length)
	}
	if c.last {
		c.out = append(c.out, "Connection: close\r\n"...)
	}
	c.out = append(c.out, "\r\n"...)
}

// part appends a part of the body.
func (c *connection) part(p []byte) {
	c.endHead()
	if c.length < 0 {
		c.out = httprelay.AppendChunk(c.out, p)
	} else {
		c.out = append(c.out, p...)
	}
}

// write implements client.
func (c *connection) write(p []byte, ended bool) error {
	if c.part(p); ended {
		return nil
	}
	return c.flush()
}

// end implements client.
func (c *connection) end(trailer httprelay.Header) error {
	if c.inHead && len(trailer) == 0 {
		c.length = max(c.length, 0) // the body is empty, whatever its length was to be
	}
	if c.endHead(); c.length < 0 && c.hasBody {
		c.out = httprelay.AppendLastChunk(c.out, trailer)
	}
	return c.flush()
}

// flush sends what was not written yet.
func (c *connection) flush() error {
	defer c.settle()
	if len(c.out) == 0 {
		return nil
	}
	if c.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errCaller, context.Cause(c.ctx))
	}
	if err := c.conn.WriteUntil(c.out, c.soon()); err != nil {
		return fmt.Errorf("%w: %w", errCaller, err)
	}
	return nil
}

// farewell implements client. If the length of the body was announced, p is not a part of it, and is not sent.
func (c *connection) farewell(p []byte) {
	if c.length >= 0 {
		return
	}
	c.part(p)
	c.conn.Farewell(c.out, clock.Real().Now().Add(farewellWithin))
	c.settle()
}

// refuse implements client.
func (c *connection) refuse(err *fault.Error, requestID string, last, never bool) {
	rendered := fault.RenderOpenAI(err, requestID)
	h := httprelay.HeaderOf(rendered.Header)
	if never || err.Code == codeSuspended {
		h.Set(headerShouldRetry, "false")
	}
	c.begin(rendered.Status, h, int64(len(rendered.Body)), last || c.ctx.Err() != nil)
	c.part(rendered.Body)
	c.conn.Farewell(c.out, c.soon())
	c.settle()
}

// cutWrites implements client. Interrupt cuts them.
func (c *connection) cutWrites(context.Context) (stop func()) { return func() {} }

// settle implements client.
func (c *connection) settle() {
	if c.taken != nil {
		c.proxy.giveBuffer(c.taken)
		c.out, c.taken = nil, nil
	}
}
