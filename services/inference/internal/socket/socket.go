// Package socket passes an upgraded connection on between a caller and an engine, frame by frame: nothing but
// frames of RFC 6455 that follow one another as they must crosses it, in either direction, and no message above
// a size. It never holds more than a piece of a frame.
//
// It promises that a session ends when either side closes or goes away, breaks the rules, when both are silent
// for too long, when the server drains and nothing is under way, or with its context; that both connections are
// closed then; and that no end but that of a close handshake looks like one with the code 1000.
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

// Side is one end's connection with what was read of it already.
type Side struct {
	Conn net.Conn
	In   *bufio.Reader
}

// Session is one upgraded connection.
type Session struct {
	Caller, Engine Side
	// Extended says that both agreed on an extension of the protocol.
	Extended bool
	// MaxMessage bounds a message, over all its frames.
	MaxMessage int64
	// Idle is how long both may be silent.
	Idle  time.Duration
	Clock clock.Clock
	// Draining is closed when the server stops: the session ends at the next quiet moment.
	Draining <-chan struct{}
	// Word says how a caller is told of the end of the context; it may be nil.
	Word func(cause error) (code uint16, why string)

	last    atomic.Int64 // when something passed, of Clock
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
	// Cut is the end of the context.
	Cut End = "cut"
)

// Result is what a session was.
type Result struct {
	End                    End
	FromCaller, FromEngine Count
}

const (
	// quiet is how long nothing must have passed for a draining server to end a session.
	quiet = 2 * time.Second
	// closeWithin is how long the other side may take to answer a close frame, and a side to take our own.
	closeWithin = 5 * time.Second
)

// way is one direction and what became of it.
type way struct {
	pump *pump
	done chan error
	err  error
	over bool
}

// Run passes frames on until the session ends.
func (s *Session) Run(ctx context.Context) Result {
	defer func() { _, _ = s.Caller.Conn.Close(), s.Engine.Conn.Close() }()
	s.alive()
	up := s.way(s.Caller, s.Engine, true)
	down := s.way(s.Engine, s.Caller, false)
	var wg sync.WaitGroup
	for _, w := range []*way{up, down} {
		wg.Go(func() { w.done <- w.pump.run() })
	}
	end, tell := s.watch(ctx, up, down)
	s.halt()
	wg.Wait()
	s.farewell(tell, up, down)
	return Result{End: end, FromCaller: up.pump.count, FromEngine: down.pump.count}
}

func (s *Session) way(from, to Side, masked bool) *way {
	return &way{done: make(chan error, 1), pump: &pump{
		in: from.In, out: to.Conn, alive: s.alive, stopped: &s.stopped,
		rule:     rule{masked: masked, extended: s.Extended, most: s.MaxMessage},
		deadline: func() time.Time { return clock.Real().Now().Add(s.Idle) }, // the connection's own time
	}}
}

func (s *Session) alive() { s.last.Store(s.Clock.Now().UnixNano()) }

// silent is how long nothing has passed.
func (s *Session) silent() time.Duration {
	return time.Duration(s.Clock.Now().UnixNano() - s.last.Load())
}

// word is what a side is told of the end; nothing where it ended it itself.
type word struct {
	code           uint16
	why            string
	caller, engine bool
}

// watch waits for the end.
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
		if end, tell, over := s.ended(up, down); over {
			return end, tell
		}
		if up.over || down.over {
			// One side has closed: the other answers, or it does not.
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
	tell := word{code: codeGoing, why: "the call was ended", caller: true, engine: true}
	if s.Word != nil {
		tell.code, tell.why = s.Word(context.Cause(ctx))
	}
	return Cut, tell
}

// expired is the end after silence.
func (s *Session) expired(draining bool, up, down *way) (End, word) {
	switch {
	case up.over || down.over:
		return Closed, word{}
	case draining && s.silent() < s.Idle:
		return Drained, word{code: codeGoing, why: "the server is stopping", caller: true, engine: true}
	}
	return Idle, word{code: codeGoing, why: "the connection was idle for too long", caller: true, engine: true}
}

// ended says whether what became of the two ways is the session's end.
func (s *Session) ended(up, down *way) (End, word, bool) {
	if up.over && down.over && up.err == nil && down.err == nil {
		return Closed, word{}, true
	}
	for _, w := range []*way{up, down} {
		if w.over && w.err != nil {
			end, tell := fate(w, w == up, up.pump.closing.Load() || down.pump.closing.Load())
			return end, tell, true
		}
	}
	return "", word{}, false
}

// fate is how a session ends by an error of one way.
func fate(w *way, fromCaller, closing bool) (End, word) {
	if v := violated(w.err); v != nil {
		if fromCaller {
			return CallerFault, word{code: v.code, why: v.why, caller: true, engine: true}
		}
		return EngineFault, word{code: codeGateway, why: "the engine broke the protocol", caller: true, engine: true}
	}
	if closing {
		return Closed, word{} // it hung up instead of answering, which is an answer
	}
	// A way fails on the side that it reads, or on the one that it writes to.
	if fromCaller != errors.Is(w.err, errWrite) {
		return CallerGone, word{code: codeGoing, why: "the caller is gone", engine: true}
	}
	return EngineGone, word{code: codeGateway, why: "the engine's connection was lost", caller: true}
}

// halt makes both pumps return.
func (s *Session) halt() {
	s.stopped.Store(true)
	for _, side := range []Side{s.Caller, s.Engine} {
		_ = side.Conn.SetDeadline(time.Unix(1, 0))
	}
}

// farewell tells the sides of the end where a close frame may be written.
func (s *Session) farewell(tell word, up, down *way) {
	until := clock.Real().Now().Add(closeWithin)
	if tell.caller && !down.pump.within && !down.pump.rule.over {
		s.say(s.Caller, until, closeFrame(tell.code, tell.why, false))
	}
	if tell.engine && !up.pump.within && !up.pump.rule.over {
		s.say(s.Engine, until, closeFrame(tell.code, tell.why, true))
	}
}

// say writes a last frame and ends the sending, so that it is not lost by what the other side has sent and nobody
// reads any more.
func (s *Session) say(to Side, until time.Time, frame []byte) {
	_ = to.Conn.SetDeadline(until)
	if _, err := to.Conn.Write(frame); err != nil {
		return
	}
	half, ok := to.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	// A second is plenty for what is under way; whoever sends on and on is cut.
	_ = to.Conn.SetReadDeadline(clock.Real().Now().Add(lingerFor))
	_, _ = io.Copy(io.Discard, io.LimitReader(to.Conn, lingerBytes))
}

const (
	lingerFor   = time.Second
	lingerBytes = 1 << 20
)
