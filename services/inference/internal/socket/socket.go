// Package socket relays WebSocket connections between a caller and an engine, frame by frame. In both directions it
// relays only valid sequences of RFC 6455 frames, and no message above a size limit. It relays the payload of a data
// frame as it arrives and never waits for a whole message.
//
// It promises that a session ends when a side closes, disconnects or violates the protocol, when both sides are
// silent for too long, when the server drains and the session is quiet, and when its context ends. Both connections
// are then closed. The package itself never sends the close code 1000.
package socket

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Side is the connection of one side. The reader In may hold bytes that were already read from Conn.
type Side struct {
	Conn net.Conn
	In   *bufio.Reader
}

// Session is one upgraded connection.
type Session struct {
	Caller, Engine Side
	// HasExtensions means that both sides agreed on an extension of the protocol.
	HasExtensions bool
	// MaxMessage is the maximum size of a message over all its frames, in bytes.
	MaxMessage int64
	// Idle is how long the session continues while neither side sends anything.
	Idle  time.Duration
	Clock clock.Clock
	// Draining is closed when the server begins to drain. The session then ends as soon as it is quiet.
	Draining <-chan struct{}
	// CloseReason returns the code and reason of the close frame that is sent when the context ends. It is optional.
	CloseReason func(cause error) (code uint16, why string)

	last    atomic.Int64 // when the last bytes arrived, in Unix nanoseconds of Clock
	stopped atomic.Bool
}

// End is how a session ended.
type End string

// The ends of a session.
const (
	Closed      End = "closed"
	CallerGone  End = "caller_gone"
	EngineGone  End = "engine_gone"
	CallerFault End = "caller_fault"
	EngineFault End = "engine_fault"
	Idle        End = "idle"
	Drained     End = "drained"
	// Cut means that the context ended.
	Cut End = "cut"
)

// Result is the result of a session.
type Result struct {
	End                    End
	FromCaller, FromEngine Count
}

const (
	// quiet is how long a session must be silent before a draining server ends it.
	quiet = 2 * time.Second
	// closeWithin is how long the session may be silent while one side must still reply to a close frame. It also
	// limits the time to send a close frame.
	closeWithin = 5 * time.Second
)

// way is one direction of a session, with its pump and the pump's result.
type way struct {
	pump *pump
	done chan error
	err  error
	over bool
}

// Run relays frames until the session ends.
func (s *Session) Run(ctx context.Context) Result {
	defer func() { _, _ = s.Caller.Conn.Close(), s.Engine.Conn.Close() }()
	s.alive()
	up := s.way(s.Caller, s.Engine, true)
	down := s.way(s.Engine, s.Caller, false)
	var wg sync.WaitGroup
	for _, w := range []*way{up, down} {
		wg.Go(func() { w.done <- w.pump.run() })
	}
	end, last := s.watch(ctx, up, down)
	s.halt()
	wg.Wait()
	s.farewell(last, up, down)
	return Result{End: end, FromCaller: up.pump.count, FromEngine: down.pump.count}
}

func (s *Session) way(from, to Side, masked bool) *way {
	return &way{done: make(chan error, 1), pump: &pump{
		in: from.In, out: to.Conn, alive: s.alive, stopped: &s.stopped,
		rule:     rule{masked: masked, extended: s.HasExtensions, most: s.MaxMessage},
		deadline: func() time.Time { return clock.Real().Now().Add(s.Idle) }, // connection deadlines are in real time
	}}
}

func (s *Session) alive() { s.last.Store(s.Clock.Now().UnixNano()) }

// silent returns the time since the last bytes arrived.
func (s *Session) silent() time.Duration {
	return time.Duration(s.Clock.Now().UnixNano() - s.last.Load())
}

// word is the final close frame and the sides to which it is sent.
type word struct {
	code           uint16
	why            string
	caller, engine bool
}

