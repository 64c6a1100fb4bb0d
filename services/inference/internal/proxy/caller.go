package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// caller is the connection of the one who calls. Its deadlines are the machine's time, as those of every
// connection; the end of the call makes both ways return at once.
type caller struct {
	ctx  context.Context //nolint:containedctx // of the call, which this is a part of.
	w    http.ResponseWriter
	ctl  *http.ResponseController
	idle time.Duration
}

func newCaller(ctx context.Context, w http.ResponseWriter, idle time.Duration) *caller {
	return &caller{ctx: ctx, w: w, ctl: http.NewResponseController(w), idle: idle}
}

// past is a deadline that is over.
func past() time.Time { return time.Unix(1, 0) }

func (c *caller) soon() time.Time { return clock.Real().Now().Add(c.idle) }

// interrupt makes a read of the body return, whoever waits in it.
func (c *caller) interrupt() { _ = c.ctl.SetReadDeadline(past()) }

// resume lets the server read a little more of a body that was given up: a connection that is closed on
// unread bytes takes the answer with it.
func (c *caller) resume() { _ = c.ctl.SetReadDeadline(c.soon()) }

// readBody reads a part of the body within the idle time.
func (c *caller) readBody(body io.Reader, p []byte) (int, error) {
	if err := c.ctl.SetReadDeadline(c.soon()); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, fmt.Errorf("set a deadline: %w", err)
	}
	// After the deadline, so that the end of the call cannot slip in between.
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := body.Read(p)
	if errors.Is(err, io.EOF) {
		// What watches the connection from now on must not meet an old deadline.
		_ = c.ctl.SetReadDeadline(time.Time{})
	}
	return n, err
}

var errCaller = errors.New("the caller is gone")

// write passes a part of the answer on and flushes it, within the idle time.
func (c *caller) write(p []byte) error {
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
	return nil
}

// farewellWithin bounds the last words to a caller whose call has ended.
const farewellWithin = time.Second

// farewell writes last words, also where the call has ended.
func (c *caller) farewell(p []byte) {
	_ = c.ctl.SetWriteDeadline(clock.Real().Now().Add(farewellWithin))
	if _, err := c.w.Write(p); err == nil {
		_ = c.ctl.Flush()
	}
}

// settle leaves the connection as it was found, for the next request on it.
func (c *caller) settle() { _ = c.ctl.SetWriteDeadline(time.Time{}) }

// upload is the body on its way to the engine, up to a size.
type upload struct {
	caller *caller
	in     io.Reader
	left   int64
	read   int64
}

var errTooLarge = errors.New("the body is too large")

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.caller.readBody(u.in, p)
	u.read += int64(n)
	if u.left -= int64(n); u.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
