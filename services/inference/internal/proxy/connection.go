package proxy

import (
	"context"
	"fmt"
	"net/http"
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
	a, err := p.admit(plainRequest(r))
	if err != nil || a.socket {
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
	return p.relayOn(ctx, c, a, r.Close, func() { cut(context.Canceled) })
}

// relayOn relays one admitted call and records it. The function gone ends the call when the caller has disconnected.
func (p *Proxy) relayOn(ctx context.Context, c httprelay.Conn, a *admitted, last bool, gone func()) httprelay.Result {
	own := &connection{conn: c, idle: p.Idle, ctx: ctx, proxy: p, last: last}
	e := p.exchange(ctx, own, a)
	defer e.flight.End()
	e.in = engineclient.Request{Method: a.method, Target: a.target, Length: a.length, Informational: e.informational}
	if err := e.read(own); err != nil {
		e.fail(ctx, err)
	} else {
		c.Watch(gone)
		e.relay(ctx)
		c.Unwatch()
	}
	if e.aborted || own.last || ctx.Err() != nil {
		return httprelay.Ended
	}
	return httprelay.Served
}

// plainRequest returns what a plain head requests.
func plainRequest(r *httprelay.Request) *request {
	path, query, hasQuery := strings.Cut(r.Target, "?")
	in := &request{method: r.Method, header: r.Header, length: r.Length, http11: true}
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

	out     []byte // what was not written yet
	done    func() // gives out back
	chunked bool
}

func (c *connection) soon() time.Time { return clock.Real().Now().Add(c.idle) }

// buffer makes out ready to be appended to.
func (c *connection) buffer() {
	if c.done == nil {
		c.out, c.done = c.proxy.buffer()
		c.out = c.out[:0]
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
	if hasBody := status != http.StatusNoContent && status != http.StatusNotModified; hasBody {
		c.out = httprelay.AppendFraming(c.out, length)
		c.chunked = length < 0
	}
	if c.last {
		c.out = append(c.out, "Connection: close\r\n"...)
	}
	c.out = append(c.out, "\r\n"...)
}

// write implements client.
func (c *connection) write(p []byte, ended bool) error {
	c.buffer()
	if c.chunked {
		c.out = httprelay.AppendChunk(c.out, p)
	} else {
		c.out = append(c.out, p...)
	}
	if ended {
		return nil
	}
	return c.flush()
}

// end implements client.
func (c *connection) end(trailer httprelay.Header) error {
	if c.chunked {
		c.buffer()
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

// farewell implements client.
func (c *connection) farewell(p []byte) {
	if c.chunked {
		p = httprelay.AppendChunk(nil, p)
	}
	c.conn.Farewell(p, clock.Real().Now().Add(farewellWithin))
}

// refuse implements client.
func (c *connection) refuse(err *fault.Error, requestID string, last, never bool) {
	rendered := fault.RenderOpenAI(err, requestID)
	h := httprelay.HeaderOf(rendered.Header)
	if never || err.Code == codeSuspended {
		h.Set(headerShouldRetry, "false")
	}
	c.begin(rendered.Status, h, int64(len(rendered.Body)), last || c.ctx.Err() != nil)
	c.conn.Farewell(append(c.out, rendered.Body...), c.soon())
	c.settle()
}

// cutWrites implements client. Interrupt cuts them.
func (c *connection) cutWrites(context.Context) (stop func()) { return func() {} }

// settle implements client.
func (c *connection) settle() {
	if c.done != nil {
		c.done()
		c.out, c.done = nil, nil
	}
}
