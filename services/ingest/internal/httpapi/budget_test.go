package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/ingesttoken"
)

func TestBudget_reserve_sharePerRun(t *testing.T) {
	t.Parallel()
	var b budget
	run := func(i int) string { return fmt.Sprintf("run_%d", i) }
	for range maxOfRun / largest {
		require.NoError(t, b.reserve("stalled", largest))
	}
	err := b.reserve("stalled", 1)
	require.True(t, fault.HasCode(err, "ingest_busy") && fault.Is(err, fault.Unavailable), "%v", err)
	for i := range maxInFlight/maxOfRun - 1 {
		require.NoError(t, b.reserve(run(i), maxOfRun), "other runs have their share")
	}
	require.True(t, fault.HasCode(b.reserve("late", 1), "ingest_busy"), "the total is bounded, too")
	b.release("stalled", largest)
	require.NoError(t, b.reserve("late", largest))
	b.release("late", largest)
	for range maxOfRun/largest - 1 {
		b.release("stalled", largest)
	}
	for i := range maxInFlight/maxOfRun - 1 {
		b.release(run(i), maxOfRun)
	}
	require.Zero(t, b.total)
	require.Empty(t, b.runs, "a run without bodies occupies nothing")
}

// deadlineRecorder is a response writer that records the read deadlines.
type deadlineRecorder struct {
	*httptest.ResponseRecorder

	until []time.Time
}

// SetReadDeadline is called by http.ResponseController.
func (w *deadlineRecorder) SetReadDeadline(at time.Time) error {
	w.until = append(w.until, at)
	return nil
}

// onRead is a reader that calls fn before each read.
type onRead struct {
	io.Reader
	fn func()
}

func (o onRead) Read(p []byte) (int, error) { o.fn(); return o.Reader.Read(p) }

// readBody calls the handler's method read with the given body and length.
func readBody(t *testing.T, h *Handler, w http.ResponseWriter, body io.Reader, length int64) (func(), error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/ingest/metrics", body)
	r.ContentLength = length
	return h.read(w, r, &request{grant: &ingesttoken.Grant{}}, largest)
}

func TestHandler_read_limitsTimeOfBody(t *testing.T) {
	t.Parallel()
	h, w := &Handler{}, &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	now := clock.Real().Now()
	release, err := readBody(t, h, w, onRead{strings.NewReader("{}"), func() { require.Len(t, w.until, 1, "the deadline is set before the body is read") }}, 2)
	require.NoError(t, err)
	release()
	require.Len(t, w.until, 2)
	require.WithinDuration(t, now.Add(bodyTime), w.until[0], bodyTime/2)
	require.Zero(t, w.until[1], "the deadline is removed, because the response may take longer")

	_, err = readBody(t, h, w, io.MultiReader(strings.NewReader("{"), iotest.ErrReader(os.ErrDeadlineExceeded)), largest)
	require.True(t, fault.HasCode(err, "body_timeout") && fault.Is(err, fault.Unavailable), "%v", err)
	require.Zero(t, h.bodies.total, "the memory that was reserved for a late body is freed")
}

// Stalled uploads of one run must not keep another run from reporting.
func TestHandler_stalledUploadsOfOneRun(t *testing.T) {
	t.Parallel()
	p := newHarness(t)
	stalled := ingesttoken.Grant{}
	stalled.Owner.RunID = "run_stalled"
	var uploads sync.WaitGroup
	gate, reads, refused := make(chan struct{}), make(chan struct{}), make(chan error)
	for range maxInFlight / largest {
		body := onRead{iotest.ErrReader(io.ErrUnexpectedEOF), func() { reads <- struct{}{}; <-gate }}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/ingest/metrics", body)
		r.ContentLength = largest
		uploads.Go(func() {
			if _, err := p.handler.read(httptest.NewRecorder(), r, &request{grant: &stalled}, largest); !fault.HasCode(err, "body_incomplete") {
				refused <- err
			}
		})
		select {
		case <-reads:
		case err := <-refused:
			require.True(t, fault.HasCode(err, "ingest_busy"), "%v", err)
		}
	}
	rec := p.send(http.MethodPost, "logs", `{"run_id":"run_1","chunks":["a"]}`)
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	close(gate)
	uploads.Wait()
	require.Zero(t, p.handler.bodies.total)
}
