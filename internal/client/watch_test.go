package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

func watcher(c *Client, causes *[]error) Watcher {
	return Watcher{
		Client: c, Clock: clock.Real(), Retrying: func(cause error, _ time.Duration) { *causes = append(*causes, cause) },
		Backoff: clock.Backoff{Base: time.Millisecond, Max: 2 * time.Millisecond, Jitter: func() float64 { return 0 }},
	}
}

// script responds to each request with the next function and records Last-Event-ID.
func script(t *testing.T, steps ...http.HandlerFunc) (*Client, *[]string) {
	t.Helper()
	var mu sync.Mutex
	resumed := &[]string{}
	return serving(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := len(*resumed)
		*resumed = append(*resumed, r.Header.Get("Last-Event-ID"))
		mu.Unlock()
		steps[min(n, len(steps)-1)](w, r)
	}), resumed
}

func cutAfter(lines string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, lines)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestWatcher_Watch_everyEventOnce(t *testing.T) {
	t.Parallel()
	c, resumed := script(t,
		cutAfter("id: 1\ndata: a\n\nid: 2\ndata: half"),
		status(http.StatusServiceUnavailable), status(http.StatusBadGateway), status(http.StatusTooManyRequests),
		cutAfter(""),
		events("id: 2\ndata: b\n\nid: 2\nevent: error\ndata: {\"detail\":\"draining\"}\n\n"),
		events("id: 7\n\n"),
		events("id: 8\ndata: c\n\nid: 8\nevent: eof\ndata: {}\n\n"),
	)
	var causes []error
	var seen []string
	err := watcher(c, &causes).Watch(t.Context(), "/s", "0", func(e Event) error { seen = append(seen, e.Name+e.Data); return nil })
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "eof{}"}, seen)
	require.Equal(t, []string{"0", "1", "1", "1", "1", "1", "2", "7"}, *resumed)
	require.Len(t, causes, 7)
	require.ErrorContains(t, causes[5], "draining")
}

func TestWatcher_Watch_permanentRefusal(t *testing.T) {
	t.Parallel()
	for _, code := range []int{400, 401, 403, 404, 409, 500} {
		c, resumed := script(t, cutAfter("id: 1\ndata: a\n\n"), status(code))
		var causes []error
		err := watcher(c, &causes).Watch(t.Context(), "/s", "", func(Event) error { return nil })
		var refused *Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, code, refused.Status)
		require.Len(t, *resumed, 2)
	}
}

// A handler's error is returned as it is, also if it looks like one of the connection.
func TestWatcher_Watch_handlerError(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{errors.New("disk full"), &UnreachableError{Base: "x", Err: io.EOF}, ErrUnexpectedEnd, syscall.EPIPE} {
		c, resumed := script(t, events("id: 1\ndata: a\n\n"))
		var causes []error
		w := watcher(c, &causes)
		w.Silence = time.Hour
		require.Equal(t, failed, w.Watch(t.Context(), "/s", "", func(Event) error { return failed }))
		require.Len(t, *resumed, 1)
		require.Empty(t, causes)
	}
}

func TestWatcher_Watch_contextEnds(t *testing.T) {
	t.Parallel()
	over := errors.New("the time is over")
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, step := range map[string]http.HandlerFunc{"while it waits": status(503), "while it reads": hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			began := make(chan struct{}, 1000)
			c, _ := script(t, func(w http.ResponseWriter, r *http.Request) { began <- struct{}{}; step(w, r) })
			w := watcher(c, &[]error{})
			w.Backoff.Base, w.Backoff.Max = time.Hour, time.Hour
			go func() { <-began; cancel(over) }()
			require.ErrorIs(t, w.Watch(ctx, "/s", "", func(Event) error { return nil }), over)
		})
	}
}

func TestWatcher_Watch_silence(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	c, resumed := script(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "id: 1\ndata: a\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, events("id: 2\nevent: eof\ndata: b\n\n"))
	var causes []error
	w := watcher(c, &causes)
	w.Clock, w.Silence = fake, time.Minute
	handled, done := make(chan string), make(chan error, 1)
	go func() { done <- w.Watch(t.Context(), "/s", "", func(e Event) error { handled <- e.Data; return nil }) }()
	require.Equal(t, "a", <-handled)
	require.NoError(t, fake.Await(t.Context(), 1))
	fake.Advance(time.Minute)
	require.NoError(t, fake.Await(t.Context(), 1), "the wait before the next try")
	fake.Advance(time.Second)
	require.Equal(t, "b", <-handled)
	require.NoError(t, <-done)
	require.Equal(t, []string{"", "1"}, *resumed)
	require.ErrorIs(t, causes[0], errSilent)
}

func TestWatcher_Watch_slowHandler(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake(time.Unix(0, 0))
	c, resumed := script(t, events("id: 1\ndata: a\n\nid: 2\nevent: eof\ndata: b\n\n"))
	w := watcher(c, &[]error{})
	w.Clock, w.Silence = fake, time.Minute
	var seen []string
	require.NoError(t, w.Watch(t.Context(), "/s", "", func(e Event) error {
		seen = append(seen, e.Data)
		fake.Advance(time.Hour) // such as a pager that stops reading
		return nil
	}))
	require.Equal(t, []string{"a", "b"}, seen)
	require.Len(t, *resumed, 1)
}

func TestWatcher_Retry(t *testing.T) {
	t.Parallel()
	var causes []error
	w := watcher(nil, &causes)
	left := 3
	require.NoError(t, w.Retry(t.Context(), func() error {
		if left--; left > 0 {
			return &Error{Status: 503}
		}
		return nil
	}))
	require.Len(t, causes, 2)
	require.ErrorIs(t, w.Retry(t.Context(), func() error { return fs.ErrPermission }), fs.ErrPermission)
	over := errors.New("the time is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	require.ErrorIs(t, w.Retry(ctx, func() error { cancel(over); return &Error{Status: 503} }), over)
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	untrusted := New(server.URL, &http.Transport{}).Get(t.Context(), "/x", nil, nil)
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, untrusted, &unknown)
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{&Error{Status: 429}, true},
		{&Error{Status: 500}, false},
		{&Error{Status: 504}, true},
		{&UnreachableError{Err: io.EOF}, true},
		{fmt.Errorf("follow: %w", ErrUnexpectedEnd), true},
		{untrusted, false},
		// These also implement net.Error, or have the name of an error of a connection.
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, false},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.EPIPE}, false},
		{io.ErrUnexpectedEOF, false},
		{context.DeadlineExceeded, false},
	} {
		require.Equal(t, tc.want, Retryable(tc.err), "%v", tc.err)
	}
}
