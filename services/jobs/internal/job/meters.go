package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Meters counts what happens to jobs on this replica, after the commit of each change.
type Meters struct {
	ended metric.Int64Counter
	waits metric.Float64Histogram
}

// NewMeters registers the metrics of jobs: jobs_ended_total has the jobs that ended, by final state and reason, and
// jobs_queue_wait_seconds how long jobs waited for their placement, by pool. meters may be nil.
func NewMeters(ctx context.Context, meters metric.MeterProvider) (*Meters, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	m := meters.Meter("jobs")
	ended, endedErr := m.Int64Counter("jobs_ended_total", metric.WithDescription("jobs that ended, by final state and reason"))
	waits, waitsErr := m.Float64Histogram("jobs_queue_wait_seconds",
		metric.WithDescription("time that jobs were in the queue before they got their nodes, by pool"),
		metric.WithExplicitBucketBoundaries(1, 5, 15, 60, 300, 900, 3600, 4*3600, 12*3600, 24*3600, 72*3600))
	if err := errors.Join(endedErr, waitsErr); err != nil {
		return nil, fmt.Errorf("create the metrics of jobs: %w", err)
	}
	// Without a first sample of 0, increase() in an alert would not see the first end for a reason after a start.
	for reason, end := range EndReasons() {
		ended.Add(ctx, 0, endedAs(end.State, reason))
	}
	return &Meters{ended: ended, waits: waits}, nil
}

// endedAs returns the labels of a job that ended.
func endedAs(state State, reason string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("state", string(state)), attribute.String("reason", reason))
}

// End counts a job that has ended. A nil Meters counts nothing.
func (m *Meters) End(ctx context.Context, j *Job) {
	if m != nil {
		m.ended.Add(ctx, 1, endedAs(j.State, j.EndReason))
	}
}

// Place records how long a job waited until it was placed in these pools. A nil Meters records nothing.
func (m *Meters) Place(ctx context.Context, pools []Pool, wait time.Duration) {
	if m == nil {
		return
	}
	seen := map[string]bool{}
	for _, p := range pools {
		if !seen[p.Pool] {
			m.waits.Record(ctx, wait.Seconds(), metric.WithAttributes(attribute.String("pool", p.Pool)))
		}
		seen[p.Pool] = true
	}
}
