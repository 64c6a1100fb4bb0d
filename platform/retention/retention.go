// Package retention deletes rows that have reached their age. Each service has one worker, with a rule for each kind of
// row; the age of every rule is a setting.
//
// It promises:
//   - rows are deleted in bounded steps, each with a deadline, so that no deletion holds locks for long;
//   - a rule that fails does not stop the others, and is tried again in the next pass;
//   - what a pass has deleted is in one log line and in the counter retention_deleted_total.
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
	"github.com/signalbox-dev/signalbox/platform/process"
)

const (
	// stepRows is the largest number of rows that one step deletes.
	stepRows = 1000
	// stepWithin limits the time of one step.
	stepWithin = 30 * time.Second
	// stepPause lets other transactions run between two steps.
	stepPause = 20 * time.Millisecond
	// every and jitter are the time between two passes.
	every, jitter = time.Hour, 10 * time.Minute
)

// Rule deletes one kind of row.
type Rule struct {
	// Name is the kind of row, as the log and the counter name it.
	Name string
	// Age is how long a row is kept. Zero keeps all rows.
	Age time.Duration
	// Step deletes at most limit rows that are older than before, and returns their number. It is called again until it
	// returns 0.
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

// Run makes a pass about every hour until ctx is done.
func (w *Worker) Run(ctx context.Context) error {
	return process.Loop(ctx, w.clock, every, jitter, process.Logged(w.log, "retention", w.RunOnce))
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
