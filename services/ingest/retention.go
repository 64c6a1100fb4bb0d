package ingest

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

const (
	// A pass of the retention deletes retentionRows rows in one statement, within retentionTimeout, and then lets other
	// transactions run for retentionPause.
	retentionRows    = 1000
	retentionTimeout = 30 * time.Second
	retentionPause   = 20 * time.Millisecond
	// The time between two passes.
	retentionEvery, retentionJitter = time.Hour, 10 * time.Minute
)

// retention deletes the digests of requests that have reached their age.
type retention struct {
	deps    Deps
	age     time.Duration // zero keeps all digests
	deleted metric.Int64Counter
	kind    metric.MeasurementOption
}

func newRetention(d Deps, age time.Duration) (*retention, error) {
	meters := d.Meter
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	deleted, err := meters.Meter("retention").Int64Counter("retention_deleted_total",
		metric.WithDescription("rows deleted because they reached their age, by kind"))
	if err != nil {
		return nil, fmt.Errorf("create the counter retention_deleted_total: %w", err)
	}
	return &retention{deps: d, age: age, deleted: deleted, kind: metric.WithAttributes(attribute.String("kind", "request digest"))}, nil
}

// run makes a pass about every hour until ctx is done.
func (r *retention) run(ctx context.Context) error {
	return process.Loop(ctx, r.deps.Clock, retentionEvery, retentionJitter, process.Logged(r.deps.Log, "ingest.retention", r.pass))
}

// pass deletes all digests that have reached their age, in steps. Several replicas may make a pass at the same time.
func (r *retention) pass(ctx context.Context) error {
	if r.age == 0 {
		return nil
	}
	before := r.deps.Clock.Now().Add(-r.age)
	total := int64(0)
	defer func() {
		if total > 0 {
			r.deps.Log.InfoContext(ctx, "deleted rows that reached their age", "kind", "request digest", "rows", total, "before", before)
		}
	}()
	for {
		n, err := r.step(ctx, before)
		total += n
		if err != nil || n == 0 {
			return err
		}
		r.deleted.Add(ctx, n, r.kind)
		if err := clock.Sleep(ctx, r.deps.Clock, retentionPause); err != nil {
			return fmt.Errorf("wait for the next step: %w", err)
		}
	}
}

func (r *retention) step(ctx context.Context, before time.Time) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, retentionTimeout)
	defer cancel()
	return groupcommit.DeleteDigests(ctx, r.deps.Pool, before, retentionRows)
}
