package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

// deadlineRecorder records the deadlines that are set. Each call that sets a deadline returns the error broken.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	read, write []time.Time
	broken      error
}

func (d *deadlineRecorder) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, at)
	return d.broken
}

func (d *deadlineRecorder) SetWriteDeadline(at time.Time) error {
	d.write = append(d.write, at)
	return d.broken
}

func TestCallerDeadlinesReset(t *testing.T) {
	t.Parallel()
	d := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	c := newCaller(t.Context(), d, time.Hour)
	got, err := io.ReadAll(&upload{caller: c, in: strings.NewReader("body"), left: 10})
	require.NoError(t, err)
	require.Equal(t, "body", string(got))
	require.Greater(t, len(d.read), 3, "each read must set a deadline and clear it")
	require.NoError(t, c.write([]byte("a"), false))
	require.NoError(t, c.write(nil, false))
	require.Len(t, d.write, 4)
	for i, at := range append(d.read, d.write...) {
		require.Equal(t, i%2 == 1, at.IsZero(), "between two reads or writes, no deadline may be set")
		require.True(t, at.IsZero() || at.After(time.Now()), "the deadline must be in the future")
	}
	require.True(t, d.Flushed)
}

func TestCallerWholeBodyHasOneDeadline(t *testing.T) {
	t.Parallel()
	d := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", iotest.OneByteReader(strings.NewReader("body")))
	r.ContentLength = 4
	own := newCaller(t.Context(), d, time.Hour)
	e := &exchange{Proxy: &Proxy{MaxBody: 10}, a: &admitted{request: requestOf(r), target: &url.URL{}}, rec: &traffic.Call{}, client: own}
	require.NoError(t, e.prepare(own, r))
	require.Greater(t, len(d.read), 8)
	for i, at := range d.read {
		require.True(t, i%2 == 1 && at.IsZero() || at.Equal(d.read[0]), "bytes that arrive slowly must not extend the deadline")
	}
	require.True(t, d.read[len(d.read)-1].IsZero())
}

func TestCallerInterruptAndResume(t *testing.T) {
	t.Parallel()
	d := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	c := newCaller(t.Context(), d, time.Hour)
	c.interrupt()
	require.True(t, d.read[0].Before(time.Now()))
	_, err := c.readBody(strings.NewReader("x"), make([]byte, 1))
	require.ErrorIs(t, err, errInterrupted)
	require.Len(t, d.read, 1, "a later read must not replace the deadline")
	c.resume(time.Hour)
	require.True(t, d.read[1].After(time.Now()), "resume must allow further reads")
}

func TestCallerWithoutDeadlineSupport(t *testing.T) {
	t.Parallel()
	d := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder(), broken: http.ErrNotSupported}
	c := newCaller(t.Context(), d, time.Hour)
	_, err := c.readBody(strings.NewReader("x"), make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, c.write([]byte("x"), false))
	d.broken = errors.New("connection closed")
	_, err = c.readBody(strings.NewReader("x"), make([]byte, 1))
	require.ErrorIs(t, err, d.broken)
	require.ErrorIs(t, c.write([]byte("x"), false), errCaller)
}
