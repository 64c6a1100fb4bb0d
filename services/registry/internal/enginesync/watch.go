package enginesync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// Watcher updates revisions to the states that the jobs service reports for their engines.
type Watcher struct {
	Works   jobspeerv1.WorkPeerServiceClient
	Changer *deployment.Changer
	Orderer *Orderer
	Clock   clock.Clock
	Log     *slog.Logger
}

const (
	firstPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
)

// Run watches until ctx ends and reopens a stream that breaks.
func (w *Watcher) Run(ctx context.Context) error {
	backoff := process.Backoff{Min: firstPause, Max: mostPause, Jitter: 0.5}
	for try := 0; ; try++ {
		synced, err := w.once(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if synced {
			try = 0
		}
		w.Log.WarnContext(ctx, "engine watch stream failed; reopening it", "error", err)
		if err := backoff.Wait(ctx, w.Clock, try); err != nil {
			return err
		}
	}
}

// once reads one stream until it fails. The result synced reports whether the stream delivered the state of all works.
func (w *Watcher) once(ctx context.Context) (synced bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := w.Works.WatchWorks(ctx, &jobspeerv1.WatchWorksRequest{})
	if err != nil {
		return false, fmt.Errorf("open the stream: %w", err)
	}
	known := map[string]int64{}
	for {
		status, err := stream.Recv()
		if err != nil {
			return synced, fmt.Errorf("receive from the stream: %w", err)
		}
		if status.GetSynced() {
			synced = true
			if err := w.reconcile(ctx, known); err != nil {
				return synced, err
			}
			continue
		}
		if !synced {
			known[status.GetWorkId()] = status.GetGeneration()
		}
		if err := w.observe(ctx, status); err != nil {
			return synced, err
		}
	}
}

func (w *Watcher) observe(ctx context.Context, status *jobspeerv1.WorkStatus) error {
	o := observationFromProto(status)
	wanted, err := w.Changer.Observe(ctx, o)
	if err != nil {
		return fmt.Errorf("apply the status of work %s: %w", o.WorkID, err)
	}
	if wanted || o.Phase == revision.PhaseGone {
		return nil
	}
	return w.Orderer.drop(ctx, o.WorkID, o.Generation)
}

// reconcile repeats the orders of wanted works that are unknown to the jobs service or known to it in an older
// generation.
func (w *Watcher) reconcile(ctx context.Context, known map[string]int64) error {
	revisions, err := w.Changer.Revisions.Wanted(ctx, w.Changer.Pool)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range revisions {
		if generation, ok := known[r.WorkID]; !ok || generation < r.Generation {
			errs = append(errs, w.Orderer.put(ctx, r))
		}
	}
	return errors.Join(errs...)
}
