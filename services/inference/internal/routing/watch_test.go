package routing

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// fakeStream is a stream on which the test sends the registry's messages.
type fakeStream struct {
	grpc.ClientStream

	ctx     context.Context
	sent    chan *registrypeerv1.WatchRequest
	replies chan *registrypeerv1.WatchResponse
	dead    chan struct{} // closed to break the stream
	broken  chan error    // receives the error with which the stream breaks
}

func (s *fakeStream) Send(in *registrypeerv1.WatchRequest) error {
	select {
	case s.sent <- in:
		return nil
	case <-s.dead:
		return io.EOF
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *fakeStream) Recv() (*registrypeerv1.WatchResponse, error) {
	select {
	case out := <-s.replies:
		return out, nil
	case err := <-s.broken:
		return nil, err
	case <-s.dead:
		return nil, io.EOF
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// source is a fake registry.
type source struct {
	registrypeerv1.SnapshotServiceClient

	streams chan *fakeStream
	// released receives the replica ids of each release request; the channel release supplies the response.
	released chan []string
	release  chan error
	refuse   atomic.Bool
	refused  atomic.Int32
}

func (s *source) Watch(ctx context.Context, _ ...grpc.CallOption) (registrypeerv1.SnapshotService_WatchClient, error) {
	if s.refuse.Load() {
		s.refused.Add(1)
		return nil, errors.New("refused")
	}
	w := &fakeStream{
		ctx: ctx, dead: make(chan struct{}), broken: make(chan error, 1),
		sent: make(chan *registrypeerv1.WatchRequest), replies: make(chan *registrypeerv1.WatchResponse),
	}
	select {
	case s.streams <- w:
		return w, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Release passes the request to the test and returns the test's response. If released is nil, it succeeds.
func (s *source) Release(ctx context.Context, in *registrypeerv1.ReleaseRequest, _ ...grpc.CallOption) (*registrypeerv1.ReleaseResponse, error) {
	if s.released == nil {
		return &registrypeerv1.ReleaseResponse{}, nil
	}
	s.released <- in.GetReplicaIds()
	select {
	case err := <-s.release:
		return &registrypeerv1.ReleaseResponse{}, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type harness struct {
	t      *testing.T
	time   stopwatch
	clock  *clock.Fake
	lease  *Lease
	source *source
}

func watched(t *testing.T) *harness {
	t.Helper()
	s := &harness{t: t, clock: clock.NewFake(time.Unix(0, 0)), source: &source{streams: make(chan *fakeStream)}}
	s.lease = New(s.time.now)
	w := s.watcher(filepath.Join(t.TempDir(), "replicas"), "rep_me")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return s
}

// watcher returns a watcher that uses the replica file at this path and takes these replica ids in order.
func (s *harness) watcher(roll string, names ...string) *Watcher {
	next := 0
	return &Watcher{
		Lease: s.lease, Snapshots: s.source, Roll: &ReplicaFile{Path: roll}, Clock: s.clock, Log: slog.New(slog.DiscardHandler),
		Name: func() string { next++; return names[next-1] },
	}
}

// tick advances both clocks.
func (s *harness) tick(d time.Duration) {
	s.time.at.Add(int64(d))
	s.clock.Advance(d)
}

// next returns the next stream. It advances the clock until the watcher's backoff is over.
func (s *harness) next() *fakeStream {
	for {
		select {
		case w := <-s.source.streams:
			return w
		default:
			s.clock.Advance(10 * time.Second)
			runtime.Gosched()
		}
	}
}

func snapshotAt(epoch int64, tokens ...string) *registrypeerv1.WatchResponse {
	return &registrypeerv1.WatchResponse{Epoch: epoch, Snapshot: message(tokens...)}
}

func renewed(epoch, number int64, lease time.Duration) *registrypeerv1.WatchResponse {
	return &registrypeerv1.WatchResponse{Epoch: epoch, Renewed: number, Lease: durationpb.New(lease)}
}

func TestWatcherStream(t *testing.T) {
	t.Parallel()
	s := watched(t)
	w := <-s.source.streams
	first := <-w.sent
	require.Equal(t, "rep_me", first.GetReplicaId())
	require.Zero(t, first.GetAckedEpoch())
	require.Equal(t, int64(1), first.GetRenewal())
	w.replies <- snapshotAt(3, "a")
	ack := <-w.sent
	require.Equal(t, int64(3), ack.GetAckedEpoch())
	require.Zero(t, ack.GetRenewal(), "an acknowledgement must not be a renewal")
	require.False(t, s.lease.Valid())
	s.time.at.Store(int64(4 * time.Second)) // the response is late
	w.replies <- renewed(3, 1, 10*time.Second)
	<-s.lease.extended
	require.NoError(t, s.clock.Await(t.Context(), 1))
	s.clock.Advance(renewEvery)
	require.Equal(t, int64(2), (<-w.sent).GetRenewal())
	require.True(t, s.lease.Valid())
	require.Equal(t, int64(10*time.Second), s.lease.until.Load(), "the lease must count from the request")

	w.replies <- renewed(3, 99, time.Hour) // an unknown renewal
	w.replies <- renewed(4, 2, time.Hour)  // for a snapshot that has not arrived yet
	w.replies <- snapshotAt(4)
	require.Equal(t, int64(4), (<-w.sent).GetAckedEpoch())
	require.Equal(t, int64(10*time.Second), s.lease.until.Load())
}

func TestWatcherReopensBrokenStream(t *testing.T) {
	t.Parallel()
	s := watched(t)
	w := <-s.source.streams
	<-w.sent
	w.replies <- snapshotAt(3, "a")
	<-w.sent
	w.replies <- renewed(3, 1, time.Hour)
	<-s.lease.extended
	s.source.refuse.Store(true)
	close(w.dead)
	for s.source.refused.Load() < 3 {
		s.clock.Advance(10 * time.Second)
		runtime.Gosched()
	}
	s.source.refuse.Store(false)
	w = s.next()
	again := <-w.sent
	require.Equal(t, int64(3), again.GetAckedEpoch(), "the new stream must report the current epoch")
	require.Equal(t, int64(1), again.GetRenewal())
	require.True(t, s.lease.Valid(), "the lease must stay valid")
	w.replies <- snapshotAt(2, "a") // an older snapshot breaks the stream
	<-w.ctx.Done()
}

func TestWatcherLeavesSilentRegistry(t *testing.T) {
	t.Parallel()
	s := watched(t)
	w := <-s.source.streams
	<-w.sent
	for range int(silent / renewEvery) {
		require.NoError(t, s.clock.Await(t.Context(), 1))
		s.tick(renewEvery)
		<-w.sent
	}
	s.tick(renewEvery)
	<-w.ctx.Done()
}

func TestAcknowledgementWaitsForCutCalls(t *testing.T) {
	t.Parallel()
	s := watched(t)
	w := <-s.source.streams
	<-w.sent
	w.replies <- snapshotAt(1, "a")
	<-w.sent
	w.replies <- renewed(1, 1, time.Hour)
	<-s.lease.extended
	require.NoError(t, s.clock.Await(t.Context(), 1))
	s.clock.Advance(renewEvery)
	<-w.sent
	tok, _ := s.lease.Token(sum("a"))
	ctx, leave, ok := enter(t.Context(), s.lease, sum("a"), tok)
	require.True(t, ok)
	w.replies <- snapshotAt(2)
	<-ctx.Done()
	require.NoError(t, s.clock.Await(t.Context(), 2)) // the watcher waits for the call, with a timer
	select {
	case <-w.sent:
		require.Fail(t, "the snapshot was acknowledged while a call is open")
	default:
	}
	leave()
	require.Equal(t, int64(2), (<-w.sent).GetAckedEpoch())
}

func TestStuckCallPreventsAcknowledgement(t *testing.T) {
	t.Parallel()
	s := watched(t)
	w := <-s.source.streams
	<-w.sent
	w.replies <- snapshotAt(1, "a")
	<-w.sent
	s.lease.extend(0, time.Hour)
	tok, _ := s.lease.Token(sum("a"))
	ctx, leave, ok := enter(t.Context(), s.lease, sum("a"), tok)
	require.True(t, ok)
	w.replies <- snapshotAt(2)
	<-ctx.Done()
	require.NoError(t, s.clock.Await(t.Context(), 2))
	s.clock.Advance(cutWithin)
	require.EqualValues(t, 1, (<-w.sent).GetAckedEpoch(), "epoch 2 must not be acknowledged while the call is open")
	w.replies <- renewed(2, 1, time.Hour)
	close(w.dead)
	w = s.next()
	require.EqualValues(t, 1, (<-w.sent).GetAckedEpoch(), "a new stream must not acknowledge epoch 2 while the call is open")
	w.replies <- snapshotAt(2)
	require.NoError(t, s.clock.Await(t.Context(), 2))
	s.clock.Advance(cutWithin)
	require.EqualValues(t, 1, (<-w.sent).GetAckedEpoch(), "receiving the complete state again must not acknowledge epoch 2 while the call is open")
	leave()
	w.replies <- snapshotAt(2)
	acked := (<-w.sent).GetAckedEpoch()
	for range 2 { // renewals that were requested before the call ended
		if acked == 1 {
			acked = (<-w.sent).GetAckedEpoch()
		}
	}
	require.EqualValues(t, 2, acked)
}
