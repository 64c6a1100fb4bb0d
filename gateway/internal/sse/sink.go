package sse

import (
	"fmt"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// sink writes events to the client, a burst at a time.
type sink struct {
	w    http.ResponseWriter
	ctl  *http.ResponseController
	buf  []byte
	seq  int64 // of the last event, at first the one that the client resumes after
	done bool  // the last event was the stream's last
}

func newSink(w http.ResponseWriter, seq int64) *sink {
	return &sink{w: w, seq: seq, ctl: http.NewResponseController(w)}
}

// begin makes the head of the response and says how soon a client that lost it shall come back.
func (s *sink) begin() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	s.w.WriteHeader(http.StatusOK)
	s.buf = append(s.buf, "retry: 2000\n\n"...)
}

func (s *sink) add(e event) {
	s.buf = e.append(s.buf)
	s.seq, s.done = e.seq, e.last()
}

func (s *sink) comment() { s.buf = append(s.buf, ":\n\n"...) }

// fail adds the error as an event; it has no id, so a client resumes after the last real one.
func (s *sink) fail(err error, requestID string) {
	s.buf = fmt.Appendf(s.buf, "event: error\ndata: %s\n\n", fault.Render(err, requestID).Body)
}

func (s *sink) ended() bool { return s.done }

func (s *sink) room() bool { return !s.done && len(s.buf) < batchSize }

// flush writes what was added. A client that does not take it within WriteTimeout is let go.
func (s *sink) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	// The connection's deadline is the machine's time, whatever clock the stream runs by. A writer
	// without deadlines is a test's.
	_ = s.ctl.SetWriteDeadline(clock.Real().Now().Add(WriteTimeout))
	_, err := s.w.Write(s.buf)
	s.buf = s.buf[:0]
	if err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	if err := s.ctl.Flush(); err != nil {
		return fmt.Errorf("flush events: %w", err)
	}
	return nil
}

// release lets the connection serve other requests.
func (s *sink) release() { _ = s.ctl.SetWriteDeadline(time.Time{}) }
