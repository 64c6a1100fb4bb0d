package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// stableTime is how long a server must have run for the next restart to be fast again.
const stableTime = time.Minute

// countRestarts registers the counter of restarts; meters may be nil.
func countRestarts(meters metric.MeterProvider) (metric.Int64Counter, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	const name = "postgres_restarts_total"
	counter, err := meters.Meter("pg").Int64Counter(name, metric.WithDescription("restarts of the bundled Postgres server after it had died"))
	if err != nil {
		return nil, fmt.Errorf("create the counter %s: %w", name, err)
	}
	return counter, nil
}

func restartBackoff() clock.Backoff {
	return clock.Backoff{Base: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: rand.Float64}
}

// Run starts the server again each time it dies, on the same port, until ctx is done. It then stops the server. The
// pause before a restart grows while the server keeps dying. Run returns an error if the server could not be started
// for two minutes.
func (s *Server) Run(ctx context.Context) error {
	for try := 0; ; try++ {
		began := clock.Real().Now()
		select {
		case <-ctx.Done():
			return s.Stop(context.WithoutCancel(ctx))
		case <-s.Exited():
		}
		if clock.Since(clock.Real(), began) > stableTime {
			try = 0
		}
		err := s.restart(ctx, try)
		if err != nil && ctx.Err() == nil {
			return errors.Join(err, unlock(s.lock))
		}
	}
}

// restart tries to start the server until that succeeds, ctx is done or the time limit has passed.
func (s *Server) restart(ctx context.Context, try int) error {
	cause := s.current().failure()
	s.log.ErrorContext(ctx, "postgres exited unexpectedly; starting it again", "error", cause.Error())
	limited, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	failed := cause
	for ; ; try++ {
		if wait(limited, restartBackoff().Wait(try)) != nil {
			return fmt.Errorf("postgres exited unexpectedly (%w) and could not be started again within %v: %w", cause, s.limit, failed)
		}
		next, err := s.relaunch(limited)
		if err == nil {
			s.mu.Lock()
			s.process = next
			s.mu.Unlock()
			s.restarts.Add(ctx, 1)
			s.log.InfoContext(ctx, "postgres runs again", "pid", s.PID())
			return nil
		}
		if limited.Err() == nil {
			failed = err // an attempt that the time limit cuts off does not show the cause
		}
		s.log.WarnContext(ctx, "could not start postgres again; retrying later", "error", err.Error())
	}
}

// relaunch starts the server once. Its port never changes, because clients have it in their URLs.
func (s *Server) relaunch(ctx context.Context) (*process, error) {
	if err := endOld(ctx, s.cluster.data); err != nil {
		return nil, err
	}
	return s.cluster.launch(ctx, s.port, s.AdminURL())
}
