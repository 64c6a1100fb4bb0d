package lease

import (
	"context"
	"time"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
)

const (
	// releaseWithin bounds one request to give leases back.
	releaseWithin = time.Second
	// leaveWithin bounds the last deed of a replica; a process that stops has no more time for it.
	leaveWithin = 2 * time.Second
	// codeReleased is the registry's answer to a replica whose lease was given back in its name.
	codeReleased = "replica_released"
)

// enter takes a name and learns whom this process replaces on its folder. Without the roll it serves all
// the same; only what a crash leaves behind is then waited for until its lease is over.
func (w *Watcher) enter(ctx context.Context) {
	w.replica = w.Name()
	w.rejoin(ctx)
}

// rejoin writes the name into the roll; where the roll was not to be had, it is tried with each stream.
func (w *Watcher) rejoin(ctx context.Context) {
	if w.entered {
		return
	}
	gone, err := w.Roll.Enter(w.replica)
	if err != nil {
		w.Log.WarnContext(ctx, "who served from this folder before is not known", "error", err)
		return
	}
	w.gone, w.entered = gone, true
}

// clear gives the leases of dead predecessors back. What fails is tried again with the next renewal.
func (w *Watcher) clear(ctx context.Context) {
	if len(w.gone) == 0 {
		return
	}
	if err := w.release(ctx, w.gone); err != nil {
		if !w.told {
			w.Log.WarnContext(ctx, "the leases of earlier processes were not given back", "error", err, "replicas", len(w.gone))
		}
		w.told = true
		return
	}
	w.gone, w.told = nil, false
	if err := w.Roll.Keep(w.replica); err != nil {
		w.Log.WarnContext(ctx, "the roll of replicas was not written", "error", err)
	}
}

func (w *Watcher) release(ctx context.Context, replicaIDs []string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	_, err := w.Snapshots.Release(ctx, &registrypeerv1.ReleaseRequest{ReplicaIds: replicaIDs})
	return err
}

// expelled ends the lease and takes another name: the registry waits for the old one no more, because
// someone who has a copy of this folder took this process for dead.
func (w *Watcher) expelled(ctx context.Context) {
	w.Lease.lapse()
	w.entered = false
	w.enter(ctx)
}

// leave is the last deed: it ends the lease, sees the open calls end and only then gives the lease back.
// What fails is logged, and then made good by the next process on the folder, or by the end of the lease.
func (w *Watcher) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	err := ended(ctx, w.Lease.lapse())
	if err == nil {
		err = w.release(ctx, append(w.gone, w.replica))
	}
	if err == nil && w.entered {
		err = w.Roll.Keep()
	}
	if err != nil {
		w.Log.WarnContext(ctx, "the lease was not given back", "error", err)
	}
	if err := w.Roll.Close(); err != nil {
		w.Log.WarnContext(ctx, "the roll of replicas was not closed", "error", err)
	}
}

// ended waits for the end of cut calls.
func ended(ctx context.Context, gone []*call) error {
	for _, c := range gone {
		select {
		case <-c.over:
		case <-ctx.Done():
			return errUncut
		}
	}
	return nil
}
