package rpc_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

func TestTelemetry_tracesAndMeasuresCallsExceptHealth(t *testing.T) {
	t.Parallel()
	spans, reader := tracetest.NewSpanRecorder(), metric.NewManualReader()
	tel := rpc.Telemetry{
		Tracer: trace.NewTracerProvider(trace.WithSpanProcessor(spans)),
		Meter:  metric.NewMeterProvider(metric.WithReader(reader)),
	}
	bus := rpc.Memory(rpc.ClientOptions{Clock: clock.Real(), Telemetry: tel})
	w := newHarness(t, func(_ *testing.T, identity string) rpc.Network { return bus.As(identity) })
	r := w.serve(t, setup{service: "registry", handlers: echo(), change: func(o *rpc.ServerOptions) { o.Telemetry = tel }})
	cc := w.dial(t, "jobs", "registry")
	_, err := healthv1.NewHealthClient(cc).Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	for _, name := range bothForms() {
		_, err = try(t.Context(), cc, name)
		require.NoError(t, err)
	}
	require.NoError(t, r.stop())

	kinds := map[string]map[oteltrace.SpanKind]oteltrace.TraceID{}
	for _, s := range spans.Ended() {
		if kinds[s.Name()] == nil {
			kinds[s.Name()] = map[oteltrace.SpanKind]oteltrace.TraceID{}
		}
		kinds[s.Name()][s.SpanKind()] = s.SpanContext().TraceID()
	}
	for _, name := range bothForms() {
		got := kinds["signalbox.rpctest.v1.TestService/"+name]
		require.Len(t, got, 2, "%s: a client and a server span", name)
		require.Equal(t, got[oteltrace.SpanKindClient], got[oteltrace.SpanKindServer], "both spans belong to one trace")
	}
	require.Len(t, kinds, 2, "health calls have no spans")

	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	require.NotEmpty(t, data.ScopeMetrics)
}
