package reverseproxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	// smallBody is the largest body, in bytes, that is read into memory before the request is sent, so that net/http's
	// server and transport do not both read it when the response starts early (golang/go#40747).
	smallBody = 1 << 20
	// smallTime is how long a small body may take to arrive. It is limited because the body occupies memory before the
	// caller is checked.
	smallTime = 30 * time.Second
	// linger is how long the rest of a body is read after an early response. A connection closed with unread data is
	// reset, and a reset can destroy the response before the client has read it. net/http waits as long itself.
	linger = 500 * time.Millisecond
)

// errReleased is the error of reads after the response has ended.
var errReleased = errors.New("the response has ended")

// late returns the kind of error for a body that did not arrive in time. Reporters of runs repeat a report after 503, as
// ingest itself responds, and drop it after 400.
func (u Upstream) late() fault.Kind {
	if u.Service == "ingest" {
		return fault.Unavailable
	}
	return fault.Refused
}

// body reads a small body of known length into memory. It streams any other body, even while the response arrives. A
// body that is late is an error of the given kind.
func body(w http.ResponseWriter, in, out *http.Request, late fault.Kind) error {
	switch {
	case in.Body == nil || in.Body == http.NoBody || in.ContentLength == 0:
		out.Body, out.ContentLength = nil, 0
	case in.ContentLength > 0 && in.ContentLength <= smallBody:
		data := make([]byte, in.ContentLength)
		if err := whole(w, in.Body, data, late); err != nil {
			return err
		}
		out.Header.Del("Expect")
		out.Body = io.NopCloser(strings.NewReader(string(data)))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(data))), nil }
	default:
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("relay body: %w", err)
		}
		out.Body = &flowing{in: in.Body}
	}
	return nil
}

// flowing is a client's body while it streams. Its read errors are the client's fault, not the service's.
type flowing struct {
	in io.Reader
	// reading is held while a part of the body is read.
	reading sync.Mutex
	// ended reports whether the body was read to its end.
	ended atomic.Bool
	// closed makes later reads fail.
	closed atomic.Bool
}

// Read implements io.Reader.
func (f *flowing) Read(p []byte) (int, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	if f.closed.Load() {
		return 0, &cutError{errReleased}
	}
	n, err := f.in.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		f.ended.Store(true)
	case err != nil:
		err = &cutError{err}
	}
	return n, err //nolint:wrapcheck // io.EOF must not be wrapped
}

// Close implements io.Closer. It does not close the client's body: that would read the body beside the server, which
// closes it itself.
func (f *flowing) Close() error {
	f.closed.Store(true)
	return nil
}

// release waits until nothing reads the body any longer, so that the server alone uses the connection when the handler
// has returned. If the transport reached the end of the body while the server tried to interrupt a read, the server
// would wait until the client disconnects.
func (f *flowing) release(ctl *http.ResponseController) {
	f.closed.Store(true)
	if !f.ended.Load() {
		// If one of these fails, the connection is broken and reads of it fail at once.
		_ = ctl.Flush()
		_ = ctl.SetReadDeadline(clock.Real().Now().Add(linger))
	}
	f.reading.Lock()
	defer f.reading.Unlock()
	if !f.ended.Load() {
		_ = ctl.SetReadDeadline(clock.Real().Now().Add(linger)) // for the rest, which the server reads
	}
}

// cutError is the error with which reading a client's body failed.
type cutError struct{ error }

// Unwrap returns the read error.
func (e *cutError) Unwrap() error { return e.error }

// whole reads a small body within smallTime and then clears the read deadline. A body that is late is an error of the
// given kind.
func whole(w http.ResponseWriter, from io.Reader, data []byte, late fault.Kind) error {
	ctl := http.NewResponseController(w)
	if err := ctl.SetReadDeadline(clock.Real().Now().Add(smallTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("relay body: %w", err)
	}
	_, err := io.ReadFull(from, data)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.New(late, "body_timeout", "the request body did not arrive within %s; send it again", smallTime).Wrap(err)
	case err != nil:
		return fault.New(fault.Refused, "body_cut", "the request body is shorter than its Content-Length").Wrap(err)
	}
	_ = ctl.SetReadDeadline(time.Time{}) // fails only on a closed connection, on which writing the response fails, too
	return nil
}
