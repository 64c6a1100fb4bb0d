package middleware

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Record returns a handler that runs next and writes one log line for the request. If next panics, the
// client gets a 500, or a broken connection if the response has already begun.
func Record(log *slog.Logger, clk clock.Clock, client func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		started := clk.Now()
		cut := rec.run(r.Context(), log, next, r)
		log.InfoContext(r.Context(), "request", slog.String("method", r.Method), slog.String("route", r.Pattern),
			slog.Int("status", rec.status), slog.Int64("bytes", rec.bytes), slog.String("client", client(r)),
			slog.Float64("duration_ms", float64(clock.Since(clk, started).Microseconds())/1000))
		if cut {
			panic(http.ErrAbortHandler)
		}
	})
}

// recorder counts the bytes of a response and records its status.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap lets http.ResponseController reach the wrapped writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write drops the body of a 204, because the generated handlers write a body with every status.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if r.status == http.StatusNoContent {
		return len(p), nil
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// run serves a request. It returns true if a panic left a partial response, so that the connection must be closed.
func (r *recorder) run(ctx context.Context, log *slog.Logger, next http.Handler, req *http.Request) (cut bool) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			cut = true
			return
		}
		log.ErrorContext(ctx, "panic while serving a request", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		if cut = r.status != 0; !cut {
			Fail(r, req, fault.New(fault.Internal, "", "panic"))
		}
	}()
	next.ServeHTTP(r, req)
	return false
}
