// Command gatewayd runs the gateway as its own process.
package main

import (
	"context"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/process"
)

func main() {
	cfg := &gateway.Config{}
	boot.Main(boot.Spec{Name: gateway.Name, Config: cfg, CallsOnly: true, Build: func(ctx context.Context, p *boot.Process) ([]process.Worker, error) {
		c, err := p.DialAll(p.Closers, "auth", "jobs", "ingest", "registry", "inference")
		if err != nil {
			return nil, err
		}
		g, err := gateway.New(ctx, *cfg, gateway.Deps{
			Conns: gateway.Conns{
				Auth: c["auth"], Jobs: c["jobs"], Ingest: c["ingest"], Registry: c["registry"], Inference: c["inference"],
			},
			RelayTLS: p.Wire.ClientTLS, Blobs: p.Objects.Handler,
			Version: gateway.Version{Server: version.Server(), Core: version.Core},
			Clock:   p.Clock, IDs: p.IDs, Log: p.Log, Tracer: p.Obs.Tracer, Meter: p.Obs.Meter,
		})
		if err != nil {
			return nil, err
		}
		listener, err := g.Listen(ctx)
		if err != nil {
			return nil, err
		}
		return []process.Worker{p.Graced(g.Worker(listener))}, nil
	}})
}
