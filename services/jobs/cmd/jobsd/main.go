// Command jobsd runs the jobs service as a separate process.
package main

import (
	"context"
	"io/fs"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/jobs"
)

func main() {
	cfg := &jobs.Config{}
	migrations := func() (fs.FS, error) { return jobs.Migrations(), nil }
	boot.Main(boot.Spec{Name: jobs.Name, Config: cfg, Migrations: migrations, TakesAgents: true, Build: func(ctx context.Context, p *boot.Process) ([]process.Worker, error) {
		c, err := p.DialAll(p.Closers, "auth", "registry", "ingest")
		if err != nil {
			return nil, err
		}
		ca, err := p.NodeCA()
		if err != nil {
			return nil, err
		}
		svc, err := jobs.New(ctx, *cfg, jobs.Deps{
			Pool: p.Pool, Projects: authpeerv1.NewProjectServiceClient(c["auth"]),
			Accounts: authpeerv1.NewAccountPeerServiceClient(c["auth"]),
			Catalog:  registrypeerv1.NewCatalogPeerServiceClient(c["registry"]),
			RunData:  ingestpeerv1.NewRunDataPeerServiceClient(c["ingest"]), Blobs: p.Blobs, CA: ca, Keyring: p.Keyring,
			Clock: p.Clock, IDs: p.IDs, Rand: p.Rand, Log: p.Log, Meter: p.Obs.Meter, PublicURL: p.PublicURL,
			AgentAddress: func() string { return p.Own.Agents.Address },
		})
		if err != nil {
			return nil, err
		}
		return p.ServeOn(svc, boot.AuthKeys(c["auth"]))
	}})
}
