package allinone

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/recipes"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/inference"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/services/registry"
)

const (
	// poolSize is the maximum number of database connections of each service.
	poolSize         = 8
	statementTimeout = 30 * time.Second
)

// part is one service with its environment and its listeners.
type part struct {
	env       *boot.Env
	service   boot.Service
	listeners []*rpc.Listener
}

// parts are the five services.
type parts struct {
	byName    map[string]*part
	jobs      *jobs.Service
	ingest    http.Handler
	inference http.Handler
	calls     process.Worker // ends the calls that inference is serving
}

// build creates all services and returns the workers of the process, in the order in which they start.
func (d *daemon) build(ctx context.Context) ([]process.Worker, error) {
	if err := d.openObjects(); err != nil {
		return nil, err
	}
	p := &parts{byName: map[string]*part{}}
	var envs []*boot.Env
	for _, name := range []string{auth.Name, jobs.Name, ingest.Name, registry.Name, inference.Name} {
		if err := d.prepare(ctx, p, name); err != nil {
			return nil, err
		}
		envs = append(envs, p.byName[name].env)
	}
	switch stopped, err := boot.AwaitRestore(ctx, d.clock, d.obs.Log, d.refuse, envs...); {
	case err != nil:
		return nil, err
	case stopped:
		return nil, errStopped
	}
	for _, make := range []func(context.Context, *parts) error{d.auth, d.jobs, d.ingest, d.registry, d.inference} {
		if err := make(ctx, p); err != nil {
			return nil, err
		}
	}
	var workers []process.Worker
	if d.postgres != nil {
		workers = append(workers, process.Worker{Name: "postgres", Run: d.postgres.Run})
	}
	for _, name := range []string{auth.Name, jobs.Name, ingest.Name, registry.Name, inference.Name} {
		one := p.byName[name]
		conn, err := one.env.Dial(d.closers, auth.Name)
		if err != nil {
			return nil, err
		}
		served, err := one.env.Serve(one.service, boot.AuthKeys(conn), one.listeners...)
		if err != nil {
			return nil, err
		}
		workers = append(workers, served...)
	}
	gateway, err := d.gateway(ctx, p)
	if err != nil {
		return nil, err
	}
	agent, err := d.agent(p)
	if err != nil {
		return nil, err
	}
	// Workers stop in reverse order: first the gateway, which refuses new requests at once and finishes the open ones,
	// then the inference calls that it has cut off, and then the agent, whose engines serve these calls. Trainings that
	// are ended with the agent keep their last reports, and the next start delivers them.
	workers = append(workers, agent, d.graced(p.calls, p.byName[inference.Name].env.Log))
	return append(append(workers, gateway...), d.links()), nil
}

// prepare opens the listeners of a service. It runs for every service before the first client dials.
func (d *daemon) prepare(ctx context.Context, p *parts, name string) error {
	e, err := d.env(ctx, name)
	if err != nil {
		return err
	}
	l, err := e.Net.Listen(name)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", name, err)
	}
	one := &part{env: e, listeners: []*rpc.Listener{l}}
	if name == jobs.Name {
		agents, err := e.Net.ListenAgents(name)
		if err != nil {
			return fmt.Errorf("listen for agents: %w", err)
		}
		one.listeners = append(one.listeners, agents)
		if d.agents != nil {
			one.listeners = append(one.listeners, d.agents)
		}
	}
	p.byName[name] = one
	return nil
}

// clients dials the peers of a service. It returns the connections and the service's own environment.
func (d *daemon) clients(p *parts, of string, peers ...string) (map[string]*grpc.ClientConn, *boot.Env, error) {
	e := p.byName[of].env
	c, err := e.DialAll(d.closers, peers...)
	return c, e, err
}

func (d *daemon) auth(ctx context.Context, p *parts) error {
	c, e, err := d.clients(p, auth.Name, auth.PeerNames()...)
	if err != nil {
		return err
	}
	svc, err := auth.New(ctx, d.settings.Auth, auth.Deps{
		Pool: e.Pool, Keyring: e.Keyring, Quota: jobspeerv1.NewQuotaPeerServiceClient(c[jobs.Name]), Peers: boot.Peers(c), Audit: e.AuditPeer(), Clock: e.Clock,
		IDs: e.IDs, Rand: e.Rand, Log: e.Log, PublicURL: d.url,
	})
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	p.byName[auth.Name].service = svc
	if d.first, err = svc.Bootstrap(ctx); err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	d.signInLink = svc.CreateSignInLink
	d.showFirst()
	return nil
}

