package snapshot

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/proto"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

// Metrics measures the messages to the replicas of inference.
type Metrics struct{ size metric.Int64Histogram }

// NewMetrics registers the histogram of message sizes; meters may be nil.
func NewMetrics(meters metric.MeterProvider) (*Metrics, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	const name = "registry_snapshot_message_bytes"
	size, err := meters.Meter("registry").Int64Histogram(name, metric.WithUnit("By"),
		metric.WithDescription("sizes of the messages that tell the replicas of inference what to serve; the last bucket ends at the maximum size of a gRPC message"),
		metric.WithExplicitBucketBoundaries(1<<8, 1<<10, 1<<12, 1<<14, 1<<16, 1<<18, 1<<19, 1<<20, rpc.MaxMessage/2, rpc.MaxMessage))
	if err != nil {
		return nil, fmt.Errorf("create the histogram %s: %w", name, err)
	}
	return &Metrics{size: size}, nil
}

func (m *Metrics) sent(ctx context.Context, out *registrypeerv1.WatchResponse) {
	m.size.Record(ctx, int64(proto.Size(out)))
}
