// Package tally counts what the record of calls cannot show: calls that were refused before any engine
// saw them, and calls that went past the table. Without a meter it counts into nothing.
package tally

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Tally holds the counters of inference.
type Tally struct{ calls, rejected, spilled, dropped metric.Int64Counter }

// New makes the counters; meters may be nil.
func New(meters metric.MeterProvider) (*Tally, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	m := meters.Meter("inference")
	t := &Tally{}
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, text string
	}{
		{&t.calls, "inference_calls_total", "calls that reached an engine or tried to, by outcome"},
		{&t.rejected, "inference_rejected_total", "calls that were refused before any engine saw them, by reason"},
		{&t.spilled, "traffic_spilled_total", "calls that went to the disk on their way to the table"},
		{&t.dropped, "traffic_dropped_total", "calls that are lost from the record"},
	} {
		var err error
		if *c.to, err = m.Int64Counter(c.name, metric.WithDescription(c.text)); err != nil {
			return nil, fmt.Errorf("make the counter %s: %w", c.name, err)
		}
	}
	return t, nil
}

// Call counts a call by its outcome.
func (t *Tally) Call(ctx context.Context, outcome string) {
	t.calls.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}

// Rejected counts a refusal by its reason.
func (t *Tally) Rejected(ctx context.Context, reason string) {
	t.rejected.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
}

// Spilled counts calls that went to the disk.
func (t *Tally) Spilled(ctx context.Context, calls int) { t.spilled.Add(ctx, int64(calls)) }

// Dropped counts calls that are lost.
func (t *Tally) Dropped(ctx context.Context, calls int) { t.dropped.Add(ctx, int64(calls)) }
