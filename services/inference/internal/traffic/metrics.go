package traffic

import (
	"cmp"
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// CallMetrics holds the metrics of inference.
type CallMetrics struct {
	relayed, rejected, spilled, dropped, probes, replaced metric.Int64Counter
	// ways has the attributes of each way, because every call is counted.
	ways        map[Way][]metric.AddOption
	deployments *deployments
}

// Way is the way that a call takes through this process.
type Way string

// The ways: within the listener, or through package net/http.
const (
	Fast  Way = "fast"
	Usual Way = "usual"
)

// NewCallMetrics registers the counters with the meter provider, and the metrics of each deployment with the registry.
// Both may be nil. The function exists reports whether a deployment exists; the metrics of others are removed.
func NewCallMetrics(ctx context.Context, meters metric.MeterProvider, registry prometheus.Registerer, exists func(deploymentID string) bool) (*CallMetrics, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	m := meters.Meter("inference")
	t := &CallMetrics{ways: map[Way][]metric.AddOption{}, deployments: newDeployments(exists)}
	for _, way := range []Way{Fast, Usual} {
		t.ways[way] = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("way", string(way))))}
	}
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, text string
	}{
		{&t.relayed, "inference_calls_relayed_total", "calls that have passed the checks, by the way that they took: fast, or usual through the HTTP server"},
		{&t.rejected, "inference_rejected_total", "calls refused before they reached an engine, by reason"},
		{&t.spilled, "traffic_spilled_total", "calls written to disk until they can be stored in the table"},
		{&t.dropped, "traffic_dropped_total", "calls missing from the record because they could not be stored"},
		{&t.probes, "inference_engine_probes_total", "probes of engines from which calls got no byte, by result"},
		{&t.replaced, "inference_engines_replaced_total", "engines that were replaced because they hung"},
	} {
		var err error
		if *c.to, err = m.Int64Counter(c.name, metric.WithDescription(c.text)); err != nil {
			return nil, fmt.Errorf("create the counter %s: %w", c.name, err)
		}
	}
	for _, way := range t.ways {
		t.relayed.Add(ctx, 0, way...)
	}
	if registry == nil {
		return t, nil
	}
	if err := registry.Register(t.deployments); err != nil {
		return nil, fmt.Errorf("register the metrics of deployments: %w", err)
	}
	return t, nil
}

// Begin counts a call as in flight until the Flight ends. The deployment id is empty for calls of playground sessions.
func (t *CallMetrics) Begin(ctx context.Context, deploymentID string, way Way) Flight {
	t.relayed.Add(ctx, 1, t.ways[way]...)
	f := Flight{t.deployments.of(cmp.Or(deploymentID, playground))}
	f.of.open.Inc()
	return f
}

// Rejected counts a refusal by its reason.
func (t *CallMetrics) Rejected(ctx context.Context, reason string) {
	t.rejected.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
}

// Probed counts a probe of an engine by its result.
func (t *CallMetrics) Probed(ctx context.Context, result string) {
	t.probes.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
}

// Replaced counts the replacement of an engine that hung.
func (t *CallMetrics) Replaced(ctx context.Context) { t.replaced.Add(ctx, 1) }

// Spilled counts calls that were written to disk.
func (t *CallMetrics) Spilled(ctx context.Context, calls int) { t.spilled.Add(ctx, int64(calls)) }

// Dropped counts calls that are missing from the record.
func (t *CallMetrics) Dropped(ctx context.Context, calls int) { t.dropped.Add(ctx, int64(calls)) }
