package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// maxLag is the age from which on points count as history that a client imports, not as late. One run with old points
// would otherwise hide how promptly the others are stored.
const maxLag = 6 * time.Hour

// Meters measures how promptly this replica stores requests.
type Meters struct{ commit, lag metric.Float64Histogram }

// NewMeters registers the histograms of ingest: ingest_commit_seconds has the time from the arrival of a request to its
// commit, and ingest_lag_seconds the age of the newest metric point of each request at its commit, unless it is older than maxLag. meters may be nil.
func NewMeters(meters metric.MeterProvider) (*Meters, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	m := meters.Meter("ingest")
	commit, commitErr := m.Float64Histogram("ingest_commit_seconds",
		metric.WithDescription("time from the arrival of a report to its commit"),
		metric.WithExplicitBucketBoundaries(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20))
	lag, lagErr := m.Float64Histogram("ingest_lag_seconds",
		metric.WithDescription("age of the newest metric point of a report at its commit, by the clock of the process that reports it"),
		metric.WithExplicitBucketBoundaries(0.1, 0.5, 1, 2, 5, 15, 60, 300, 900, 3600, 6*3600))
	if err := errors.Join(commitErr, lagErr); err != nil {
		return nil, fmt.Errorf("create the histograms of reports: %w", err)
	}
	return &Meters{commit: commit, lag: lag}, nil
}

// stored records a request that arrived at begun and is committed now. A nil Meters records nothing.
func (m *Meters) stored(ctx context.Context, item *Item, repeated bool, begun, now time.Time) {
	if m == nil {
		return
	}
	m.commit.Record(ctx, now.Sub(begun).Seconds())
	if age := now.Sub(item.Newest); !repeated && !item.Newest.IsZero() && age <= maxLag {
		m.lag.Record(ctx, max(0, age.Seconds()))
	}
}
