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
	// LastWords is how long Run waits after that for a database that does not answer: 1 s.
	LastWords time.Duration
	Clock     clock.Clock // of these waits, the real one where nil; River reads its own
	Log       *slog.Logger
}

// Client inserts jobs and, by Run, works them.
type Client struct {
	river *river.Client[pgx.Tx]
	works bool

	stop     *stop
	ask, end context.CancelFunc // end stop.asked and stop.over
	grace    time.Duration      // from the one to the other
}

// New makes a client over the pool of the schema. Nothing starts before Run, which is called once.
func New(pool *pgxpool.Pool, cfg Config) (*Client, error) {
	rc := riverConfig(cfg)
	c := &Client{works: cfg.Workers != nil, grace: or(cfg.SoftStop, softStop) + or(cfg.LastWords, lastWords)}
	c.stop = &stop{clock: cfg.Clock, log: cfg.Log}
	if c.stop.clock == nil {
		c.stop.clock = clock.Real()
	}
	c.stop.asked, c.ask = context.WithCancel(context.Background())
	c.stop.over, c.end = context.WithCancel(context.Background())
	var err error
	c.river, err = river.NewClient(&driver{Driver: riverpgxv5.New(pool), stop: c.stop}, rc)
	if err != nil {
		return nil, fmt.Errorf("make the queue of %s: %w", cfg.Schema, err)
	}
	return c, nil
}

const (
	softStop  = time.Second
	lastWords = time.Second
)

func riverConfig(cfg Config) *river.Config {
	timeout := or(cfg.JobTimeout, time.Minute)
	rc := &river.Config{
		Schema: cfg.Schema,
		// Reindexing needs the owner's role; the migrate command does it.
		ReindexerIndexNames: []string{},
		MaxAttempts:         or(cfg.MaxAttempts, 20),
		JobTimeout:          timeout,
		// What a killed process was at is tried again as soon as it surely is not.
		RescueStuckJobsAfter: timeout + 30*time.Second,
		SoftStopTimeout:      or(cfg.SoftStop, softStop),
		RetryPolicy:          retries{run.Backoff{Min: time.Second, Max: 5 * time.Minute, Jitter: 0.2}},
		ErrorHandler:         &failures{log: cfg.Log},
		Logger:               slog.New(quiet{cfg.Log.Handler()}),
		PeriodicJobs:         cfg.Periodic,
	}
	if cfg.Workers != nil {
		rc.Workers = cfg.Workers
		rc.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: or(cfg.MaxWorkers, 8)}}
	}
	return rc
}

// InsertTx adds a job in tx. It runs after the commit, or never.
func (c *Client) InsertTx(ctx context.Context, tx pgx.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	res, err := c.river.InsertTx(ctx, tx, args, opts)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", args.Kind(), err)
	}
	return res, nil
}

// Run works jobs until ctx is over, and answers when none runs any more. A database that is away at
// the start is waited for; one that is away at the end is not.
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
		return errors.New("the queue ended by itself")
	}
	return nil
}

// watch tells the calls to the database of the end of ctx, and when nothing is waited for any more.
// The function that it answers ends the watch and waits for it.
func (c *Client) watch(ctx context.Context) func() {
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		defer c.end()
		select {
		case <-ctx.Done():
		case <-done:
		}
		c.ask()
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

// start starts River, again and again while the database is out of reach, until ctx ends.
func (c *Client) start(ctx context.Context) (started bool, err error) {
	pause := run.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second, Jitter: 0.2}
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
		c.stop.log.WarnContext(ctx, "the queue cannot start yet", "attempt", attempt+1, "error", err.Error())
		_ = pause.Wait(ctx, c.stop.clock, attempt) // its error is the end of ctx, which the loop sees
	}
	return false, ctx.Err()
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
