// Command authd runs the auth service as a separate process.
package main

import (
	"context"
	"fmt"
	"os"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/auth"
)

func main() {
	cfg := &auth.Config{}
	boot.Main(boot.Spec{Name: auth.Name, Config: cfg, Migrations: auth.Migrations, Build: func(ctx context.Context, p *boot.Process) ([]process.Worker, error) {
		peers, err := p.DialAll(p.Closers, auth.PeerNames()...)
		if err != nil {
			return nil, err
		}
		svc, err := auth.New(ctx, *cfg, auth.Deps{
			Pool: p.Pool, Keyring: p.Keyring, Quota: jobspeerv1.NewQuotaPeerServiceClient(peers["jobs"]), Peers: boot.Peers(peers), Audit: p.AuditPeer(), Clock: p.Clock,
			IDs: p.IDs, Rand: p.Rand, Log: p.Log, PublicURL: p.PublicURL,
		})
		if err != nil {
			return nil, err
		}
		first, err := svc.Bootstrap(ctx)
		if err != nil {
			return nil, err
		}
		if first != nil && !first.Given {
			fmt.Fprintf(os.Stdout, "first login (shown once): %s / %s\n", first.Username, first.Password.Reveal())
		}
		return p.ServeOn(svc, svc.Keys)
	}})
}
