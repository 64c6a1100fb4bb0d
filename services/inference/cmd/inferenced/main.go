// Command inferenced runs the inference service as a separate process.
package main

import (
	"context"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/inference"
)

// While the process drains, the service itself refuses new calls, so that applications get errors in OpenAI's format.
var _ boot.Drainer = (*inference.Service)(nil)

// Its readiness depends on its lease, not on the database.
var _ boot.Server = (*inference.Service)(nil)

func main() {
	cfg := &inference.Config{}
	boot.Main(boot.Spec{Name: inference.Name, Config: cfg, Migrations: inference.Migrations, TakesRequests: true, Build: func(ctx context.Context, p *boot.Process) ([]process.Worker, error) {
		c, err := p.DialAll(p.Closers, "auth", "registry")
		if err != nil {
			return nil, err
		}
		svc, err := inference.New(ctx, *cfg, inference.Deps{
			Pool: p.Pool, Snapshots: registrypeerv1.NewSnapshotServiceClient(c["registry"]), Sessions: registrypeerv1.NewPlaygroundPeerServiceClient(c["registry"]), Clock: p.Clock,
			Mono: clock.Monotonic(), IDs: p.IDs, Log: p.Log, Meter: p.Obs.Meter, Registry: p.Obs.Registry, EngineTLS: p.Wire.ClientTLS,
		})
		if err != nil {
			return nil, err
		}
		return p.ServeBoth(ctx, svc, boot.AuthKeys(c["auth"]), svc.Handler())
	}})
}
