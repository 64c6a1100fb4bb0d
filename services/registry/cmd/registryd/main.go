// Command registryd runs the registry service as a separate process.
package main

import (
	"context"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/recipes"
	"github.com/signalbox-dev/signalbox/services/registry"
)

func main() {
	cfg := &registry.Config{}
	boot.Main(boot.Spec{Name: registry.Name, Config: cfg, Migrations: registry.Migrations, Build: func(ctx context.Context, p *boot.Process) ([]process.Worker, error) {
		to, err := p.DialAll(p.Closers, "auth", "jobs", "ingest")
		if err != nil {
			return nil, err
		}
		svc, err := registry.New(ctx, *cfg, registry.Deps{
			Pool: p.Pool, Projects: authpeerv1.NewProjectServiceClient(to["auth"]),
			Runs: jobspeerv1.NewRunPeerServiceClient(to["jobs"]), Lineage: jobspeerv1.NewRunLineagePeerServiceClient(to["jobs"]), Works: jobspeerv1.NewWorkPeerServiceClient(to["jobs"]),
			RunData: ingestpeerv1.NewRunDataPeerServiceClient(to["ingest"]), Blobs: p.Blobs, Recipes: recipes.FS(),
			Keyring: p.Keyring, Clock: p.Clock, IDs: p.IDs, Rand: p.Rand, Log: p.Log, Meter: p.Obs.Meter, PublicURL: p.PublicURL,
		})
		if err != nil {
			return nil, err
		}
		return p.ServeOn(svc, boot.AuthKeys(to["auth"]))
	}})
}
