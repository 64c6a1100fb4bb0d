package single

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/inference"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/services/registry"
)

// gateway is the public edge on the listener that was taken at the start.
func (h *house) gateway(ctx context.Context, p *parts) ([]run.Worker, error) {
	e := boot.NewEnv(gateway.Name, h.obs, h.clock, h.ids, h.bus.As(gateway.Name))
	c, err := e.DialAll(h.closers, auth.Name, jobs.Name, ingest.Name, registry.Name, inference.Name)
	if err != nil {
		return nil, err
	}
	cfg := h.settings.Gateway
	cfg.Public.URL = h.url()
	g, err := gateway.New(ctx, cfg, gateway.Deps{
		Conns: gateway.Conns{
			Auth: c[auth.Name], Jobs: c[jobs.Name], Ingest: c[ingest.Name], Registry: c[registry.Name], Inference: c[inference.Name],
		},
		Ingest: p.ingest, Inference: p.inference, Blobs: h.objects.Handler,
		Version: gateway.Version{Server: version.Server(), Core: version.Core},
		Clock:   h.clock, IDs: h.ids, Log: e.Log, Tracer: h.obs.Tracer, Meter: h.obs.Meter,
	})
	if err != nil {
		return nil, err
	}
	return []run.Worker{hurried(g.Worker(h.listener), e.Log)}, nil
}

// edgeGrace is how long callers may hold the stop of this process up: Ctrl-C has 3 s for everything, and
// a browser's spare connection or a half-sent request would use up any time that it is given. A service
// manager's SIGTERM waits for what is held.
const (
	edgeGrace    = time.Second
	managedGrace = 8 * time.Second
)

// hurried ends the edge after its grace at the latest. That callers were cut then is no failure.
func hurried(w run.Worker, log *slog.Logger) run.Worker {
	stop := w.Stop
	w.Stop = func(ctx context.Context) error {
		grace := edgeGrace
		if run.AskedBy(ctx) == syscall.SIGTERM {
			grace = managedGrace
		}
		ctx, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		err := stop(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			log.InfoContext(ctx, "open requests were cut", "grace_s", grace.Seconds())
			return nil
		}
		return err
	}
	return w
}
