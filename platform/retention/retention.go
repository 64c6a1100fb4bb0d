// Package retention deletes rows that have reached their age. Each service has one worker, with a rule for each kind of
// row; the age of every rule is a setting.
//
// It promises:
//   - rows are deleted in bounded steps, each with a deadline, so that no deletion holds locks for long;
//   - a rule that fails does not stop the others, and is tried again in the next pass;
//   - the log and the counter retention_deleted_total contain how many rows each rule has deleted.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const (
	// stepRows is the largest number of rows that one step deletes.
	stepRows = 1000
	// stepWithin limits the time of one step.
	stepWithin = 30 * time.Second
	// stepPause lets other transactions run between two steps.
	stepPause = 20 * time.Millisecond
	// every is the longest time between two passes, and soonest is the shortest.
	every, soonest = time.Hour, time.Second
	// passesPerAge is the minimum number of passes in the time of the shortest age.
	passesPerAge = 20
)

// Days returns the duration of n days. n may be a fraction.
func Days(n float64) time.Duration { return time.Duration(n * 24 * float64(time.Hour)) }

// maxDays is the largest age that a setting may have, a hundred years.
const maxDays = 36_500

// CheckDays returns an error unless n is a valid age: at least 0, at most a hundred years.
func CheckDays(setting string, n float64) error {
	if n >= 0 && n <= maxDays {
		return nil
	}
	return conf.Errorf(setting, "must be between 0 and %d days", maxDays)
}

// Rule deletes one kind of row.
type Rule struct {
	// Name is the kind of row, as the log and the counter name it.
	Name string
	// Age is how long a row is kept. Zero keeps all rows.
	Age time.Duration
	// Least is the shortest safe age, or 0 if every age is safe. Run logs a warning if Age is shorter.
	Least time.Duration
	// Step deletes rows that are older than the given time, up to the given limit, and returns their number. It is
	// called again until it returns 0.
	Step func(ctx context.Context, before time.Time, limit int) (int64, error)
}

// Worker applies the rules of one service.
type Worker struct {
	clock   clock.Clock
	log     *slog.Logger
	deleted metric.Int64Counter
	rules   []Rule
}

// New returns a Worker that runs when Run is called; meters may be nil.
func New(clk clock.Clock, log *slog.Logger, meters metric.MeterProvider, rules ...Rule) (*Worker, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	deleted, err := meters.Meter("retention").Int64Counter("retention_deleted_total",
		metric.WithDescription("rows deleted because they reached their age, by kind"))
	if err != nil {
		return nil, fmt.Errorf("create the counter retention_deleted_total: %w", err)
	}
	return &Worker{clock: clk, log: log, deleted: deleted, rules: rules}, nil
}

// Run makes a pass about every hour, more often if an age is shorter than a day, until ctx is done.
func (w *Worker) Run(ctx context.Context) error {
	for _, r := range w.rules {
		if r.Age > 0 && r.Age < r.Least {
			w.log.WarnContext(ctx, "the configured age is short and for tests only: data that is still being stored may be deleted", "kind", r.Name, "age", r.Age.String(),
				"at_least", r.Least.String())
		}
	}
	pause := w.pause()
	return process.Loop(ctx, w.clock, pause, pause/6, process.Logged(w.log, "retention", w.RunOnce))
}

func (w *Worker) pause() time.Duration {
	pause := every
	for _, r := range w.rules {
		if r.Age > 0 {
			pause = min(pause, r.Age/passesPerAge)
		}
	}
	return max(pause, soonest)
}

// RunOnce deletes all rows that have reached their age.
func (w *Worker) RunOnce(ctx context.Context) error {
	var failed []error
	for _, r := range w.rules {
		if r.Age <= 0 {
			continue
		}
		before := w.clock.Now().Add(-r.Age)
		total, err := w.apply(ctx, r, before)
		if total > 0 {
			w.deleted.Add(ctx, total, metric.WithAttributes(attribute.String("kind", r.Name)))
			w.log.InfoContext(ctx, "deleted rows that reached their age", "kind", r.Name, "rows", total, "before", before)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("delete old rows of %s: %w", r.Name, err))
		}
	}
	return errors.Join(failed...)
}

func (w *Worker) apply(ctx context.Context, r Rule, before time.Time) (total int64, err error) {
	for {
		n, err := step(ctx, r, before)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
		if err := clock.Sleep(ctx, w.clock, stepPause); err != nil {
			return total, err
		}
	}
}

func step(ctx context.Context, r Rule, before time.Time) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, stepWithin)
	defer cancel()
	return r.Step(ctx, before, stepRows)
}
