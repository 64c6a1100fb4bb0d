package bearer_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// watchHarness is a checker with a watcher. The test acts as auth: it receives each request and sends each response.
type watchHarness struct {
	*bearer.Checker

	t       *testing.T
	auth    *fakeAuth
	clock   *clock.Fake
	mono    atomic.Int64
	streams chan *fakeStream
	last    *fakeStream // the last stream that next has returned
	stop    func()
}

func newWatchHarness(t *testing.T) *watchHarness {
	t.Helper()
	h := &watchHarness{
		t: t, auth: &fakeAuth{token: "signed"}, clock: clock.NewFake(time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)),
		streams: make(chan *fakeStream),
	}
	h.Checker = bearer.NewChecker(h.auth, h.clock, func() time.Duration { return time.Duration(h.mono.Load()) })
	watcher := &bearer.Watcher{Checker: h.Checker, Auth: h, ID: "rep_1", Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); watcher.Run(ctx) }()
	h.stop = func() { cancel(); <-done }
	t.Cleanup(h.stop)
	return h
}

// WatchCallers implements bearer.Watched.
func (h *watchHarness) WatchCallers(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[authpeerv1.WatchCallersRequest, authpeerv1.WatchCallersResponse], error) {
	s := &fakeStream{ctx: ctx, up: make(chan *authpeerv1.WatchCallersRequest, 16), down: make(chan *authpeerv1.WatchCallersResponse), ended: make(chan struct{})}
	context.AfterFunc(h.t.Context(), func() { s.end(io.ErrClosedPipe) })
	select {
	case h.streams <- s:
		return s, nil
	case <-h.t.Context().Done():
		return nil, io.ErrClosedPipe
	}
}

// fakeStream is a stream of the watcher. The test receives the watcher's requests from up and sends responses to down.
type fakeStream struct {
	grpc.ClientStream

	ctx   context.Context
	up    chan *authpeerv1.WatchCallersRequest
	down  chan *authpeerv1.WatchCallersResponse
	once  sync.Once
	err   error         // why the stream has ended; it is set before ended is closed
	ended chan struct{} // closed by end
}

// end ends the stream. As on a stream of gRPC, Recv returns err from then on, and Send returns io.EOF.
func (s *fakeStream) end(err error) { s.once.Do(func() { s.err = err; close(s.ended) }) }

func (s *fakeStream) Send(in *authpeerv1.WatchCallersRequest) error {
	select {
	case <-s.ended:
		return io.EOF
	default:
	}
	select {
	case s.up <- in:
		return nil
	case <-s.ended:
	case <-s.ctx.Done():
	}
	return io.EOF
}

func (s *fakeStream) CloseSend() error { s.end(io.EOF); return nil }

func (s *fakeStream) Recv() (*authpeerv1.WatchCallersResponse, error) {
	select {
	case out := <-s.down:
		return out, nil
	case <-s.ended:
		return nil, s.err
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// grant sends the given epoch and grants the renewal with the given number; the number 0 grants none.
func (s *fakeStream) grant(epoch, renewal int64) {
	s.down <- &authpeerv1.WatchCallersResponse{Epoch: epoch, Renewed: renewal, Lease: durationpb.New(5 * time.Second)}
}

// next returns the next stream that the watcher opens. After an earlier stream has ended, next ends the pause of the
// watcher.
func (h *watchHarness) next() *fakeStream {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	if h.last != nil {
		select {
		case <-h.last.ctx.Done(): // the watcher has stopped the ticker of this stream, so only its pause uses the clock
		case <-ctx.Done():
		}
		require.NoError(h.t, h.clock.Await(ctx, 1), "the watcher must leave a stream that has ended and then pause")
		h.clock.Advance(time.Second)
	}
	select {
	case h.last = <-h.streams:
	case <-ctx.Done():
		require.FailNow(h.t, "the watcher must open a stream")
	}
	return h.last
}

// leased returns the next stream, on which auth has granted a lease at epoch 7.
func (h *watchHarness) leased() *fakeStream {
	h.t.Helper()
	s := h.next()
	first := <-s.up
	require.Equal(h.t, "rep_1", first.GetGatewayId())
	require.Zero(h.t, first.GetAckedEpoch())
	s.grant(7, first.GetRenewal())
	require.EqualValues(h.t, 7, (<-s.up).GetAckedEpoch())
	return s
}

// calls checks a user n times and returns how often the checker called auth.
func (h *watchHarness) calls(n int) int {
	h.t.Helper()
	before := h.auth.calls
	for range n {
		_, err := h.Caller(h.t.Context(), bearer.Claim{Credential: "a.b.c", Client: "203.0.113.7"})
		require.NoError(h.t, err)
	}
	return h.auth.calls - before
}

func TestWatcher_leaseLetsCheckerReuseIdentity(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t)
	require.Equal(t, 3, h.calls(3), "no lease yet")
	s := h.leased()
	require.Equal(t, 1, h.calls(100))
	_, err := h.Caller(t.Context(), bearer.Claim{Credential: "a.b.c", Client: "203.0.113.8"})
	require.NoError(t, err)
	_, err = h.Caller(t.Context(), bearer.Claim{Credential: "a.b.d", Client: "203.0.113.7"})
	require.NoError(t, err)
	require.Equal(t, 6, h.auth.calls, "other addresses and credentials have identities of their own")

	h.clock.Advance(20 * time.Second)
	require.Equal(t, 1, h.calls(2), "an identity is used for 20 s")
	h.auth.until = h.clock.Now().Add(21 * time.Second)
	h.clock.Advance(20 * time.Second)
	require.Equal(t, 1, h.calls(2))
	h.clock.Advance(time.Second)
	require.Equal(t, 2, h.calls(2), "an expired credential is checked each time")
	_ = s
}

func TestWatcher_newEpochDropsCacheBeforeAck(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t)
	s := h.leased()
	require.Equal(t, 1, h.calls(2))
	h.auth.err = fault.New(fault.Unauthenticated, "token_invalid", "Could not validate credentials")
	s.grant(8, 0)
	require.EqualValues(t, 8, (<-s.up).GetAckedEpoch())
	_, err := h.Caller(t.Context(), bearer.Claim{Credential: "a.b.c", Client: "203.0.113.7"})
	require.ErrorIs(t, err, h.auth.err, "no request is accepted after the acknowledgement")
}

