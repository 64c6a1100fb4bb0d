package tablefeed

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// meters counts what the streams of one table send.
type meters struct {
	events, resets metric.Int64Counter
}

// newMeters returns the metrics of the table with the given plural. The function open returns the number of open streams.
func newMeters(provider metric.MeterProvider, plural string, open func() int64) (*meters, error) {
	if provider == nil {
		provider = noop.NewMeterProvider()
	}
	m, c, of := provider.Meter("jobs"), &meters{}, " of tables of "+plural
	var err error
	if c.events, err = m.Int64Counter(plural+"_table_events_total", metric.WithDescription("events sent to streams"+of+", by event")); err != nil {
		return nil, fmt.Errorf("create the counter %s_table_events_total: %w", plural, err)
	}
	if c.resets, err = m.Int64Counter(plural+"_table_resets_total", metric.WithDescription("resets of streams"+of+", by reason")); err != nil {
		return nil, fmt.Errorf("create the counter %s_table_resets_total: %w", plural, err)
	}
	_, err = m.Int64ObservableGauge(plural+"_table_streams", metric.WithDescription("open streams"+of),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error { o.Observe(open()); return nil }))
	if err != nil {
		return nil, fmt.Errorf("create the gauge %s_table_streams: %w", plural, err)
	}
	return c, nil
}

func (m *meters) event(ctx context.Context, name string) {
	m.events.Add(ctx, 1, metric.WithAttributes(attribute.String("event", name)))
}

func (m *meters) reset(ctx context.Context, reason string) {
	m.resets.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
}
