package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/run"
)

const (
	// renewEvery is how often the lease is renewed.
	renewEvery = time.Second
	// silent is how long renewals may stay without an answer before the stream counts as dead.
	silent = 10 * time.Second
	// cutWithin is how long cut calls may take to end; their end is what an acknowledgement promises.
	cutWithin = 5 * time.Second
)

var (
	errSilent = errors.New("the registry does not answer")
	errUncut  = errors.New("calls of a revoked token are still open")
)

// Watcher keeps the lease in step with the registry.
type Watcher struct {
	Lease     *Lease
	Snapshots registrypeerv1.SnapshotServiceClient
	// Name makes the replica's id: random per start, so that nobody's acknowledgement is taken for another's.
	Name  func() string
	Roll  *Roll
	Clock clock.Clock
	Log   *slog.Logger

	replica string
	entered bool     // in the roll
	gone    []string // predecessors whose leases were not given back yet
	told    bool     // that they could not be given back
}

// Run watches until ctx ends, and then gives the lease back. A stream that breaks is opened again;
// meanwhile the lease runs on.
func (w *Watcher) Run(ctx context.Context) error {
	w.enter(ctx)
	defer w.leave(ctx)
	backoff := run.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}
	for attempt := 0; ; attempt++ {
		served, err := w.once(ctx)
		if ctx.Err() != nil {
			return nil // asked to stop
		}
		if served {
			attempt = 0
		}
		if fault.HasCode(err, codeReleased) {
			w.expelled(ctx)
		}
		w.Log.WarnContext(ctx, "the registry's stream broke", "error", err, "lease_valid", w.Lease.Valid())
		if err := backoff.Wait(ctx, w.Clock, attempt); err != nil {
			return nil // asked to stop
		}
		w.rejoin(ctx)
	}
}

// watch is one stream.
type watch struct {
	*Watcher
	stream registrypeerv1.SnapshotService_WatchClient
	asked  map[int64]time.Duration // renewal to when it was asked for
	number int64
	heard  time.Duration // of mono, when the registry last said something
}

// once holds one stream until it breaks; served tells that it brought something.
func (w *Watcher) once(ctx context.Context) (served bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := w.Snapshots.Watch(ctx)
	if err != nil {
		return false, fmt.Errorf("open: %w", err)
	}
	s := &watch{Watcher: w, stream: stream, asked: map[int64]time.Duration{}, heard: w.Lease.mono()}
	received := make(chan *registrypeerv1.WatchResponse)
	broken := make(chan error, 1)
	go func() { broken <- receive(ctx, stream, received) }()
	defer func() {
		cancel()
		<-broken //nolint:errcheck // of the stream that was just cancelled.
	}()
	if err := s.renew(); err != nil {
		return false, err
	}
	w.clear(ctx)
	tick := w.Clock.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C():
			w.clear(ctx)
			err = s.renew()
		case in := <-received:
			served = true
			err = s.take(ctx, in)
		case err = <-broken:
			broken <- nil
		}
		if err != nil {
			return served, err
		}
	}
}

func receive(ctx context.Context, stream registrypeerv1.SnapshotService_WatchClient, out chan<- *registrypeerv1.WatchResponse) error {
	for {
		in, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		select {
		case out <- in:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// renew asks for more time and says what is in force.
func (s *watch) renew() error {
	if s.Lease.mono()-s.heard > silent {
		return errSilent
	}
	s.number++
	s.asked[s.number] = s.Lease.mono()
	return s.tell(s.number)
}

func (s *watch) tell(renewal int64) error {
	err := s.stream.Send(&registrypeerv1.WatchRequest{ReplicaId: s.replica, AckedEpoch: s.Lease.Epoch(), Renewal: renewal})
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// take puts a snapshot in force before it extends the lease and acknowledges.
func (s *watch) take(ctx context.Context, in *registrypeerv1.WatchResponse) error {
	s.heard = s.Lease.mono()
	if in.GetSnapshot() != nil {
		snap, err := read(in.GetEpoch(), in.GetSnapshot())
		if err != nil {
			return err
		}
		gone, err := s.Lease.apply(snap)
		if err != nil {
			return err
		}
		if err := s.await(ctx, gone); err != nil {
			return err
		}
	}
	s.extend(in)
	if in.GetSnapshot() == nil {
		return nil
	}
	return s.tell(0)
}

// await waits for the end of cut calls.
func (s *watch) await(ctx context.Context, gone []*call) error {
	if len(gone) == 0 {
		return nil
	}
	limit := s.Clock.NewTimer(cutWithin)
	defer limit.Stop()
	for _, c := range gone {
		select {
		case <-c.over:
		case <-limit.C():
			return errUncut
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// extend prolongs the lease by what a renewal was granted, where the snapshot in force is the one that
// the registry speaks of.
func (s *watch) extend(in *registrypeerv1.WatchResponse) {
	asked, ok := s.asked[in.GetRenewed()]
	if !ok || in.GetEpoch() > s.Lease.Epoch() {
		return
	}
	s.Lease.extend(asked, in.GetLease().AsDuration())
	for n := range s.asked {
		if n <= in.GetRenewed() {
			delete(s.asked, n)
		}
	}
}
