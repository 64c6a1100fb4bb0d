package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

const (
	// beatEvery is how long heartbeats are collected before they are stored in one batch.
	beatEvery = time.Second
	// listenAgain is the pause before the wake-up listener or the leader loop is retried.
	listenAgain = time.Second
	// electEvery is the interval at which a replica tries to become the leader.
	electEvery = 2 * time.Second
	// copyEvery is the interval at which labels are copied to runs. It is long, because only a replica of a version
	// before the column run.labels leaves runs without labels.
	copyEvery = time.Hour
	// summarizeEvery is the pause between two passes that copy the hyperparameters and metrics of runs.
	summarizeEvery = 5 * time.Second
	// refreshEvery is the pause between two passes that copy the new metrics of running runs. A pass over very many runs is followed by
	// a pause that is refreshRest times as long as it took, so that the passes take at most a third of the time.
	refreshEvery = time.Second
	refreshRest  = 2
	// silentEvery is the pause between two searches for runs without a job that are silent for too long.
	silentEvery = 10 * time.Second
	// sooner is the shortest pause between two passes of the leader, even if it receives many notifications.
	sooner = 20 * time.Millisecond
)

// Workers returns the service's loops. Every replica runs all of them; only the leader schedules and reconciles.
func (s *Service) Workers() []process.Worker {
	d := s.deps
	loop := func(name string, every time.Duration, fn func(context.Context) error) process.Worker {
		return process.Worker{Name: name, Run: func(ctx context.Context) error {
			return process.Loop(ctx, d.Clock, every, every/4, process.Logged(d.Log, name, fn))
		}}
	}
	elector := &pg.LeaderElector{Pool: d.Pool, Clock: d.Clock, Name: "jobs.scheduler", Every: electEvery}
	return []process.Worker{
		loop("jobs.wake", listenAgain, func(ctx context.Context) error { return s.hub.Listen(ctx, d.Pool) }),
		loop("jobs.heartbeats", beatEvery, s.liveness.Flush),
		loop("jobs.leader", listenAgain, func(ctx context.Context) error { return elector.Run(ctx, s.leadAndRefresh) }),
		loop("jobs.labels", copyEvery, func(ctx context.Context) error { return db.CopyRunLabels(ctx, d.Pool) }),
		loop("jobs.silence", silentEvery, s.endSilent),
		loop("jobs.summaries", summarizeEvery, s.copier.RunOnce),
		{Name: "jobs.tables", Run: s.jobTables.Run},
		{Name: "jobs.runtables", Run: s.runTables.Run},
		{Name: "jobs.hardware", Run: s.hardware.Run},
		{Name: "jobs.queue", Run: s.queue.Run},
	}
}

// endSilent ends runs without a job that are silent for too long. The time before the start of this replica does not
// count, because there may have been no replica that heard the reports.
func (s *Service) endSilent(ctx context.Context) error {
	now, err := pg.Now(ctx, s.deps.Pool)
	if err != nil {
		return err
	}
	return s.outside.EndSilent(ctx, now.Add(-s.age()))
}

// leadAndRefresh reconciles and schedules, and copies the new metrics of running runs beside that, while this replica is the leader.
func (s *Service) leadAndRefresh(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var refreshes sync.WaitGroup
	refreshes.Go(func() {
		refresh := process.Logged(s.deps.Log, "jobs.refresh", s.copier.Refresh)
		_ = process.Loop(ctx, s.deps.Clock, refreshEvery, refreshEvery/8, func(ctx context.Context) error {
			began := s.deps.Clock.Now()
			_ = refresh(ctx) // Logged returns nil
			took := s.deps.Clock.Now().Sub(began)
			return clock.Sleep(ctx, s.deps.Clock, max(0, refreshRest*took-refreshEvery))
		})
	})
	defer refreshes.Wait()
	defer cancel()
	return s.lead(ctx)
}

// lead reconciles and schedules while this replica is the leader: on every change of the queue, and at least once per
// scheduler interval.
func (s *Service) lead(ctx context.Context) error {
	since := s.deps.Clock.Now()
	changed := s.hub.Wait(db.QueueTopic)
	defer changed.Close()
	reconciled := process.Logged(s.deps.Log, "jobs.reconciler", func(ctx context.Context) error {
		return errors.Join(s.reconcile.RunOnce(ctx, since), s.orders.RunOnce(ctx))
	})
	for {
		if err := reconciled(ctx); err != nil {
			return err
		}
		pause := s.schedule(ctx)
		timer := s.deps.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-changed.C:
		case <-timer.C():
		}
		timer.Stop()
		if err := clock.Sleep(ctx, s.deps.Clock, sooner); err != nil {
			return context.Cause(ctx)
		}
	}
}

// schedule makes one scheduler pass and returns the pause before the next one.
func (s *Service) schedule(ctx context.Context) time.Duration {
	pause := s.cfg.SchedulerInterval
	pass := process.Logged(s.deps.Log, "jobs.scheduler", func(ctx context.Context) error {
		next, err := s.scheduler.RunOnce(ctx)
		if err != nil || next.IsZero() {
			return err
		}
		now, err := pg.Now(ctx, s.deps.Pool)
		if err != nil {
			return err
		}
		pause = min(pause, max(sooner, next.Sub(now)))
		return nil
	})
	_ = pass(ctx) // Logged logs the error and returns nil
	return pause
}
