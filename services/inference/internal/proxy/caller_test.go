package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlined is a connection that keeps the deadlines that it is given.
type deadlined struct {
	*httptest.ResponseRecorder
	read, write []time.Time
	broken      error
}

func (d *deadlined) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, at)
	return d.broken
}

func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.write = append(d.write, at)
	return d.broken
}

func TestAConnectionKeepsNoOldDeadline(t *testing.T) {
	t.Parallel()
	d := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	c := newCaller(t.Context(), d, time.Hour)
	got, err := io.ReadAll(&upload{caller: c, in: strings.NewReader("body"), left: 10})
	require.NoError(t, err)
	require.Equal(t, "body", string(got))
	require.Greater(t, len(d.read), 1, "each read has its own")
	for _, at := range d.read[:len(d.read)-1] {
		require.True(t, at.After(time.Now()), "within the idle time from now")
	}
	require.True(t, d.read[len(d.read)-1].IsZero(), "what watches for the caller's leaving meets none")
	require.NoError(t, c.write([]byte("a")))
	require.NoError(t, c.write(nil))
	require.Len(t, d.write, 2)
	c.settle()
	require.True(t, d.write[2].IsZero(), "the next request on the connection starts anew")
	require.True(t, d.Flushed)
}

func TestTheEndOfACallInterruptsBothWays(t *testing.T) {
	t.Parallel()
	d := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	c := newCaller(t.Context(), d, time.Hour)
	c.interrupt()
	require.True(t, d.read[0].Before(time.Now()))
	c.resume()
	require.True(t, d.read[1].After(time.Now()), "the rest of a refused body is read a little, so that the answer arrives")
}

func TestAConnectionWithoutDeadlinesIsServedTheSame(t *testing.T) {
	t.Parallel()
	d := &deadlined{ResponseRecorder: httptest.NewRecorder(), broken: http.ErrNotSupported}
	c := newCaller(t.Context(), d, time.Hour)
	_, err := c.readBody(strings.NewReader("x"), make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, c.write([]byte("x")))
	d.broken = errors.New("the connection is gone")
	_, err = c.readBody(strings.NewReader("x"), make([]byte, 1))
	require.ErrorIs(t, err, d.broken)
	require.ErrorIs(t, c.write([]byte("x")), errCaller)
}
