package routing

import (
	"context"
	"crypto/sha256"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stopwatch is a monotonic clock that the test sets.
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

func put(t *testing.T, l *Lease, epoch int64, tokens ...string) []<-chan struct{} {
	t.Helper()
	gone, err := l.apply(epoch, message(tokens...))
	require.NoError(t, err)
	return gone
}

func TestLease_Valid(t *testing.T) {
	t.Parallel()
	var w stopwatch
	l := New(w.now)
	require.False(t, l.Valid())
	l.extend(0, time.Hour)
	require.False(t, l.Valid(), "a lease without a snapshot must not be valid")
	put(t, l, 1, "a")
	require.True(t, l.Valid())
	w.at.Store(int64(time.Hour) - 1)
	require.True(t, l.Valid())
	w.at.Store(int64(time.Hour))
	require.False(t, l.Valid(), "the lease must end exactly after its span")
	l.extend(time.Hour-time.Minute, time.Minute)
	require.False(t, l.Valid(), "the span must count from the request, not from the response")
}

func TestReadSnapshot(t *testing.T) {
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
		Replicas: []*registrypeerv1.ServedReplica{{Id: "rep_1", Address: "http://x:1", ApiKey: "key", FirstByteS: 1800, IdleS: 60}},
	}
	_, err := l.apply(7, in)
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
	require.Equal(t, []time.Duration{30 * time.Minute, time.Minute}, []time.Duration{d.Promoted.Replicas[0].FirstByte, d.Promoted.Replicas[0].Idle})
	for _, bad := range [][]byte{nil, {}, sum("a")[:31], append(sum("a"), 0), sum("b")} {
		_, ok := l.Token(bad)
		require.False(t, ok)
	}
	in.Deployments[0].Tokens[0].Hash = []byte("short")
	_, err = l.apply(8, in)
	require.ErrorContains(t, err, "tok_a")
}

func TestOlderSnapshotRejected(t *testing.T) {
	t.Parallel()
	var w stopwatch
	l := New(w.now)
	put(t, l, 5)
	_, err := l.apply(4, message("revoked"))
	require.ErrorIs(t, err, errOlder)
	_, ok := l.Token(sum("revoked"))
	require.False(t, ok)
	put(t, l, 5, "same epoch again")
}

func TestRevokedTokenCutsItsCalls(t *testing.T) {
	t.Parallel()
	var w stopwatch
	l := New(w.now)
	l.extend(0, time.Hour)
	put(t, l, 1, "a", "b")
	a, _ := l.Token(sum("a"))
	b, _ := l.Token(sum("b"))
	ctxA, leaveA, ok := enter(t.Context(), l, sum("a"), a)
	require.True(t, ok)
	ctxB, leaveB, ok := enter(t.Context(), l, sum("b"), b)
	require.True(t, ok)
	gone := put(t, l, 2, "b")
	require.Len(t, gone, 1)
	require.ErrorIs(t, context.Cause(ctxA), ErrRevoked)
	require.NoError(t, ctxB.Err())
	select {
	case <-gone[0]:
		require.Fail(t, "a cut call must not count as ended before leave is called")
	default:
	}
	leaveA()
	<-gone[0]
	_, leave, ok := enter(t.Context(), l, sum("a"), a)
	require.False(t, ok, "a token that was revoked after its lookup must be refused")
	leave()
	leaveB()
	require.Error(t, ctxB.Err(), "leave must cancel the context")
	require.Zero(t, l.opened(sum("a"))+l.opened(sum("b")))
}

func TestLease_Enter_concurrentRevocation(t *testing.T) {
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
				ctx, leave, ok := enter(t.Context(), l, sum("a"), tok)
				defer leave()
				if ok {
					<-ctx.Done() // the test hangs unless the call is cut
				}
			})
		}
		close(start)
		put(t, l, 2*i+2)
		wg.Wait()
	}
}

func TestLease_Guard_expiredLeaseCutsAll(t *testing.T) {
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
	open, leave, ok := enter(t.Context(), l, sum("a"), tok)
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
		clk.Advance(time.Minute) // fires any timer that Guard may wait for
		runtime.Gosched()
	}
	<-open.Done()
	require.ErrorIs(t, context.Cause(open), ErrExpired)
	_, late, ok := enter(t.Context(), l, sum("a"), tok)
	require.False(t, ok)
	late()
	cancel()
	require.NoError(t, <-done)
}
