package registry

import (
	"context"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const (
	// tryAgain is the pause before the wake-up listener or the leader retries.
	tryAgain = time.Second
	// electEvery is the interval at which the other replicas try to replace a leader that has stopped.
	electEvery = 2 * time.Second
	sweepEvery = time.Hour
)

// Workers returns the registry's background loops. Every replica runs all of them, but only the leader watches
// engines, so that an older state never overwrites a newer one.
func (s *Service) Workers() []process.Worker {
	d := s.deps
	loop := func(name string, every time.Duration, fn func(context.Context) error) process.Worker {
		return process.Worker{Name: name, Run: func(ctx context.Context) error {
			return process.Loop(ctx, d.Clock, every, every/4, process.Logged(d.Log, name, fn))
		}}
	}
	elector := &pg.LeaderElector{Pool: d.Pool, Clock: d.Clock, Name: "registry.engines", Every: electEvery}
	return []process.Worker{
		{Name: "registry.catalog", Run: s.seeder.Run},
		loop("registry.wake", tryAgain, func(ctx context.Context) error { return s.hub.Listen(ctx, d.Pool) }),
		loop("registry.engines", tryAgain, func(ctx context.Context) error { return elector.Run(ctx, s.watcher.Run) }),
		loop("registry.playground", tryAgain, s.tries.Expire),
		loop("registry.replicas", sweepEvery, s.ledger.Sweep),
		{Name: "registry.queue", Run: s.queue.Run},
	}
}