// watch waits until the session must end. It returns how the session ends and the close frame to send.
func (s *Session) watch(ctx context.Context, up, down *way) (End, word) {
	timer := s.Clock.NewTimer(s.Idle)
	defer func() { timer.Stop() }()
	draining, limit := s.Draining, s.Idle
	for {
		select {
		case up.err = <-up.done:
			up.over = true
		case down.err = <-down.done:
			down.over = true
		case <-draining:
			draining, limit = nil, min(limit, quiet)
		case <-timer.C():
		case <-ctx.Done():
			return s.cut(ctx)
		}
		if end, last, over := s.ended(up, down); over {
			return end, last
		}
		if up.over || down.over {
			// One side has sent a close frame, so the other must reply.
			limit = min(limit, closeWithin)
		}
		left := limit - s.silent()
		if left <= 0 {
			return s.expired(draining == nil && s.Draining != nil, up, down)
		}
		timer.Stop()
		timer = s.Clock.NewTimer(left)
	}
}

func (s *Session) cut(ctx context.Context) (End, word) {
	last := word{code: codeGoing, why: "the call was cut", caller: true, engine: true}
	if s.CloseReason != nil {
		last.code, last.why = s.CloseReason(context.Cause(ctx))
	}
	return Cut, last
}

// expired returns the end of a session that was silent for too long.
func (s *Session) expired(draining bool, up, down *way) (End, word) {
	switch {
	case up.over || down.over:
		return Closed, word{}
	case draining && s.silent() < s.Idle:
		return Drained, word{code: codeGoing, why: "the server is stopping", caller: true, engine: true}
	}
	return Idle, word{code: codeGoing, why: "the connection was idle for too long", caller: true, engine: true}
}

// ended reports whether the results of the two directions end the session, and how.
func (s *Session) ended(up, down *way) (End, word, bool) {
	if up.over && down.over && up.err == nil && down.err == nil {
		return Closed, word{}, true
	}
	for _, w := range []*way{up, down} {
		if w.over && w.err != nil {
			end, last := fate(w, w == up, up.pump.closing.Load() || down.pump.closing.Load())
			return end, last, true
		}
	}
	return "", word{}, false
}

// fate returns how a session ends if one direction failed. The parameter closing is true if a close frame was relayed.
func fate(w *way, fromCaller, closing bool) (End, word) {
	if v := violated(w.err); v != nil {
		if fromCaller {
			return CallerFault, word{code: v.code, why: v.why, caller: true, engine: true}
		}
		return EngineFault, word{code: codeGateway, why: "the engine violated the protocol", caller: true, engine: true}
	}
	if closing {
		return Closed, word{} // a side that disconnects instead of replying to a close frame has closed too
	}
	// Either reading from one side or writing to the other failed.
	if fromCaller != errors.Is(w.err, errWrite) {
		return CallerGone, word{code: codeGoing, why: "the caller disconnected", engine: true}
	}
	return EngineGone, word{code: codeGateway, why: "the connection to the engine was lost", caller: true}
}

// halt makes both pumps return.
func (s *Session) halt() {
	s.stopped.Store(true)
	for _, side := range []Side{s.Caller, s.Engine} {
		_ = side.Conn.SetDeadline(time.Unix(1, 0))
	}
}

// farewell sends the final close frame, but not to a side that has already received a close frame or whose last frame
// is incomplete.
func (s *Session) farewell(last word, up, down *way) {
	until := clock.Real().Now().Add(closeWithin)
	if last.caller && !down.pump.within && !down.pump.rule.over {
		s.finish(s.Caller, until, closeFrame(last.code, last.why, false))
	}
	if last.engine && !up.pump.within && !up.pump.rule.over {
		s.finish(s.Engine, until, closeFrame(last.code, last.why, true))
	}
}

// finish writes a last frame, closes the sending half of the connection and reads for a moment. If the connection
// were closed with unread bytes, the frame could be lost.
func (s *Session) finish(to Side, until time.Time, frame []byte) {
	_ = to.Conn.SetDeadline(until)
	if _, err := to.Conn.Write(frame); err != nil {
		return
	}
	half, ok := to.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	// The limits are enough for bytes in transit. A side that sends more is cut off.
	_ = to.Conn.SetReadDeadline(clock.Real().Now().Add(lingerFor))
	_, _ = io.Copy(io.Discard, io.LimitReader(to.Conn, lingerBytes))
}

// lingerFor and lingerBytes bound what finish reads after the last frame.
const (
	lingerFor   = time.Second
	lingerBytes = 1 << 20
)
