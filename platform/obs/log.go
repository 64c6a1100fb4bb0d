package obs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// Formats of log lines, and of times in them.
const (
	FormatJSON = "json"
	FormatText = "text"
	// timeLayout is the format of times in log lines and in /statusz: UTC with six fractional digits and the offset.
	timeLayout = "2006-01-02T15:04:05.000000-07:00"
)

type requestKey struct{}

// WithRequestID returns a copy of ctx with the given request id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID returns the id of the request that ctx belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

func newHandler(level, format string, w io.Writer) (slog.Handler, error) {
	var least slog.Level
	if level != "" {
		if err := least.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("parse the log level: %w", err)
		}
	}
	options := &slog.HandlerOptions{Level: least, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 && a.Value.Kind() == slog.KindTime {
			a.Value = slog.StringValue(a.Value.Time().UTC().Format(timeLayout))
		}
		return a
	}}
	switch format {
	case FormatJSON, "":
		return &handler{base: slog.NewJSONHandler(w, options)}, nil
	case FormatText:
		return &handler{base: slog.NewTextHandler(w, options)}, nil
	default:
		return nil, fmt.Errorf("log format %q is not valid; use json or text", format)
	}
}

// handler adds the request, trace and span id in ctx to every line, always at the top level. After WithGroup, the ids
// would become part of the group, so the handler records WithGroup and all later steps and repeats them for each line.
type handler struct {
	base  slog.Handler
	steps []func(slog.Handler) slog.Handler
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.base.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	ids := idsOf(ctx)
	if len(h.steps) == 0 {
		r.AddAttrs(ids...)
		return h.base.Handle(ctx, r)
	}
	to := h.base.WithAttrs(ids)
	for _, step := range h.steps {
		to = step(to)
	}
	return to.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.steps) == 0 {
		return &handler{base: h.base.WithAttrs(attrs)}
	}
	return h.with(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *handler) with(step func(slog.Handler) slog.Handler) slog.Handler {
	return &handler{base: h.base, steps: append(slices.Clone(h.steps), step)}
}

func idsOf(ctx context.Context) []slog.Attr {
	var ids []slog.Attr
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		ids = append(ids, slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	if id := RequestID(ctx); id != "" {
		ids = append(ids, slog.String("request_id", id))
	}
	return ids
}
