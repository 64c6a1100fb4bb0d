package sse

import (
	"fmt"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// sink collects events in a buffer and writes the buffer to the client.
type sink struct {
	w    http.ResponseWriter
	ctl  *http.ResponseController
	buf  []byte
	seq  int64 // id of the last event; initially the id after which the client resumes
	done bool  // the stream's last event has been added
}

func newSink(w http.ResponseWriter, seq int64) *sink {
	return &sink{w: w, seq: seq, ctl: http.NewResponseController(w)}
}

// begin writes the response header and sets the delay after which a disconnected client reconnects.
func (s *sink) begin() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx buffers events
	s.w.WriteHeader(http.StatusOK)
	s.buf = append(s.buf, "retry: 2000\n\n"...)
}

func (s *sink) add(e event) {
	s.buf = e.append(s.buf)
	s.seq, s.done = e.seq, e.last()
}

// reconnect sets a short delay after which the client reconnects. It is for a stream that ends because a process stops:
// another replica, or the restarted process, continues it.
func (s *sink) reconnect() { s.buf = append(s.buf, "retry: 1000\n\n"...) }

func (s *sink) comment() { s.buf = append(s.buf, ":\n\n"...) }

// fail adds the error as an event without an id, so that a client resumes after the last real event.
func (s *sink) fail(err error, requestID string) {
	s.buf = fmt.Appendf(s.buf, "event: error\ndata: %s\n\n", fault.Render(err, requestID).Body)
}

func (s *sink) ended() bool { return s.done }

func (s *sink) room() bool { return !s.done && len(s.buf) < batchSize }

// flush writes the buffer. It fails if the client does not accept it within WriteTimeout.
func (s *sink) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	// Connection deadlines use the real clock, not the stream's. Setting one fails only for the response writers of
	// tests.
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

// release clears the write deadline, so that the connection can serve other requests.
func (s *sink) release() { _ = s.ctl.SetWriteDeadline(time.Time{}) }
