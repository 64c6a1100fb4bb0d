package rpc

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/stats"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	// warnAt is the size above which a message is logged. Such a message is still accepted, but may become too large as
	// the data grows.
	warnAt = MaxMessage / 2
	// warnEvery is the minimum time between two warnings about the same method and direction.
	warnEvery = time.Hour
)

// sizes measures the messages of a server and warns of large ones. It implements stats.Handler.
type sizes struct {
	bytes metric.Int64Histogram
	log   *slog.Logger
	clock clock.Clock

	mu      sync.Mutex
	warned  map[sizeKey]time.Time
	options map[sizeKey]metric.MeasurementOption // only registered methods have entries
}

// sizeKey identifies the messages of a method in one direction.
type sizeKey struct{ method, direction string }

func newSizes(meters metric.MeterProvider, log *slog.Logger, clk clock.Clock) *sizes {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	bytes, err := meters.Meter("rpc").Int64Histogram("rpc_message_bytes",
		metric.WithDescription("sizes of messages by method and direction; the maximum is 4 MiB"), metric.WithUnit("By"),
		metric.WithExplicitBucketBoundaries(1<<10, 16<<10, 64<<10, 256<<10, 1<<20, warnAt, MaxMessage))
	if err != nil {
		log.ErrorContext(context.Background(), "cannot create the histogram of message sizes", "error", err.Error())
	}
	return &sizes{bytes: bytes, log: log, clock: clk, warned: map[sizeKey]time.Time{}, options: map[sizeKey]metric.MeasurementOption{}}
}

type methodKey struct{}

// TagRPC implements stats.Handler.
func (*sizes) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, methodKey{}, info.FullMethodName)
}

// HandleRPC implements stats.Handler.
func (s *sizes) HandleRPC(ctx context.Context, event stats.RPCStats) {
	switch e := event.(type) {
	case *stats.InPayload:
		s.measure(ctx, "received", e.Length)
	case *stats.OutPayload:
		s.measure(ctx, "sent", e.Length)
	}
}

// TagConn implements stats.Handler.
func (*sizes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (*sizes) HandleConn(context.Context, stats.ConnStats) {}

func (s *sizes) measure(ctx context.Context, direction string, size int) {
	method, _ := ctx.Value(methodKey{}).(string)
	if isHealth(method) {
		return
	}
	key := sizeKey{method, direction}
	s.bytes.Record(ctx, int64(size), s.option(key))
	if size > warnAt && s.due(key) {
		s.log.WarnContext(ctx, "a message has reached half of the maximum size; calls with a message above the maximum fail",
			"method", method, "direction", direction, "bytes", size, "max_bytes", MaxMessage)
	}
}

// option returns the attributes of a measurement, which are built once.
func (s *sizes) option(key sizeKey) metric.MeasurementOption {
	s.mu.Lock()
	defer s.mu.Unlock()
	option, ok := s.options[key]
	if !ok {
		option = metric.WithAttributeSet(attribute.NewSet(attribute.String("method", key.method), attribute.String("direction", key.direction)))
		s.options[key] = option
	}
	return option
}

func (s *sizes) due(key sizeKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if last, ok := s.warned[key]; ok && now.Sub(last) < warnEvery {
		return false
	}
	s.warned[key] = now
	return true
}
