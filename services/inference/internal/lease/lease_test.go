package lease

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stopwatch is a monotonic clock that a test moves, beside a fake clock.
type stopwatch struct{ at atomic.Int64 }

func (s *stopwatch) now() time.Duration { return time.Duration(s.at.Load()) }

func sum(name string) []byte { h := sha256.Sum256([]byte(name)); return h[:] }

func message(tokens ...string) *registrypeerv1.Snapshot {
	d := &registrypeerv1.ServedDeployment{Id: "dep_a", OwnerId: "usr_1", ProjectId: "prj_1", Visibility: "all"}
	for _, name := range tokens {
		d.Tokens = append(d.Tokens, &registrypeerv1.ServedToken{Id: "tok_" + name, Name: name, Hash: sum(name)})
	}
	return &registrypeerv1.Snapshot{Deployments: []*registrypeerv1.ServedDeployment{d}}
}

func put(t *testing.T, l *Lease, epoch int64, tokens ...string) []*call {
	t.Helper()
	s, err := read(epoch, message(tokens...))
	require.NoError(t, err)
	gone, err := l.apply(s)
	require.NoError(t, err)
	return gone
}

func TestALeaseIsValidForItsSpanFromTheAsking(t *testing.T) {
	t.Parallel()
	var w stopwatch
	l := New(w.now)
	require.False(t, l.Valid())
	l.extend(0, time.Hour)
	require.False(t, l.Valid(), "without a snapshot there is nothing to serve")
	put(t, l, 1, "a")
	require.True(t, l.Valid())
	w.at.Store(int64(time.Hour) - 1)
	require.True(t, l.Valid())
	w.at.Store(int64(time.Hour))
	require.False(t, l.Valid(), "not a moment longer")
	l.extend(time.Hour-time.Minute, time.Minute)
	require.False(t, l.Valid(), "the span counts from the asking, not from the answer")
}

func TestASnapshotIsReadWhole(t *testing.T) {
	t.Parallel()
	var w stopwatch
	l := New(w.now)
	_, ok := l.Token(sum("a"))
	require.False(t, ok)
	_, ok = l.Deployment("dep_a")
	require.False(t, ok)
	in := message("a")
	in.Deployments[0].Suspended = true
	in.Deployments[0].Promoted = &registrypeerv1.ServedRevision{
		Id: "rev_1", Number: 4, Ready: true, Reason: "r",
		Replicas: []*registrypeerv1.ServedReplica{{Id: "rep_1", Address: "http://x:1", ApiKey: "key"}},
	}
	s, err := read(7, in)
	require.NoError(t, err)
	_, err = l.apply(s)
	require.NoError(t, err)
	require.Equal(t, int64(7), l.Epoch())
	tok, ok := l.Token(sum("a"))
	require.True(t, ok)
	require.Equal(t, Token{ID: "tok_a", Name: "a", DeploymentID: "dep_a"}, *tok)
	d, ok := l.Deployment("dep_a")
	require.True(t, ok)
	require.True(t, d.Suspended)
	require.Equal(t, []string{"usr_1", "prj_1", "all"}, []string{d.OwnerID, d.ProjectID, d.Visibility})
	require.Equal(t, int32(4), d.Promoted.Number)
	require.Equal(t, "key", d.Promoted.Replicas[0].APIKey.Reveal())
	for _, bad := range [][]byte{nil, {}, sum("a")[:31], append(sum("a"), 0), sum("b")} {
		_, ok := l.Token(bad)
		require.False(t, ok)
	}
	in.Deployments[0].Tokens[0].Hash = []byte("short")
	_, err = read(8, in)
	require.ErrorContains(t, err, "tok_a")
}

func TestAnOlderSnapshotBringsNothingBack(t *testing.T) {
	t.Parallel()
	var w stopwatch
	l := New(w.now)
	put(t, l, 5)
	s, err := read(4, message("revoked"))
	require.NoError(t, err)
	_, err = l.apply(s)
	require.ErrorIs(t, err, errOlder)
	_, ok := l.Token(sum("revoked"))
	require.False(t, ok)
	put(t, l, 5, "same epoch again")
}

func TestCallsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	var w stopwatch
	l := New(w.now)
	l.extend(0, time.Hour)
	put(t, l, 1, "a", "b")
	a, _ := l.Token(sum("a"))
	b, _ := l.Token(sum("b"))
	ctxA, leaveA, ok := l.Enter(t.Context(), sum("a"), a)
	require.True(t, ok)
	ctxB, leaveB, ok := l.Enter(t.Context(), sum("b"), b)
	require.True(t, ok)
	gone := put(t, l, 2, "b")
	require.Len(t, gone, 1)
	require.ErrorIs(t, context.Cause(ctxA), ErrRevoked)
	require.NoError(t, ctxB.Err())
	select {
	case <-gone[0].over:
		require.Fail(t, "it has not left yet")
	default:
	}
	leaveA()
	<-gone[0].over
	_, leave, ok := l.Enter(t.Context(), sum("a"), a)
	require.False(t, ok, "looked up before, revoked since")
	leave()
	leaveB()
	require.Error(t, ctxB.Err(), "what has left holds nothing")
	require.Empty(t, l.calls)
}

func TestNoCallSlipsPastARevocation(t *testing.T) {
	t.Parallel()
	var w stopwatch
	l := New(w.now)
	l.extend(0, time.Hour)
	for i := range int64(300) {
		put(t, l, 2*i+1, "a")
		tok, _ := l.Token(sum("a"))
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				<-start
				ctx, leave, ok := l.Enter(t.Context(), sum("a"), tok)
				defer leave()
				if ok {
					<-ctx.Done() // cut, or the test never ends
				}
			})
		}
		close(start)
		put(t, l, 2*i+2)
		wg.Wait()
	}
}

func TestTheGuardCutsAllWhenTheLeaseIsOver(t *testing.T) {
	t.Parallel()
	var w stopwatch
	clk := clock.NewFake(time.Unix(0, 0))
	l := New(w.now)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Guard(ctx, clk) }()
	put(t, l, 1, "a")
	l.extend(0, time.Minute)
	tok, _ := l.Token(sum("a"))
	open, leave, ok := l.Enter(t.Context(), sum("a"), tok)
	require.True(t, ok)
	defer leave()
	require.NoError(t, clk.Await(ctx, 1))
	w.at.Store(int64(30 * time.Second))
	l.extend(30*time.Second, time.Minute) // renewed in time
	w.at.Store(int64(80 * time.Second))
	clk.Advance(80 * time.Second)
	require.NoError(t, open.Err())
	w.at.Store(int64(90 * time.Second))
	for open.Err() == nil {
		clk.Advance(time.Minute) // whichever timer it waits for
		runtime.Gosched()
	}
	<-open.Done()
	require.ErrorIs(t, context.Cause(open), ErrOver)
	_, late, ok := l.Enter(t.Context(), sum("a"), tok)
	require.False(t, ok)
	late()
	cancel()
	require.NoError(t, <-done)
}

// wire is a stream whose other side the test holds.
type wire struct {
	grpc.ClientStream

	ctx     context.Context
	sent    chan *registrypeerv1.WatchRequest
	replies chan *registrypeerv1.WatchResponse
	dead    chan struct{} // closed: the stream is broken
}

