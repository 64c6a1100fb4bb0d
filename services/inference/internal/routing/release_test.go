package routing

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// newReleaseHarness returns a harness in which the test sends the registry's responses itself, and the path of the
// replica file.
func newReleaseHarness(t *testing.T) (*harness, string) {
	t.Helper()
	s := &harness{t: t, clock: clock.NewFake(time.Unix(0, 0)), source: &source{
		streams: make(chan *fakeStream), released: make(chan []string), release: make(chan error, 1),
	}}
	s.lease = New(s.time.now)
	return s, filepath.Join(t.TempDir(), "replicas")
}

// run starts a watcher. The function stop cancels it and returns a channel that receives the result of Run.
func (s *harness) run(w *Watcher) (stop func() <-chan error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	s.t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() <-chan error { cancel(); return done }
}

// grant sends a lease, and a snapshot that contains the token "a", over a new stream.
func (s *harness) grant(w *fakeStream) {
	s.t.Helper()
	<-w.sent
	w.replies <- snapshotAt(1, "a")
	<-w.sent
	w.replies <- renewed(1, 1, time.Hour)
	<-s.lease.extended
	require.True(s.t, s.lease.Valid())
}

// listed returns the replicas that the next process finds in the replica file.
func listed(t *testing.T, path string) []string {
	t.Helper()
	r := &ReplicaFile{Path: path}
	gone, err := r.Enter(replicaID("zz"))
	require.NoError(t, err)
	require.NoError(t, r.Keep(gone...))
	require.NoError(t, r.Close())
	return gone
}

func TestStopReleasesLeaseAfterLastCall(t *testing.T) {
	t.Parallel()
	s, path := newReleaseHarness(t)
	stop := s.run(s.watcher(path, replicaID("1")))
	s.grant(<-s.source.streams)
	tok, _ := s.lease.Token(sum("a"))
	ctx, leave, ok := enter(t.Context(), s.lease, sum("a"), tok)
	require.True(t, ok)
	done := stop()
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), ErrExpired)
	require.False(t, s.lease.Valid())
	_, _, ok = enter(t.Context(), s.lease, sum("a"), tok)
	require.False(t, ok, "no new call may start")
	select {
	case <-s.source.released:
		require.Fail(t, "the lease was released while a call is open")
	default:
	}
	leave()
	require.Equal(t, []string{replicaID("1")}, <-s.source.released)
	require.False(t, s.lease.Valid())
	s.source.release <- nil
	require.NoError(t, <-done)
	require.Empty(t, listed(t, path), "the next process must have no lease to release")
}

func TestFailedReleaseLeftToNextProcess(t *testing.T) {
	t.Parallel()
	s, path := newReleaseHarness(t)
	stop := s.run(s.watcher(path, replicaID("1")))
	s.grant(<-s.source.streams)
	done := stop()
	require.Equal(t, []string{replicaID("1")}, <-s.source.released)
	s.source.release <- errors.New("unavailable")
	require.NoError(t, <-done, "a failed release must not fail the process")
	require.Equal(t, []string{replicaID("1")}, listed(t, path))

	stop = s.run(s.watcher(path, replicaID("2")))
	w := <-s.source.streams
	<-w.sent
	require.Equal(t, []string{replicaID("1")}, <-s.source.released)
	s.source.release <- nil
	done = stop()
	require.Equal(t, []string{replicaID("2")}, <-s.source.released, "a released predecessor must not be released again")
	s.source.release <- nil
	require.NoError(t, <-done)
}

func TestPredecessorReleaseRetried(t *testing.T) {
	t.Parallel()
	s, path := newReleaseHarness(t)
	before := &ReplicaFile{Path: path}
	_, err := before.Enter(replicaID("1"))
	require.NoError(t, err)
	require.NoError(t, before.Close())
	stop := s.run(s.watcher(path, replicaID("2")))
	w := <-s.source.streams
	<-w.sent
	require.Equal(t, []string{replicaID("1")}, <-s.source.released)
	s.source.release <- errors.New("unavailable")
	require.NoError(t, s.clock.Await(t.Context(), 1))
	s.clock.Advance(renewEvery)
	require.Equal(t, []string{replicaID("1")}, <-s.source.released, "the release must be retried with the next renewal")
	s.source.release <- errors.New("unavailable")
	<-w.sent
	done := stop()
	require.Equal(t, []string{replicaID("1"), replicaID("2")}, <-s.source.released, "predecessors must be released together with the replica itself")
	s.source.release <- nil
	require.NoError(t, <-done)
	require.Empty(t, listed(t, path))
}

// A process with a copy of the folder releases the lease of this process. Revocations then no longer wait for the
// replica id, so the replica must stop serving under this id at once.
func TestReleasedReplicaRejoinsUnderNewID(t *testing.T) {
	t.Parallel()
	s, path := newReleaseHarness(t)
	stop := s.run(s.watcher(path, replicaID("1"), replicaID("2")))
	w := <-s.source.streams
	s.grant(w)
	tok, _ := s.lease.Token(sum("a"))
	ctx, leave, ok := enter(t.Context(), s.lease, sum("a"), tok)
	require.True(t, ok)
	w.broken <- fault.New(fault.Refused, codeReleased, "released")
	<-ctx.Done()
	leave()
	require.False(t, s.lease.Valid())
	w = s.next()
	first := <-w.sent
	require.Equal(t, replicaID("2"), first.GetReplicaId())
	require.Equal(t, []string{replicaID("1")}, <-s.source.released)
	s.source.release <- nil
	w.replies <- &registrypeerv1.WatchResponse{Epoch: 1, Renewed: 1, Lease: renewed(1, 1, time.Hour).GetLease()}
	<-s.lease.extended
	require.True(t, s.lease.Valid(), "the replica must serve again under its new lease")
	done := stop()
	require.Equal(t, []string{replicaID("2")}, <-s.source.released)
	s.source.release <- nil
	require.NoError(t, <-done)
}
