package obs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/platform/obs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t *testing.T, cfg obs.Config) (*obs.Obs, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	o, err := obs.Setup(t.Context(), cfg, &log)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Shutdown(context.WithoutCancel(t.Context()))) })
	return o, &log
}

func line(t *testing.T, log *bytes.Buffer) map[string]any {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal(log.Bytes(), &fields), log.String())
	log.Reset()
	return fields
}

func TestLog_lineHasServiceRequestAndTrace(t *testing.T) {
	t.Parallel()
	o, log := setup(t, obs.Config{Service: "jobs", Version: "1.2.3"})
	ctx, span := o.Tracer.Tracer("t").Start(obs.WithRequestID(t.Context(), "req_1"), "submit")
	defer span.End()
	o.Log.InfoContext(ctx, "job queued", "job_id", "job_1")
	got := line(t, log)
	require.Equal(t, "jobs", got["service"])
	require.Equal(t, "req_1", got["request_id"])
	require.Equal(t, span.SpanContext().TraceID().String(), got["trace_id"])
	require.Equal(t, span.SpanContext().SpanID().String(), got["span_id"])
	require.Equal(t, "job_1", got["job_id"])
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`, got["time"])

	o.Log.InfoContext(t.Context(), "no request")
	got = line(t, log)
	require.NotContains(t, got, "request_id")
	require.NotContains(t, got, "trace_id")
	o.Logger("auth").InfoContext(ctx, "x")
	require.Equal(t, "auth", line(t, log)["service"])
}

func TestLog_idsStayOutsideGroups(t *testing.T) {
	t.Parallel()
	o, log := setup(t, obs.Config{Service: "jobs"})
	grouped := o.Log.With("a", 1).WithGroup("step").With("b", 2).WithGroup("").WithGroup("inner")
	grouped.InfoContext(obs.WithRequestID(t.Context(), "req_1"), "x", "c", 3)
	got := line(t, log)
	require.Equal(t, "req_1", got["request_id"])
	require.Equal(t, map[string]any{"b": 2.0, "inner": map[string]any{"c": 3.0}}, got["step"])
	require.InDelta(t, 1, got["a"], 0)
}

func TestSetup_levelAndFormat(t *testing.T) {
	t.Parallel()
	o, log := setup(t, obs.Config{Service: "jobs", LogLevel: "warn", LogFormat: obs.FormatText})
	o.Log.InfoContext(t.Context(), "quiet")
	require.Empty(t, log.String())
	require.False(t, o.Log.Enabled(t.Context(), slog.LevelInfo))
	o.Log.WarnContext(obs.WithRequestID(t.Context(), "req_9"), "loud")
	require.Contains(t, log.String(), "level=WARN msg=loud service=jobs request_id=req_9")
}

func TestSetup_invalidConfig(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]obs.Config{
		"log level":          {LogLevel: "loud"},
		"use json or text":   {LogFormat: "xml"},
		"is not a valid URL": {OTLPEndpoint: "collector:4317"},
	} {
		_, err := obs.Setup(t.Context(), cfg, &bytes.Buffer{})
		require.ErrorContains(t, err, want)
	}
}

func TestPropagator_injectsTraceparent(t *testing.T) {
	t.Parallel()
	o, _ := setup(t, obs.Config{Service: "a"})
	ctx, span := o.Tracer.Tracer("t").Start(t.Context(), "call")
	defer span.End()
	header := http.Header{}
	o.Propagator.Inject(ctx, propagation.HeaderCarrier(header))
	require.Contains(t, header.Get("Traceparent"), span.SpanContext().TraceID().String())
}

type traces struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

func (c *traces) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.got <- r
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestShutdown_sendsSpansToCollector(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, sink := grpc.NewServer(), &traces{got: make(chan *collector.ExportTraceServiceRequest, 1)}
	collector.RegisterTraceServiceServer(server, sink)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { server.Stop(); require.NoError(t, <-served) }()

	o, err := obs.Setup(t.Context(), obs.Config{Service: "jobs", OTLPEndpoint: "http://" + listener.Addr().String()}, &bytes.Buffer{})
	require.NoError(t, err)
	_, span := o.Tracer.Tracer("t").Start(t.Context(), "submit")
	span.End()
	require.NoError(t, o.Shutdown(t.Context()), "Shutdown sends buffered spans")
	spans := (<-sink.got).GetResourceSpans()[0]
	require.Equal(t, "submit", spans.GetScopeSpans()[0].GetSpans()[0].GetName())
	require.Equal(t, "jobs", spans.GetResource().GetAttributes()[0].GetValue().GetStringValue())
	require.NoError(t, o.Shutdown(t.Context()), "a second Shutdown does nothing")
}

func TestSetup_separateMetricsRegistry(t *testing.T) {
	t.Parallel()
	a, _ := setup(t, obs.Config{Service: "jobs", Version: "1"})
	b, _ := setup(t, obs.Config{Service: "auth", Version: "1"})
	counter, err := a.Meter.Meter("t").Int64Counter("service_jobs_submitted", metric.WithUnit("{job}"))
	require.NoError(t, err)
	counter.Add(t.Context(), 3, metric.WithAttributes(attribute.String("gate", "quota")))
	require.Contains(t, metrics(t, a), `service_jobs_submitted_total{gate="quota"} 3`)
	require.Contains(t, metrics(t, a), `service_build_info{service="jobs",version="1"} 1`)
	require.NotContains(t, metrics(t, b), "service_jobs_submitted_total")
	require.Contains(t, metrics(t, b), "go_goroutines")
}
