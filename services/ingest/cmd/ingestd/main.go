// Command ingestd runs the ingest service as a separate process.
package main

import (
	"context"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

func main() {
	cfg := &ingest.Config{}
	boot.Main(boot.Spec{Name: ingest.Name, Config: cfg, Migrations: ingest.Migrations, TakesRequests: true, Build: func(ctx context.Context, p *boot.Process) ([]process.Worker, error) {
		c, err := p.DialAll(p.Closers, "auth", "jobs")
		if err != nil {
			return nil, err
		}
		svc, err := ingest.New(ctx, *cfg, ingest.Deps{
			Pool: p.Pool, Runs: jobspeerv1.NewRunPeerServiceClient(c["jobs"]), Blobs: p.Blobs, Clock: p.Clock, IDs: p.IDs, Log: p.Log,
			Meter: p.Obs.Meter,
		})
		if err != nil {
			return nil, err
		}
		return p.ServeBoth(ctx, svc, boot.AuthKeys(c["auth"]), svc.Handler())
	}})
}
