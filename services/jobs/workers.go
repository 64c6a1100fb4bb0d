package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/lead"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/topic"
)

const (
	// beatEvery is how long heartbeats are collected before they are stored together.
	beatEvery = time.Second
	// listenAgain is the pause before the wake-up listener or the leader tries again.
	listenAgain = time.Second
	// electEvery is how soon another replica leads after the leader is gone.
	electEvery = 2 * time.Second
	// sooner is the least pause between two looks of the leader, however often it is woken.
	sooner = 20 * time.Millisecond
)

// Workers are the service's loops. Every replica runs all of them; one leads.
func (s *Service) Workers() []run.Worker {
	d := s.deps
	loop := func(name string, every time.Duration, fn func(context.Context) error) run.Worker {
		return run.Worker{Name: name, Run: func(ctx context.Context) error {
			return run.Loop(ctx, d.Clock, every, every/4, run.Logged(d.Log, name, fn))
		}}
	}
	elector := &lead.Elector{Pool: d.Pool, Clock: d.Clock, Name: "jobs.scheduler", Every: electEvery}
	return []run.Worker{
		loop("jobs.wake", listenAgain, func(ctx context.Context) error { return s.hub.Listen(ctx, d.Pool) }),
		loop("jobs.heartbeats", beatEvery, s.keeper.Flush),
		loop("jobs.leader", listenAgain, func(ctx context.Context) error { return elector.Run(ctx, s.lead) }),
		{Name: "jobs.hardware", Run: s.hardware.Run},
		{Name: "jobs.queue", Run: s.queue.Run},
		{Name: "jobs.idempotency", Run: func(ctx context.Context) error { return s.keys.Run(ctx, d.Pool, d.Log) }},
	}
}

// lead looks at all that waits and all that is due, whenever something changed and from time to time,
// for as long as this replica leads.
func (s *Service) lead(ctx context.Context) error {
	since := s.deps.Clock.Now()
	changed := s.hub.Wait(topic.Queue)
	defer changed.Close()
	reconciled := run.Logged(s.deps.Log, "jobs.reconciler", func(ctx context.Context) error {
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

// schedule makes one pass and answers how long the next may wait.
func (s *Service) schedule(ctx context.Context) time.Duration {
	pause := s.cfg.SchedulerInterval
	pass := run.Logged(s.deps.Log, "jobs.scheduler", func(ctx context.Context) error {
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
	_ = pass(ctx) // Logged answers nil
	return pause
}
