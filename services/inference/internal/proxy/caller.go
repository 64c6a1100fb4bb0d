package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// caller is the connection to a caller whose request package net/http has read. Its deadlines use the real clock, because package net compares them with
// the real time. They are set only while something is read or written: HTTP/2 ends a stream whose deadline passes, even
// if nothing waits for the caller. When the call ends, reads and writes return at once.
type caller struct {
	ctx  context.Context //nolint:containedctx // the context of the call.
	w    http.ResponseWriter
	ctl  *http.ResponseController
	idle time.Duration
	// until is when the body must have arrived. It is zero for a streamed body, whose only limit is that no pause may
	// reach idle.
	until time.Time

	mu          sync.Mutex
	interrupted bool // the body must not be read any more
}

func newCaller(ctx context.Context, w http.ResponseWriter, idle time.Duration) *caller {
	return &caller{ctx: ctx, w: w, ctl: http.NewResponseController(w), idle: idle}
}

// past returns a deadline that has expired.
func past() time.Time { return time.Unix(1, 0) }

func (c *caller) soon() time.Time { return clock.Real().Now().Add(c.idle) }

// interrupt makes a blocked read of the body return, and all later ones.
func (c *caller) interrupt() { c.stopReading(past()) }

// stopReading makes a blocked read of the body return at the given time, and all later ones at once.
func (c *caller) stopReading(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	_ = c.ctl.SetReadDeadline(at)
}

// limitRead sets the deadline of reads, unless they were interrupted.
func (c *caller) limitRead(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupted {
		return errInterrupted
	}
	if err := c.ctl.SetReadDeadline(at); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set a deadline: %w", err)
	}
	return nil
}

// errInterrupted is the error of reads of the body after interrupt.
var errInterrupted = errors.New("the rest of the request body is not needed")

// resume lets the server read some more of a body that was not read to its end, because the response can be lost if a
// connection is closed while bytes are unread.
func (c *caller) resume(within time.Duration) {
	_ = c.ctl.SetReadDeadline(clock.Real().Now().Add(within))
}

const (
	// lingerFor is how long the rest of a body that the engine did not need is read after the response. net/http waits as
	// long before it closes such a connection.
	lingerFor = 500 * time.Millisecond
	// lull is the pause after which a caller counts as one that sends no more of its body for now.
	lull = 100 * time.Millisecond
)

// drain reads the rest of a body that the engine did not need, for lingerFor at most or until the caller pauses. It
// reports whether the body has ended.
func (c *caller) drain(body io.Reader) bool {
	until := clock.Real().Now().Add(lingerFor)
	p := make([]byte, chunk)
	for c.ctx.Err() == nil {
		now := clock.Real().Now()
		if !now.Before(until) {
			break
		}
		next := now.Add(lull)
		if until.Before(next) {
			next = until
		}
		if c.ctl.SetReadDeadline(next) != nil {
			return false
		}
		switch _, err := body.Read(p); {
		case errors.Is(err, io.EOF):
			_ = c.ctl.SetReadDeadline(time.Time{})
			return true
		case err != nil:
			return false
		}
	}
	c.resume(lingerFor)
	return false
}

// readBody reads a part of the body within the idle time, and before until.
func (c *caller) readBody(body io.Reader, p []byte) (int, error) {
	deadline := c.soon()
	if !c.until.IsZero() && c.until.Before(deadline) {
		deadline = c.until
	}
	if err := c.limitRead(deadline); err != nil {
		return 0, err
	}
	// Check this after setting the deadline: if the call has ended, the new deadline has just overwritten the expired
	// one.
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := body.Read(p)
	// After the end of the body, the server reads from the connection in the background. An old deadline must not
	// interrupt it.
	if clearing := c.limitRead(time.Time{}); clearing != nil && err == nil {
		err = clearing
	}
	return n, err
}

// errCaller means that the caller no longer reads the response, or that the call has ended.
var errCaller = errors.New("write to the caller")

// inform implements client. Headers that are set remain those of the final response.
func (c *caller) inform(status int, in httprelay.Header) {
	h := c.w.Header()
	kept := maps.Clone(h)
	maps.Copy(h, in.Map())
	c.w.WriteHeader(status)
	clear(h)
	maps.Copy(h, kept)
}

// begin implements client.
func (c *caller) begin(status int, in httprelay.Header, length int64, last bool) {
	h := c.w.Header()
	maps.Copy(h, in.Map())
	if length >= 0 && !in.Has("Content-Length") {
		h.Set("Content-Length", strconv.FormatInt(length, 10))
	}
	if !in.Has("Content-Type") {
		h["Content-Type"] = nil // prevents net/http from guessing it
	}
	if last {
		h.Set("Connection", "close")
	}
	c.w.WriteHeader(status)
}

// write implements client. It flushes what it writes.
func (c *caller) write(p []byte, _ bool) error {
	if err := c.ctl.SetWriteDeadline(c.soon()); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: set a deadline: %w", errCaller, err)
	}
	if c.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errCaller, context.Cause(c.ctx))
	}
	if len(p) > 0 {
		if _, err := c.w.Write(p); err != nil {
			return fmt.Errorf("%w: %w", errCaller, err)
		}
	}
	if err := c.ctl.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errCaller, err)
	}
	c.settle()
	return nil
}

// flush sends the head of the response, and what else was not sent yet.
func (c *caller) flush() error { return c.write(nil, false) }

// end implements client. The server sends the end of the body when the handler returns.
func (c *caller) end(trailer httprelay.Header) error {
	if len(trailer) == 0 {
		return nil
	}
	// The server would announce the length of a body that it has not begun to send, and leave the trailer out.
	if err := c.flush(); err != nil {
		return err
	}
	h := c.w.Header()
	for _, f := range trailer {
		h.Add(http.TrailerPrefix+f.Name, f.Value)
	}
	return nil
}

// refuse implements client.
func (c *caller) refuse(err *fault.Error, requestID string, last, never bool) {
	if last {
		c.w.Header().Set("Connection", "close")
	}
	if never {
		c.w.Header().Set(headerShouldRetry, "false")
	}
	WriteError(c.w, err, requestID)
}

// farewellWithin limits the time of the last write to a caller whose call has ended.
const farewellWithin = time.Second

// farewell implements client.
func (c *caller) farewell(p []byte) {
	_ = c.ctl.SetWriteDeadline(clock.Real().Now().Add(farewellWithin))
	if _, err := c.w.Write(p); err == nil {
		_ = c.ctl.Flush()
	}
}

// cutWrites implements client. The function stop waits because net/http also ends the call if the rest of a body that the engine did not need does not arrive.
func (c *caller) cutWrites(ctx context.Context) (stop func()) {
	cut := make(chan struct{})
	prevent := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = c.ctl.SetWriteDeadline(past())
	})
	return func() {
		if !prevent() {
			<-cut
		}
	}
}

// settle resets the write deadline for the next write, or the next request on the connection.
func (c *caller) settle() { _ = c.ctl.SetWriteDeadline(time.Time{}) }

// upload is the body of a request. At most left more bytes may be read from it.
type upload struct {
	caller *caller
	in     io.Reader
	left   int64
	read   int64
	ended  atomic.Bool // the body was read to its end
}

var errTooLarge = errors.New("the request body is too large")

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.caller.readBody(u.in, p)
	u.read += int64(n)
	if errors.Is(err, io.EOF) {
		u.ended.Store(true)
	}
	if u.left -= int64(n); u.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
