package allinone

import (
	"context"
	"log/slog"
	"os"
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

func versions() gateway.Version {
	return gateway.Version{Server: version.Server(), Core: version.Core}
}

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
		Version: versions(),
		Clock:   d.clock, IDs: d.ids, Log: e.Log, Tracer: d.obs.Tracer, Meter: d.obs.Meter,
	})
	if err != nil {
		return nil, err
	}
	return []process.Worker{d.graced(g.Worker(d.listener), e.Log)}, nil
}

const (
	// interruptGrace is how long open requests may delay a stop that is not due to SIGTERM. Ctrl-C must end everything
	// within interruptLimit, but an idle connection of a browser or an incomplete request would last until the end of any
	// grace period.
	interruptGrace = 500 * time.Millisecond
	interruptLimit = 3 * time.Second
)

// graced cuts off open requests after SERVICE_STOP_GRACE if a service manager stops the process with SIGTERM, and
// otherwise after interruptGrace.
func (d *daemon) graced(w process.Worker, log *slog.Logger) process.Worker {
	stop := d.settings.Common.Stop
	w.StopTimeout = stop.Limit()
	return boot.Graced(w, log, func(ctx context.Context) time.Duration {
		if process.StopSignal(ctx) == syscall.SIGTERM {
			return stop.StopGrace
		}
		return min(stop.StopGrace, interruptGrace)
	})
}

// stopLimit returns how long the whole stop may take.
func (d *daemon) stopLimit(by os.Signal) time.Duration {
	if by == os.Interrupt {
		return interruptLimit
	}
	return d.settings.Common.Stop.Limit()
}
