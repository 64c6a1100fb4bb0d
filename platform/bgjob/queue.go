// Package bgjob owns the short, retriable background jobs of a service. It uses River in the schema of the service. A
// job is inserted in the transaction of the change that requires it, so neither exists without the other. A job may
// run more than once: workers must be idempotent, and must use the job's id as the idempotency key of their calls to
// other services.
package bgjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// Config configures a Client. Zero values mean the defaults.
type Config struct {
	Schema  string
	Workers *river.Workers // nil if this client only inserts jobs
	// MaxWorkers is the maximum number of jobs that run concurrently; the default is 8.
	MaxWorkers int
	Periodic   []*river.PeriodicJob
	// MaxAttempts is how often a failing job is attempted; the default is 20, which takes about an hour.
	MaxAttempts int
	// JobTimeout limits one attempt; the default is 1 minute.
	JobTimeout time.Duration
	// SoftStop is how long Run lets running jobs finish before it cancels them; the default is 1 s.
	SoftStop time.Duration
	// CallGrace is how long Run waits for pending database calls after SoftStop; the default is 1 s.
	CallGrace time.Duration
	Clock     clock.Clock // for the waits of this package; nil means the real clock, which River always uses
	Log       *slog.Logger
}

// Client inserts jobs. Its Run method executes them.
type Client struct {
	river *river.Client[pgx.Tx]
	works bool

	stop             *stop
	requestStop, end context.CancelFunc // these cancel stop.stopping and stop.expired
	grace            time.Duration      // time between the two cancellations
}

// New returns a Client that uses the pool of the schema. It starts nothing; Run must be called once.
func New(pool *pgxpool.Pool, cfg Config) (*Client, error) {
	rc := riverConfig(cfg)
	c := &Client{works: cfg.Workers != nil, grace: or(cfg.SoftStop, softStop) + or(cfg.CallGrace, callGrace)}
	c.stop = &stop{clock: cfg.Clock, log: cfg.Log}
	if c.stop.clock == nil {
		c.stop.clock = clock.Real()
	}
	c.stop.stopping, c.requestStop = context.WithCancel(context.Background())
	c.stop.expired, c.end = context.WithCancel(context.Background())
	var err error
	c.river, err = river.NewClient(&driver{Driver: riverpgxv5.New(pool), stop: c.stop}, rc)
	if err != nil {
		return nil, fmt.Errorf("create the queue of schema %s: %w", cfg.Schema, err)
	}
	return c, nil
}

const (
	softStop  = time.Second
	callGrace = time.Second
)

func riverConfig(cfg Config) *river.Config {
	timeout := or(cfg.JobTimeout, time.Minute)
	rc := &river.Config{
		Schema: cfg.Schema,
		// Reindexing requires the role that owns the schema, so the migrate command does it.
		ReindexerIndexNames: []string{},
		MaxAttempts:         or(cfg.MaxAttempts, 20),
		JobTimeout:          timeout,
		// Jobs of a killed process run again after their timeout has certainly passed.
		RescueStuckJobsAfter: timeout + 30*time.Second,
		SoftStopTimeout:      or(cfg.SoftStop, softStop),
		RetryPolicy:          retries{process.Backoff{Min: time.Second, Max: 5 * time.Minute, Jitter: 0.2}},
		ErrorHandler:         &failures{log: cfg.Log},
		Logger:               slog.New(quiet{cfg.Log.Handler()}),
		PeriodicJobs:         cfg.Periodic,
		// The retention worker of the service deletes finished jobs, see DeleteBefore.
		CompletedJobRetentionPeriod: -1, CancelledJobRetentionPeriod: -1, DiscardedJobRetentionPeriod: -1,
	}
	if cfg.Workers != nil {
		rc.Workers = cfg.Workers
		rc.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: or(cfg.MaxWorkers, 8)}}
	}
	return rc
}

// InsertTx inserts a job in tx. The job runs only after tx has committed.
func (c *Client) InsertTx(ctx context.Context, tx pgx.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	res, err := c.river.InsertTx(ctx, tx, args, opts)
	if err != nil {
		return nil, fmt.Errorf("insert a job of kind %s: %w", args.Kind(), err)
	}
	return res, nil
}

// Run executes jobs until ctx is done and returns when no job is running. It waits for the database when it starts,
// but not when it stops.
func (c *Client) Run(ctx context.Context) error {
	if !c.works {
		<-ctx.Done()
		return nil
	}
	defer c.watch(ctx)()
	if started, err := c.start(ctx); !started {
		return err
	}
	<-c.river.Stopped()
	if ctx.Err() == nil {
		return errors.New("the queue stopped unexpectedly")
	}
	return nil
}

// watch cancels c.stop.stopping when ctx is done, and c.stop.expired when the grace period has passed. The returned
// function cancels both and waits until the goroutine of watch has ended.
func (c *Client) watch(ctx context.Context) func() {
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		defer c.end()
		select {
		case <-ctx.Done():
		case <-done:
		}
		c.requestStop()
		timer := c.stop.clock.NewTimer(c.grace)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-done:
		}
	})
	return func() {
		close(done)
		watch.Wait()
	}
}

// start starts River. It retries while the database is unreachable, until ctx is done.
func (c *Client) start(ctx context.Context) (started bool, err error) {
	pause := process.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.2}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		err := c.river.Start(ctx)
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			break
		}
		if !fault.Is(pg.Classify(err), fault.Unavailable) {
			return false, fmt.Errorf("start the queue: %w", err)
		}
		c.stop.log.WarnContext(ctx, "could not start the queue; retrying", "attempt", attempt+1, "error", err.Error())
		_ = pause.Wait(ctx, c.stop.clock, attempt) // fails only if ctx is done, which the loop checks
	}
	return false, ctx.Err()
}

// River returns the underlying client, for features that this package lacks, such as events or reading a job.
func (c *Client) River() *river.Client[pgx.Tx] { return c.river }

// retries computes the time of the next attempt. It uses the real clock, as River does.
type retries struct{ backoff process.Backoff }

// NextRetry implements river.ClientRetryPolicy.
func (r retries) NextRetry(job *rivertype.JobRow) time.Time {
	return clock.Real().Now().Add(r.backoff.Delay(len(job.Errors)))
}

// failures logs each failed attempt once. The last attempt is logged as an error, because no retry follows.
type failures struct{ log *slog.Logger }

// HandleError implements river.ErrorHandler.
func (f *failures) HandleError(ctx context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	level := slog.LevelWarn
	if job.Attempt >= job.MaxAttempts {
		level = slog.LevelError
	}
	f.log.Log(ctx, level, "job failed", "job_kind", job.Kind, "job_id", job.ID, "attempt", job.Attempt, "max_attempts", job.MaxAttempts, "error", err.Error())
	return nil
}

// HandlePanic implements river.ErrorHandler. River has already logged the panic with its stack.
func (f *failures) HandlePanic(context.Context, *rivertype.JobRow, any, string) *river.ErrorHandlerResult {
	return nil
}

// quiet drops River's own log lines below warnings.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}
