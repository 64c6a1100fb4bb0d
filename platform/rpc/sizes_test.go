package rpc_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

func TestServer_measuresMessagesAndWarnsOfLargeOnes(t *testing.T) {
	t.Parallel()
	reader, log, clk := metric.NewManualReader(), &bytes.Buffer{}, clock.NewFake(time.Unix(0, 0))
	size := 100
	answering := &handlers{unary: func(context.Context, string, *dynamicpb.Message) (*dynamicpb.Message, error) {
		return pingText(strings.Repeat("x", size)), nil
	}}
	bus := rpc.Memory(rpc.ClientOptions{Clock: clock.Real()})
	w := newHarness(t, func(_ *testing.T, identity string) rpc.Network { return bus.As(identity) })
	r := w.serve(t, setup{service: "registry", handlers: answering, change: func(o *rpc.ServerOptions) {
		o.Telemetry.Meter = metric.NewMeterProvider(metric.WithReader(reader))
		o.Log, o.Clock = slog.New(slog.NewTextHandler(log, nil)), clk
	}})
	cc := w.dial(t, "jobs", "registry")
	call := func() {
		t.Helper()
		_, err := try(t.Context(), cc, "PeerOnce")
		require.NoError(t, err)
	}
	warnings := func() int { return strings.Count(log.String(), "half of the maximum size") }
	call()
	require.Zero(t, warnings())
	size = 3 << 20
	call()
	call()
	require.Equal(t, 1, warnings(), log.String())
	clk.Advance(time.Hour)
	call()
	require.Equal(t, 2, warnings(), "the warning is repeated after an hour")
	require.NoError(t, r.stop())

	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	counts := map[string][]uint64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			h, ok := m.Data.(metricdata.Histogram[int64])
			if m.Name != "rpc_message_bytes" || !ok {
				continue
			}
			for _, p := range h.DataPoints {
				direction, _ := p.Attributes.Value(attribute.Key("direction"))
				counts[direction.AsString()] = p.BucketCounts
			}
		}
	}
	require.Equal(t, []uint64{1, 0, 0, 0, 0, 0, 3, 0}, counts["sent"])
	require.Equal(t, []uint64{4, 0, 0, 0, 0, 0, 0, 0}, counts["received"])
}
