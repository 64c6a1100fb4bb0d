package allinone

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/inference"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/services/registry"
)

// gateway creates the gateway on the listener that was opened at the start.
func (d *daemon) gateway(ctx context.Context, p *parts) ([]process.Worker, error) {
	e := boot.NewEnv(gateway.Name, d.obs, d.clock, d.ids, d.bus.As(gateway.Name))
	c, err := e.DialAll(d.closers, auth.Name, jobs.Name, ingest.Name, registry.Name, inference.Name)
	if err != nil {
		return nil, err
	}
	cfg := d.settings.Gateway
	cfg.Public.URL = d.url()
	g, err := gateway.New(ctx, cfg, gateway.Deps{
		Conns: gateway.Conns{
			Auth: c[auth.Name], Jobs: c[jobs.Name], Ingest: c[ingest.Name], Registry: c[registry.Name], Inference: c[inference.Name],
		},
		Ingest: p.ingest, Inference: p.inference, Blobs: d.objects.Handler,
		Version: gateway.Version{Server: version.Server(), Core: version.Core},
		Clock:   d.clock, IDs: d.ids, Log: e.Log, Tracer: d.obs.Tracer, Meter: d.obs.Meter,
	})
	if err != nil {
		return nil, err
	}
	return []process.Worker{hurried(g.Worker(d.listener), e.Log)}, nil
}

// gatewayGrace is how long open requests may delay the stop of this process. Ctrl-C must end everything within 3 s, but
// an idle connection of a browser or an incomplete request would last until the end of any grace period. After SIGTERM,
// which a service manager sends, managedGrace applies instead, so that open requests can finish.
const (
	gatewayGrace = time.Second
	managedGrace = 8 * time.Second
)

// hurried stops the worker after its grace period at the latest. Requests that are cut off then are not an error.
func hurried(w process.Worker, log *slog.Logger) process.Worker {
	stop := w.Stop
	w.Stop = func(ctx context.Context) error {
		grace := gatewayGrace
		if process.StopSignal(ctx) == syscall.SIGTERM {
			grace = managedGrace
		}
		ctx, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		err := stop(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			log.InfoContext(ctx, "open requests were cut off at the end of the grace period", "grace_s", grace.Seconds())
			return nil
		}
		return err
	}
	return w
}
