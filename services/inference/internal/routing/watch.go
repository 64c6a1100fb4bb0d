package routing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const (
	// renewEvery is how often the lease is renewed.
	renewEvery = time.Second
	// silent is how long the registry may send nothing before the stream counts as lost.
	silent = 10 * time.Second
	// cutWithin is how long the replica waits for the calls that a snapshot cuts. If a call has not ended by then, the
	// replica continues, but acknowledges the snapshot only when the call has ended: an acknowledgement promises that
	// all these calls have ended.
	cutWithin = 5 * time.Second
)

var (
	errSilent = errors.New("the registry does not respond")
	errUncut  = errors.New("calls that were cut are still open")
)

// Watcher receives snapshots and their changes from the registry and renews the lease.
type Watcher struct {
	Lease     *Lease
	Snapshots registrypeerv1.SnapshotServiceClient
	// Name returns a new replica id. It is random, so that after a restart the registry cannot mistake an
	// acknowledgement of the old process for one of the new process.
	Name  func() string
	Roll  *ReplicaFile
	Clock clock.Clock
	Log   *slog.Logger

	replica string
	entered bool     // the replica file contains the replica id
	gone    []string // predecessors whose leases are not yet released
	warned  bool     // a failure to release them has been logged
	acked   int64    // the last epoch that may be acknowledged
	// uncut contains the channels of calls that were cut and may still be open.
	uncut []<-chan struct{}
}

// Run receives snapshots until ctx ends, and then releases the lease. It reopens a stream that breaks; meanwhile the
// lease remains valid until it expires.
func (w *Watcher) Run(ctx context.Context) error {
	w.enter(ctx)
	defer w.leave(ctx)
	backoff := process.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.5}
	for attempt := 0; ; attempt++ {
		served, err := w.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if served {
			attempt = 0
		}
		if fault.HasCode(err, codeReleased) {
			w.expelled(ctx)
		}
		w.Log.WarnContext(ctx, "snapshot stream from the registry lost", "error", err, "lease_valid", w.Lease.Valid())
		if err := backoff.Wait(ctx, w.Clock, attempt); err != nil {
			return nil // ctx has ended
		}
		w.rejoin(ctx)
	}
}

// watch is one stream of snapshots.
type watch struct {
	*Watcher
	stream registrypeerv1.SnapshotService_WatchClient
	// requested maps the number of each open renewal to the time at which it was requested.
	requested map[int64]time.Duration
	number    int64
	heard     time.Duration // when the registry's last message arrived, by the lease's clock
}

// once opens one stream and handles its messages until it breaks. The result served reports whether a message arrived.
func (w *Watcher) once(ctx context.Context) (served bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := w.Snapshots.Watch(ctx)
	if err != nil {
		return false, fmt.Errorf("open the snapshot stream: %w", err)
	}
	s := &watch{Watcher: w, stream: stream, requested: map[int64]time.Duration{}, heard: w.Lease.mono()}
	received := make(chan *registrypeerv1.WatchResponse)
	broken := make(chan error, 1)
	go func() { broken <- receive(ctx, stream, received) }()
	defer func() {
		cancel()
		<-broken //nolint:errcheck // the stream was just cancelled.
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
			return fmt.Errorf("receive from the registry: %w", err)
		}
		select {
		case out <- in:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// renew requests an extension of the lease and reports the current epoch. It returns errSilent if the registry has
// sent nothing for longer than silent.
func (s *watch) renew() error {
	if s.Lease.mono()-s.heard > silent {
		return errSilent
	}
	s.number++
	s.requested[s.number] = s.Lease.mono()
	return s.send(s.number)
}

func (s *watch) send(renewal int64) error {
	err := s.stream.Send(&registrypeerv1.WatchRequest{ReplicaId: s.replica, AckedEpoch: s.ackable(), Renewal: renewal, Parts: true})
	if err != nil {
		return fmt.Errorf("send to the registry: %w", err)
	}
	return nil
}

// ackable returns the newest epoch whose cut calls have all ended. It also waits for calls that were cut by a message
// of an earlier stream: reopening the stream must not acknowledge an epoch too early.
func (w *Watcher) ackable() int64 {
	w.uncut = slices.DeleteFunc(w.uncut, func(over <-chan struct{}) bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	})
	if len(w.uncut) == 0 {
		w.acked = w.Lease.Epoch()
	}
	return w.acked
}

// take applies the snapshot of a message, extends the lease and acknowledges the snapshot, in this order. If more parts
// of the snapshot follow, it only applies the part.
func (s *watch) take(ctx context.Context, in *registrypeerv1.WatchResponse) error {
	s.heard = s.Lease.mono()
	if in.GetSnapshot() != nil {
		gone, err := s.Lease.apply(in.GetEpoch(), in.GetSnapshot())
		if err != nil || in.GetSnapshot().GetMore() {
			return err
		}
		s.uncut = append(s.uncut, gone...)
		if err := s.await(ctx, gone); errors.Is(err, errUncut) {
			s.Log.WarnContext(ctx, "calls that were cut are still open; the snapshot is acknowledged when they have ended",
				"calls", len(gone), "epoch", in.GetEpoch())
		} else if err != nil {
			return err
		}
	}
	s.extend(in)
	if in.GetSnapshot() == nil {
		return nil
	}
	return s.send(0)
}

// await waits until the cut calls have ended, at most cutWithin.
func (s *watch) await(ctx context.Context, gone []<-chan struct{}) error {
	if len(gone) == 0 {
		return nil
	}
	limit := s.Clock.NewTimer(cutWithin)
	defer limit.Stop()
	for _, over := range gone {
		select {
		case <-over:
		case <-limit.C():
			return errUncut
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// extend applies a granted renewal to the lease, if the current snapshot is at least as new as the epoch
// of the grant.
func (s *watch) extend(in *registrypeerv1.WatchResponse) {
	requested, ok := s.requested[in.GetRenewed()]
	if !ok || in.GetEpoch() > s.Lease.Epoch() {
		return
	}
	s.Lease.extend(requested, in.GetLease().AsDuration())
	for n := range s.requested {
		if n <= in.GetRenewed() {
			delete(s.requested, n)
		}
	}
}
