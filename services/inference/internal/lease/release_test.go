package lease

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

// stage is a scene whose registry answers by hand, with a roll that the test can read.
func stage(t *testing.T) (*scene, string) {
	t.Helper()
	s := &scene{t: t, clock: clock.NewFake(time.Unix(0, 0)), source: &source{
		streams: make(chan *wire), released: make(chan []string), release: make(chan error, 1),
	}}
	s.lease = New(s.time.now)
	return s, filepath.Join(t.TempDir(), "replicas")
}

// run starts a watcher; stop asks it to end and answers when it has.
func (s *scene) run(w *Watcher) (stop func() <-chan error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	s.t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() <-chan error { cancel(); return done }
}

// grant brings the token a and a lease into force on a stream that has just been opened.
func (s *scene) grant(w *wire) {
	s.t.Helper()
	<-w.sent
	w.replies <- snapshotAt(1, "a")
	<-w.sent
	w.replies <- renewed(1, 1, time.Hour)
	<-s.lease.extended
	require.True(s.t, s.lease.Valid())
}

// listed are the replicas that the next process on the folder takes for dead.
func listed(t *testing.T, path string) []string {
	t.Helper()
	r := &Roll{Path: path}
	gone, err := r.Enter(replicaID("zz"))
	require.NoError(t, err)
	require.NoError(t, r.Keep(gone...))
	require.NoError(t, r.Close())
	return gone
}

func TestAReplicaGivesItsLeaseBackAfterItsLastCall(t *testing.T) {
	t.Parallel()
	s, path := stage(t)
	stop := s.run(s.watcher(path, replicaID("1")))
	s.grant(<-s.source.streams)
	tok, _ := s.lease.Token(sum("a"))
	ctx, leave, ok := s.lease.Enter(t.Context(), sum("a"), tok)
	require.True(t, ok)
	done := stop()
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), ErrOver)
	require.False(t, s.lease.Valid())
	_, _, ok = s.lease.Enter(t.Context(), sum("a"), tok)
	require.False(t, ok, "nothing is begun any more")
	select {
	case <-s.source.released:
		require.Fail(t, "given back while a call is open")
	default:
	}
	leave()
	require.Equal(t, []string{replicaID("1")}, <-s.source.released)
	require.False(t, s.lease.Valid())
	s.source.release <- nil
	require.NoError(t, <-done)
	require.Empty(t, listed(t, path), "there is nothing to make good")
}

func TestALeaseThatCouldNotBeGivenBackIsTheNextProcesssToGive(t *testing.T) {
	t.Parallel()
	s, path := stage(t)
	stop := s.run(s.watcher(path, replicaID("1")))
	s.grant(<-s.source.streams)
	done := stop()
	require.Equal(t, []string{replicaID("1")}, <-s.source.released)
	s.source.release <- errors.New("away")
	require.NoError(t, <-done, "it is told, and no failure of the process")
	require.Equal(t, []string{replicaID("1")}, listed(t, path))

	stop = s.run(s.watcher(path, replicaID("2")))
	w := <-s.source.streams
	<-w.sent
	require.Equal(t, []string{replicaID("1")}, <-s.source.released)
	s.source.release <- nil
	done = stop()
	require.Equal(t, []string{replicaID("2")}, <-s.source.released, "who was given back is not named again")
	s.source.release <- nil
	require.NoError(t, <-done)
}

func TestAPredecessorIsGivenBackUntilThatWasHeard(t *testing.T) {
	t.Parallel()
	s, path := stage(t)
	before := &Roll{Path: path}
	_, err := before.Enter(replicaID("1"))
	require.NoError(t, err)
	require.NoError(t, before.Close())
	stop := s.run(s.watcher(path, replicaID("2")))
	w := <-s.source.streams
	<-w.sent
	require.Equal(t, []string{replicaID("1")}, <-s.source.released)
	s.source.release <- errors.New("away")
	require.NoError(t, s.clock.Await(t.Context(), 1))
	s.clock.Advance(renewEvery)
	require.Equal(t, []string{replicaID("1")}, <-s.source.released, "with the next renewal")
	s.source.release <- errors.New("still away")
	<-w.sent
	done := stop()
	require.Equal(t, []string{replicaID("1"), replicaID("2")}, <-s.source.released, "and with its own at the latest")
	s.source.release <- nil
	require.NoError(t, <-done)
	require.Empty(t, listed(t, path))
}

// Whoever has a copy of a folder takes its first owner for dead: that one must not serve a moment longer
// under a name that no revocation waits for.
func TestAReplicaThatWasTakenForDeadStopsServingAndTakesAnotherName(t *testing.T) {
	t.Parallel()
	s, path := stage(t)
	stop := s.run(s.watcher(path, replicaID("1"), replicaID("2")))
	w := <-s.source.streams
	s.grant(w)
	tok, _ := s.lease.Token(sum("a"))
	ctx, leave, ok := s.lease.Enter(t.Context(), sum("a"), tok)
	require.True(t, ok)
	w.broken <- fault.New(fault.Refused, codeReleased, "given back")
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
	require.True(t, s.lease.Valid(), "it serves again under a lease of its own")
	done := stop()
	require.Equal(t, []string{replicaID("2")}, <-s.source.released)
	s.source.release <- nil
	require.NoError(t, <-done)
}
