package routing

import (
	"context"
	"time"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
)

const (
	// releaseWithin limits the time of one request that releases leases.
	releaseWithin = time.Second
	// leaveWithin limits the time of leave, because the process is stopping.
	leaveWithin = 2 * time.Second
	// codeReleased is the code of the registry's error if another process has released this replica's lease.
	codeReleased = "replica_released"
)

// enter takes a new replica id and reads from the replica file which earlier replicas this process replaces. If the
// file is unavailable, the replica serves nevertheless. The registry then waits until the lease of a crashed
// predecessor expires.
func (w *Watcher) enter(ctx context.Context) {
	w.replica = w.Name()
	w.rejoin(ctx)
}

// rejoin adds the replica id to the replica file, unless it is already there. If that fails, Run calls rejoin again
// before the next stream.
func (w *Watcher) rejoin(ctx context.Context) {
	if w.entered {
		return
	}
	gone, err := w.Roll.Enter(w.replica)
	if err != nil {
		w.Log.WarnContext(ctx, "cannot read the list of earlier replicas", "error", err)
		return
	}
	w.gone, w.entered = gone, true
}

// clear releases the leases of predecessors that have ended. If that fails, clear is called again with the next
// renewal. Only the first failure is logged.
func (w *Watcher) clear(ctx context.Context) {
	if len(w.gone) == 0 {
		return
	}
	if err := w.release(ctx, w.gone); err != nil {
		if !w.warned {
			w.Log.WarnContext(ctx, "cannot release the leases of earlier replicas", "error", err, "replicas", len(w.gone))
		}
		w.warned = true
		return
	}
	w.gone, w.warned = nil, false
	if err := w.Roll.Keep(w.replica); err != nil {
		w.Log.WarnContext(ctx, "cannot write the list of replicas", "error", err)
	}
}

func (w *Watcher) release(ctx context.Context, replicaIDs []string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseWithin)
	defer cancel()
	_, err := w.Snapshots.Release(ctx, &registrypeerv1.ReleaseRequest{ReplicaIds: replicaIDs})
	return err
}

// expelled ends the lease and takes a new replica id. It is called when a process with a copy of this folder has
// released this replica's lease. The registry then no longer waits for the old id.
func (w *Watcher) expelled(ctx context.Context) {
	w.Lease.lapse()
	w.entered = false
	w.enter(ctx)
}

// leave makes this replica stop serving, waits until the open calls have ended, and then releases the lease at the
// registry. A failure is only logged. In that case, the next process that uses the folder releases the lease, or the
// lease expires.
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
		w.Log.WarnContext(ctx, "cannot release the lease", "error", err)
	}
	if err := w.Roll.Close(); err != nil {
		w.Log.WarnContext(ctx, "cannot close the list of replicas", "error", err)
	}
}

// ended waits until the cut calls have ended. It returns errUncut if ctx ends first.
func ended(ctx context.Context, gone []<-chan struct{}) error {
	for _, over := range gone {
		select {
		case <-over:
		case <-ctx.Done():
			return errUncut
		}
	}
	return nil
}