// A response of auth to a call that began before the change may show the access from before the change.
func TestWatcher_responseFromBeforeDropIsNotKept(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t)
	s := h.leased()
	h.auth.during = func() {
		s.grant(8, 0)
		<-s.up
	}
	require.Equal(t, 1, h.calls(1))
	h.auth.during = nil
	require.Equal(t, 1, h.calls(1))
}

// A frozen gateway stops renewing. When it continues, it must not use what it had cached.
func TestWatcher_expiredLeaseEndsCache(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t)
	s := h.leased()
	require.Equal(t, 1, h.calls(2))
	h.mono.Store(int64(5*time.Second - 1))
	require.Zero(t, h.calls(1))
	h.mono.Store(int64(5 * time.Second))
	require.Equal(t, 2, h.calls(2))

	require.NoError(t, h.clock.Await(t.Context(), 1))
	h.clock.Advance(time.Second)
	again := <-s.up
	s.grant(7, again.GetRenewal()-1)
	s.grant(7, again.GetRenewal())
	// The watcher reads one response ahead. When it has read the second of these, it has processed the renewal.
	s.grant(7, 0)
	s.grant(7, 0)
	require.Zero(t, h.calls(1), "the lease is valid, because its time counts from the request, and access has not changed")
}

func TestWatcher_silentAuthEndsStream(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t)
	s := h.leased()
	h.mono.Store(int64(5*time.Second + 1))
	require.NoError(t, h.clock.Await(t.Context(), 1))
	h.clock.Advance(time.Second)
	<-s.ctx.Done()
	next := h.next()
	require.Zero(t, (<-next.up).GetAckedEpoch(), "a new stream begins without an epoch")
	next.grant(3, 0)
	require.EqualValues(t, 3, (<-next.up).GetAckedEpoch(), "the epochs of a restored database may be lower")
}

func TestWatcher_brokenStreamIsReopened(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t)
	s := h.leased()
	require.Equal(t, 1, h.calls(2))
	s.end(errors.New("broken"))
	<-s.ctx.Done()
	require.Zero(t, h.calls(1), "the lease outlives the stream")
	next := h.leased()
	require.Equal(t, 1, h.calls(2), "the first message of a stream drops the cache")
	h.stop()
	require.True(t, (<-next.up).GetLeaving())
	require.Equal(t, 2, h.calls(2), "a gateway that has left has no lease")
}

func TestCheckerCacheIsBounded(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t)
	h.leased()
	h.auth.token = strings.Repeat("x", 64<<10)
	for i := range 1000 {
		_, err := h.Caller(t.Context(), bearer.Claim{Credential: "a.b." + strings.Repeat("c", i+1)})
		require.NoError(t, err)
	}
	before, kept := h.auth.calls, 0
	for i := range 1000 {
		_, err := h.Caller(t.Context(), bearer.Claim{Credential: "a.b." + strings.Repeat("c", i+1)})
		require.NoError(t, err)
		if h.auth.calls == before {
			kept++
		}
		before = h.auth.calls
	}
	require.LessOrEqual(t, kept, 256, "at most 16 MiB are kept")
	h.auth.token = "signed"
	_, err := h.Caller(t.Context(), bearer.Claim{Credential: "a.b.z"})
	require.NoError(t, err)
	_, err = h.Caller(t.Context(), bearer.Claim{Credential: "a.b.z"})
	require.NoError(t, err)
	require.Equal(t, before+1, h.auth.calls, "a full cache makes room")
}

func validUntil(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