func (d *daemon) jobs(ctx context.Context, p *parts) error {
	c, e, err := d.clients(p, jobs.Name, auth.Name, registry.Name, ingest.Name)
	if err != nil {
		return err
	}
	p.jobs, err = jobs.New(ctx, d.settings.Jobs, jobs.Deps{
		Pool: e.Pool, Projects: authpeerv1.NewProjectServiceClient(c[auth.Name]),
		Accounts: authpeerv1.NewAccountPeerServiceClient(c[auth.Name]),
		Catalog:  registrypeerv1.NewCatalogPeerServiceClient(c[registry.Name]),
		RunData:  ingestpeerv1.NewRunDataPeerServiceClient(c[ingest.Name]), Blobs: e.Blobs,
		CA: boot.NodeCA{CA: d.keys.ca, Clock: d.clock}, Keyring: e.Keyring, Clock: e.Clock, IDs: e.IDs, Rand: e.Rand,
		Log: e.Log, Meter: e.Obs.Meter, PublicURL: d.url, AgentAddress: d.agentAddress,
	})
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	p.byName[jobs.Name].service = p.jobs
	return nil
}

func (d *daemon) ingest(ctx context.Context, p *parts) error {
	c, e, err := d.clients(p, ingest.Name, jobs.Name)
	if err != nil {
		return err
	}
	svc, err := ingest.New(ctx, d.settings.Ingest, ingest.Deps{
		Pool: e.Pool, Runs: jobspeerv1.NewRunPeerServiceClient(c[jobs.Name]), Blobs: e.Blobs, Clock: e.Clock, IDs: e.IDs, Log: e.Log,
		Meter: e.Obs.Meter,
	})
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	p.byName[ingest.Name].service, p.ingest = svc, svc.Handler()
	return nil
}

func (d *daemon) registry(ctx context.Context, p *parts) error {
	c, e, err := d.clients(p, registry.Name, auth.Name, jobs.Name, ingest.Name)
	if err != nil {
		return err
	}
	svc, err := registry.New(ctx, d.settings.Registry, registry.Deps{
		Pool: e.Pool, Projects: authpeerv1.NewProjectServiceClient(c[auth.Name]),
		Recipes: recipes.FS(), Works: jobspeerv1.NewWorkPeerServiceClient(c[jobs.Name]), Runs: jobspeerv1.NewRunPeerServiceClient(c[jobs.Name]),
		Lineage: jobspeerv1.NewRunLineagePeerServiceClient(c[jobs.Name]),
		RunData: ingestpeerv1.NewRunDataPeerServiceClient(c[ingest.Name]), Blobs: e.Blobs, Keyring: e.Keyring,
		Clock: e.Clock, IDs: e.IDs, Rand: e.Rand, Log: e.Log, Meter: e.Obs.Meter, PublicURL: d.url,
	})
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	p.byName[registry.Name].service = svc
	return nil
}

func (d *daemon) inference(ctx context.Context, p *parts) error {
	c, e, err := d.clients(p, inference.Name, registry.Name)
	if err != nil {
		return err
	}
	cfg := d.settings.Inference
	if cfg.Spool == "" {
		cfg.Spool = d.folder.in("spool")
	}
	identity, err := issue(d.keys.ca, inference.Name, d.clock)
	if err != nil {
		return err
	}
	svc, err := inference.New(ctx, cfg, inference.Deps{
		Pool: e.Pool, Snapshots: registrypeerv1.NewSnapshotServiceClient(c[registry.Name]), Sessions: registrypeerv1.NewPlaygroundPeerServiceClient(c[registry.Name]), Clock: e.Clock,
		Mono: clock.Monotonic(), IDs: e.IDs, Log: e.Log, Meter: e.Obs.Meter, Registry: e.Obs.Registry,
		EngineTLS: func(node string) *tls.Config { return pki.ClientTLS(identity, node) },
	})
	if err != nil {
		return fmt.Errorf("inference: %w", err)
	}
	p.byName[inference.Name].service = svc
	p.inference, p.calls = e.Hold(svc, "calls of inference", svc.Handler())
	return nil
}
