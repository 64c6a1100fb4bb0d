// Package queue runs the short, retriable work of a service over River, in the
// service's own schema. A job is inserted in the transaction of the change that
// wants it, so there is no change without its job and no job without its change.
// Work may run more than once: workers make their effects repeatable, with the
// job's id as the key towards other services.
package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/run"
)

// Config says what a client works on. Zero values mean the defaults named below.
type Config struct {
	Schema  string
	Workers *river.Workers // nil: this client only inserts
	// MaxWorkers is how many jobs of the default queue run at once: 8.
	MaxWorkers int
	Periodic   []*river.PeriodicJob
	// MaxAttempts is how often a failing job is tried: 20, over about an hour.
	MaxAttempts int
	// JobTimeout bounds one try: 1 minute.
	JobTimeout time.Duration
	// SoftStop is how long Run lets running jobs finish before it cancels them: 1 s.
	SoftStop time.Duration
	Log      *slog.Logger
}

// Client inserts jobs and, by Run, works them.
type Client struct {
	river *river.Client[pgx.Tx]
	works bool
}

// New makes a client over the pool of the schema. Nothing starts before Run.
func New(pool *pgxpool.Pool, cfg Config) (*Client, error) {
	timeout := or(cfg.JobTimeout, time.Minute)
	rc := &river.Config{
		Schema: cfg.Schema,
		// Reindexing needs the owner's role; the migrate command does it.
		ReindexerIndexNames: []string{},
		MaxAttempts:         or(cfg.MaxAttempts, 20),
		JobTimeout:          timeout,
		// What a killed process was at is tried again as soon as it surely is not.
		RescueStuckJobsAfter: timeout + 30*time.Second,
		SoftStopTimeout:      or(cfg.SoftStop, time.Second),
		RetryPolicy:          retries{run.Backoff{Min: time.Second, Max: 5 * time.Minute, Jitter: 0.2}},
		ErrorHandler:         &failures{log: cfg.Log},
		Logger:               slog.New(quiet{cfg.Log.Handler()}),
		PeriodicJobs:         cfg.Periodic,
	}
	if cfg.Workers != nil {
		rc.Workers = cfg.Workers
		rc.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: or(cfg.MaxWorkers, 8)}}
	}
	client, err := river.NewClient(riverpgxv5.New(pool), rc)
	if err != nil {
		return nil, fmt.Errorf("make the queue of %s: %w", cfg.Schema, err)
	}
	return &Client{river: client, works: cfg.Workers != nil}, nil
}

// InsertTx adds a job in tx. It runs after the commit, or never.
func (c *Client) InsertTx(ctx context.Context, tx pgx.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	res, err := c.river.InsertTx(ctx, tx, args, opts)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", args.Kind(), err)
	}
	return res, nil
}

// Run works jobs until ctx is over, and answers when none runs any more.
func (c *Client) Run(ctx context.Context) error {
	if !c.works {
		<-ctx.Done()
		return nil
	}
	if err := c.river.Start(ctx); err != nil {
		return fmt.Errorf("start the queue: %w", err)
	}
	<-c.river.Stopped()
	if ctx.Err() == nil {
		return errors.New("the queue ended by itself")
	}
	return nil
}

// River is the client itself, for what this package has no words for: its
// periodic jobs, its events, looking at a job.
func (c *Client) River() *river.Client[pgx.Tx] { return c.river }

// retries spaces the tries of a job, by the clock that River itself reads.
type retries struct{ backoff run.Backoff }

// NextRetry implements river.ClientRetryPolicy.
func (r retries) NextRetry(job *rivertype.JobRow) time.Time {
	return clock.Real().Now().Add(r.backoff.Delay(len(job.Errors)))
}

// failures logs each failed try once; the last one as an error, because after it
// nobody tries again.
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

// HandlePanic implements river.ErrorHandler. River has logged it, with the stack.
func (f *failures) HandlePanic(context.Context, *rivertype.JobRow, any, string) *river.ErrorHandlerResult {
	return nil
}

// quiet passes what River itself says from warnings up.
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
