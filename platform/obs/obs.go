// Package obs owns the observability of a process: its log, traces and metrics, and the admin listener that shows
// them. It has no global state: Setup returns an Obs, which callers pass on. Traces are sent only if an OTLP endpoint
// is set. Trace ids are created and logged in any case.
package obs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config configures Setup. Empty fields mean: level info, format JSON, no traces sent.
type Config struct {
	Service, Version    string
	LogLevel, LogFormat string
	OTLPEndpoint        string // URL; the scheme http means no TLS
}

// Obs holds the log, traces and metrics of a process.
type Obs struct {
	Log        *slog.Logger // has Config.Service in every line
	Tracer     trace.TracerProvider
	Meter      metric.MeterProvider
	Propagator propagation.TextMapPropagator
	Registry   *prometheus.Registry

	config   Config
	handler  slog.Handler
	shutdown []func(context.Context) error
}

// Setup returns a new Obs that writes its log to w. The caller must call Shutdown at the end.
func Setup(ctx context.Context, cfg Config, w io.Writer) (*Obs, error) {
	h, err := newHandler(cfg.LogLevel, cfg.LogFormat, w)
	if err != nil {
		return nil, fmt.Errorf("set up the log: %w", err)
	}
	o := &Obs{
		config: cfg, handler: h, Registry: prometheus.NewRegistry(),
		Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	}
	o.Log = o.Logger(cfg.Service)
	about := resource.NewSchemaless(attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version))
	if err := o.setupTraces(ctx, about); err != nil {
		return nil, fmt.Errorf("set up traces: %w", err)
	}
	if err := o.setupMetrics(about); err != nil {
		return nil, errors.Join(fmt.Errorf("set up metrics: %w", err), o.Shutdown(ctx))
	}
	return o, nil
}

// Logger returns a log with the given service in every line, for processes that run several services.
func (o *Obs) Logger(service string) *slog.Logger {
	return slog.New(o.handler).With(slog.String("service", service))
}

// Shutdown sends buffered traces and stops the exporters.
func (o *Obs) Shutdown(ctx context.Context) error {
	errs := make([]error, 0, len(o.shutdown))
	for _, stop := range o.shutdown {
		errs = append(errs, stop(ctx))
	}
	o.shutdown = nil
	return errors.Join(errs...)
}

func (o *Obs) setupTraces(ctx context.Context, about *resource.Resource) error {
	// Without an endpoint spans are not recorded, but their ids are created and propagated.
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.NeverSample())}
	if o.config.OTLPEndpoint != "" {
		if u, err := url.Parse(o.config.OTLPEndpoint); err != nil || u.Host == "" {
			return fmt.Errorf("OTLP endpoint %q is not a valid URL", o.config.OTLPEndpoint)
		}
		exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(o.config.OTLPEndpoint))
		if err != nil {
			return err
		}
		options = []sdktrace.TracerProviderOption{
			sdktrace.WithResource(about), sdktrace.WithBatcher(exporter),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
		}
	}
	provider := sdktrace.NewTracerProvider(options...)
	o.Tracer = provider
	o.shutdown = append(o.shutdown, provider.Shutdown)
	return nil
}

func (o *Obs) setupMetrics(about *resource.Resource) error {
	exporter, err := promexporter.New(
		promexporter.WithRegisterer(o.Registry), promexporter.WithoutScopeInfo(), promexporter.WithoutTargetInfo(),
		promexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
	)
	if err != nil {
		return err
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(about))
	o.Meter = provider
	o.shutdown = append(o.shutdown, provider.Shutdown)
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "service_build_info", Help: "Always 1; the labels hold the service and its version.",
	}, []string{"service", "version"})
	build.WithLabelValues(o.config.Service, o.config.Version).Set(1)
	for _, c := range []prometheus.Collector{
		build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := o.Registry.Register(c); err != nil {
			return err
		}
	}
	return nil
}
