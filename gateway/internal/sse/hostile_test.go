package sse_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway/internal/sse"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestEarlyFaultKeepsServiceStatus(t *testing.T) {
	t.Parallel()
	for kind, status := range map[fault.Kind]int{
		fault.Absent: 404, fault.Forbidden: 403, fault.Unauthenticated: 401, fault.Invalid: 422, fault.Limited: 429, fault.Unavailable: 503, fault.Conflict: 409,
	} {
		r := newLogsHarness(t, func(func(*ingestv1.FollowLogsResponse) error, grpc.ServerStream) error {
			return fault.New(kind, "why", "so it is")
		})
		got := r.get(t)
		require.Equal(t, status, got.resp.StatusCode, kind)
		require.Equal(t, "application/json", got.resp.Header.Get("Content-Type"), "%s: the stream was not opened", kind)
	}
}

func TestLateFaultIsEventWithoutID(t *testing.T) {
	t.Parallel()
	r := newLogsHarness(t, func(_ func(*ingestv1.FollowLogsResponse) error, stream grpc.ServerStream) error {
		if err := open(stream); err != nil {
			return err
		}
		return fault.InvalidFields(fault.At(fault.TypeValue, "no such place", "after"))
	})
	// Either the header or the fault may arrive first; both responses report the fault.
	got := r.get(t)
	if got.resp.StatusCode != http.StatusOK {
		require.Equal(t, http.StatusUnprocessableEntity, got.resp.StatusCode)
		return
	}
	require.Equal(t, "retry: 2000", got.next())
	frame := got.next()
	require.True(t, strings.HasPrefix(frame, "event: error\ndata: {"), frame)
	require.NotContains(t, frame, "id:", "the error has no id, so a client resumes after the last real event")
	got.end()
}

func TestMessagesAfterEofDropped(t *testing.T) {
	t.Parallel()
	r := newLogsHarness(t, func(send func(*ingestv1.FollowLogsResponse) error, stream grpc.ServerStream) error {
		for _, m := range []*ingestv1.FollowLogsResponse{line(1), eof(3), line(4)} {
			if err := send(m); err != nil {
				return err
			}
		}
		<-stream.Context().Done() // the gateway ends the call
		return stream.Context().Err()
	})
	got := r.get(t)
	require.Equal(t, "retry: 2000", got.next())
	require.Equal(t, lineFrame("1"), got.next())
	require.Equal(t, "id: 3\n"+eofFrame, got.next())
	got.end()
	<-r.ended
}

func TestStopBeforeFirstEventIs503(t *testing.T) {
	t.Parallel()
	r := newLogsHarness(t, func(_ func(*ingestv1.FollowLogsResponse) error, stream grpc.ServerStream) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	opened := make(chan *reader, 1)
	go func() { opened <- r.get(t) }()
	<-r.requests
	require.NoError(t, r.clk.Await(t.Context(), 1))
	r.stop()
	got := <-opened
	require.Equal(t, http.StatusServiceUnavailable, got.resp.StatusCode)
	require.Equal(t, "1", got.resp.Header.Get("Retry-After"))
	<-r.ended
}

func TestClientLeavingBeforeFirstEventFreesService(t *testing.T) {
	t.Parallel()
	freed := make(chan struct{})
	r := newLogsHarness(t, func(_ func(*ingestv1.FollowLogsResponse) error, stream grpc.ServerStream) error {
		<-stream.Context().Done()
		close(freed)
		return stream.Context().Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-r.requests
	leave()
	require.ErrorIs(t, <-failed, context.Canceled)
	<-freed
	<-r.ended
}

// stuckWriter is a response writer that accepts a limited number of writes.
type stuckWriter struct {
	*httptest.ResponseRecorder
	left int
}

var errStuck = errors.New("the client accepts no more writes")

func (s *stuckWriter) Write(p []byte) (int, error) {
	if s.left--; s.left < 0 {
		return 0, errStuck
	}
	return s.ResponseRecorder.Write(p)
}

func TestStuckClientEndsStream(t *testing.T) {
	t.Parallel()
	freed := make(chan struct{})
	r := newLogsHarness(t, func(send func(*ingestv1.FollowLogsResponse) error, stream grpc.ServerStream) error {
		defer close(freed)
		for i := int64(1); ; i++ {
			if err := send(line(i)); err != nil {
				return err
			}
			if stream.Context().Err() != nil {
				return stream.Context().Err()
			}
		}
	})
	w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), left: 2}
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	require.NoError(t, r.stream.Run(w, req, &ingestv1.FollowLogsRequest{}, make(chan struct{}), func(context.Context) error { return nil }),
		"after the first write Run returns no error")
	<-freed
	require.True(t, strings.HasPrefix(w.Body.String(), "retry: 2000\n\n"))
}

func TestLimitPerCredentialUnderRace(t *testing.T) {
	t.Parallel()
	var l sse.Limit
	var wg sync.WaitGroup
	releases := make(chan func(), 10*sse.MaxPerCredential)
	for range 4 * sse.MaxPerCredential {
		for _, who := range []string{"a", "b"} {
			wg.Go(func() {
				if release, ok := l.Take(who); ok {
					releases <- release
				}
			})
		}
	}
	wg.Wait()
	require.Len(t, releases, 2*sse.MaxPerCredential, "concurrent calls cannot exceed the limit")
	close(releases)
	for release := range releases {
		wg.Go(release)
		wg.Go(release) // a second release has no effect
	}
	wg.Wait()
	for range sse.MaxPerCredential {
		_, ok := l.Take("a")
		require.True(t, ok)
	}
	_, ok := l.Take("a")
	require.False(t, ok)
}