func (s *wire) Send(in *registrypeerv1.WatchRequest) error {
	select {
	case s.sent <- in:
		return nil
	case <-s.dead:
		return io.EOF
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *wire) Recv() (*registrypeerv1.WatchResponse, error) {
	select {
	case out := <-s.replies:
		return out, nil
	case <-s.dead:
		return nil, io.EOF
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// source opens the streams.
type source struct {
	streams chan *wire
	refuse  atomic.Bool
	refused atomic.Int32
}

func (s *source) Watch(ctx context.Context, _ ...grpc.CallOption) (registrypeerv1.SnapshotService_WatchClient, error) {
	if s.refuse.Load() {
		s.refused.Add(1)
		return nil, errors.New("refused")
	}
	w := &wire{
		ctx: ctx, dead: make(chan struct{}),
		sent: make(chan *registrypeerv1.WatchRequest), replies: make(chan *registrypeerv1.WatchResponse),
	}
	select {
	case s.streams <- w:
		return w, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type scene struct {
	t      *testing.T
	time   stopwatch
	clock  *clock.Fake
	lease  *Lease
	source *source
}

func watched(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, clock: clock.NewFake(time.Unix(0, 0)), source: &source{streams: make(chan *wire)}}
	s.lease = New(s.time.now)
	w := &Watcher{Lease: s.lease, Snapshots: s.source, ReplicaID: "rep_me", Clock: s.clock, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return s
}

// tick moves both clocks.
func (s *scene) tick(d time.Duration) {
	s.time.at.Add(int64(d))
	s.clock.Advance(d)
}

// next is the stream that is opened after a break, however long the watcher waits.
func (s *scene) next() *wire {
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

func TestTheStreamOfAReplica(t *testing.T) {
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
	require.Zero(t, ack.GetRenewal(), "an acknowledgement renews nothing")
	require.False(t, s.lease.Valid())
	s.time.at.Store(int64(4 * time.Second)) // the answer took its time
	w.replies <- renewed(3, 1, 10*time.Second)
	<-s.lease.extended
	require.NoError(t, s.clock.Await(t.Context(), 1))
	s.clock.Advance(renewEvery)
	require.Equal(t, int64(2), (<-w.sent).GetRenewal())
	require.True(t, s.lease.Valid())
	require.Equal(t, int64(10*time.Second), s.lease.until.Load(), "from the start of the asking")

	w.replies <- renewed(3, 99, time.Hour) // of no renewal of ours
	w.replies <- renewed(4, 2, time.Hour)  // there is a snapshot that did not come yet
	w.replies <- snapshotAt(4)
	require.Equal(t, int64(4), (<-w.sent).GetAckedEpoch())
	require.Equal(t, int64(10*time.Second), s.lease.until.Load())
}

func TestAStreamThatBreaksIsOpenedAgain(t *testing.T) {
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
	require.Equal(t, int64(3), again.GetAckedEpoch(), "it says what is in force")
	require.Equal(t, int64(1), again.GetRenewal())
	require.True(t, s.lease.Valid(), "the lease ran on")
	w.replies <- snapshotAt(2, "a") // older: this registry is not to be followed
	<-w.ctx.Done()
}

func TestARegistryThatSaysNothingIsLeft(t *testing.T) {
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

func TestAnAcknowledgementWaitsForTheCallsThatItCut(t *testing.T) {
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
	ctx, leave, ok := s.lease.Enter(t.Context(), sum("a"), tok)
	require.True(t, ok)
	w.replies <- snapshotAt(2)
	<-ctx.Done()
	require.NoError(t, s.clock.Await(t.Context(), 2)) // it waits with a limit, nothing was sent
	select {
	case <-w.sent:
		require.Fail(t, "acknowledged while a call is open")
	default:
	}
	leave()
	require.Equal(t, int64(2), (<-w.sent).GetAckedEpoch())
}

func TestACallThatDoesNotEndIsNeverAcknowledged(t *testing.T) {
	t.Parallel()
	s := watched(t)
	w := <-s.source.streams
	<-w.sent
	w.replies <- snapshotAt(1, "a")
	<-w.sent
	s.lease.extend(0, time.Hour)
	tok, _ := s.lease.Token(sum("a"))
	ctx, leave, ok := s.lease.Enter(t.Context(), sum("a"), tok)
	require.True(t, ok)
	defer leave()
	w.replies <- snapshotAt(2)
	<-ctx.Done()
	require.NoError(t, s.clock.Await(t.Context(), 2))
	s.clock.Advance(cutWithin) // ticks of the renewal may fall due too; none acknowledges
	<-w.ctx.Done()
}
