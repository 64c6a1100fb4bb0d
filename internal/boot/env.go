// Package boot starts every Signalbox process: it reads the settings, sets up logs and the network, opens the
// database pool and the object store, and calls the service's New. A process with one service and a process with all
// services differ only in the Env that they pass to the services.
package boot

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Env holds what is needed to create any of the services.
type Env struct {
	Name    string
	Log     *slog.Logger
	Obs     *obs.Obs
	Clock   clock.Clock
	IDs     *id.Source
	Rand    io.Reader
	Net     rpc.Network
	Pool    *pgxpool.Pool
	Blobs   blob.Store
	Keyring *secret.Keyring
	// PublicURL must not be called before the gateway listens.
	PublicURL func() string
	Stop      conf.Stop
	Sealing   Sealing
	// Ages are the retention ages of the rows that every service has.
	Ages Ages

	conns      map[string]*grpc.ClientConn
	durability *pg.Durability // watches the server of Pool; nil if Pool accepts an unsafe server
	// revocations is the journal of the schema; nil before OpenRevocations.
	revocations *audit.Revocations
}

// Service is one of the services that a process can run.
type Service interface {
	Name() string
	Register(r grpc.ServiceRegistrar)
	Workers() []process.Worker
	Ready(ctx context.Context) error
}

// Server is a service whose ability to serve differs from the check at its start. Serves returns the reason why it cannot
// serve now, or nil.
type Server interface {
	Serves(ctx context.Context) error
}

// NewEnv creates an Env with the parts that need no settings.
func NewEnv(name string, o *obs.Obs, clk clock.Clock, ids *id.Source, network rpc.Network) *Env {
	return &Env{
		Name: name, Log: o.Logger(name), Obs: o, Clock: clk, IDs: ids, Rand: rand.Reader, Net: network,
		conns: map[string]*grpc.ClientConn{},
	}
}

// Dial returns the shared connection to a service. The first call creates it. It connects when it is first used, so
// services that need each other can start in any order.
func (e *Env) Dial(closers *process.Closers, name string) (*grpc.ClientConn, error) {
	if c, ok := e.conns[name]; ok {
		return c, nil
	}
	c, err := e.Net.Dial(name)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", name, err)
	}
	closers.Add(e.Name+" to "+name, func(context.Context) error { return c.Close() })
	e.conns[name] = c
	return c, nil
}

// DialAll calls Dial for each name and returns the connections by name.
func (e *Env) DialAll(closers *process.Closers, names ...string) (map[string]*grpc.ClientConn, error) {
	out := make(map[string]*grpc.ClientConn, len(names))
	for _, name := range names {
		c, err := e.Dial(closers, name)
		if err != nil {
			return nil, err
		}
		out[name] = c
	}
	return out, nil
}

// Peers converts dialled connections to the interface from which services create their clients.
func Peers(dialled map[string]*grpc.ClientConn) map[string]grpc.ClientConnInterface {
	out := make(map[string]grpc.ClientConnInterface, len(dialled))
	for name, c := range dialled {
		out[name] = c
	}
	return out
}

// OpenPool opens the connection pool of the service's schema and sets e.Pool. Unless the parameter unsafe is true, the
// pool refuses writes while the server may lose committed rows.
func (e *Env) OpenPool(ctx context.Context, closers *process.Closers, c conf.Postgres, unsafe bool) (err error) {
	if !unsafe {
		if e.durability, err = pg.NewDurability(e.Name, e.Log, e.Obs.Meter, e.recordDurability); err != nil {
			return err
		}
	}
	pool, err := pg.Open(ctx, pg.Config{
		URL: c.URL, MaxConns: c.MaxConns, StatementTimeout: c.StatementTimeout, AllowUnsafe: unsafe, Tracer: e.Obs.Tracer,
		Durability: e.durability,
	}, e.Name, e.Log)
	if err != nil {
		return fmt.Errorf("open the %s schema: %w", e.Name, err)
	}
	closers.Add(e.Name+" pool", func(context.Context) error { pool.Close(); return nil })
	e.Pool = pool
	if err := pg.CheckLocale(ctx, pool, e.Log); err != nil {
		e.Log.WarnContext(ctx, "could not check the locale of the database", "error", err)
	}
	return nil
}

// AuthKeys returns a function that fetches the public keys of caller tokens from auth.
func AuthKeys(conn grpc.ClientConnInterface) authn.FetchKeys {
	client := authpeerv1.NewCredentialServiceClient(conn)
	return func(ctx context.Context) ([]authn.PublicKey, error) {
		out, err := client.GetCallerKeys(ctx, &authpeerv1.GetCallerKeysRequest{})
		if err != nil {
			return nil, fmt.Errorf("fetch the caller keys: %w", err)
		}
		keys := make([]authn.PublicKey, 0, len(out.GetKeys()))
		for _, k := range out.GetKeys() {
			keys = append(keys, authn.PublicKey{ID: k.GetKid(), Key: k.GetPublicKey()})
		}
		return keys, nil
	}
}

// RoleKeeper is a service that stores the project roles of accounts. Only auth implements it.
type RoleKeeper interface {
	ProjectRoles(ctx context.Context, accountID string) ([]authn.ProjectRole, error)
}

// roles returns the function that fetches all project roles of an account, for an account with more roles than fit
// into a caller token. If svc is auth, the function reads them from svc, otherwise it calls auth. Without a
// connection to auth the result is nil.
func (e *Env) roles(svc Service) authn.FetchRoles {
	if keeper, ok := svc.(RoleKeeper); ok {
		return keeper.ProjectRoles
	}
	conn, ok := e.conns["auth"]
	if !ok {
		return nil
	}
	client := authpeerv1.NewAccountPeerServiceClient(conn)
	return func(ctx context.Context, accountID string) ([]authn.ProjectRole, error) {
		out, err := client.ListProjectRoles(ctx, &authpeerv1.ListProjectRolesRequest{AccountId: accountID})
		if err != nil {
			return nil, err
		}
		roles := make([]authn.ProjectRole, 0, len(out.GetRoles()))
		for _, r := range out.GetRoles() {
			roles = append(roles, authn.ProjectRole{Project: r.GetProjectId(), Role: r.GetRole()})
		}
		return roles, nil
	}
}

// archived returns the function that reports whether a project is archived. The result is nil for auth, which locks its
// own rows instead, and for a process without a connection to auth.
func (e *Env) archived(svc Service) authn.FetchArchived {
	_, keeper := svc.(RoleKeeper)
	conn, ok := e.conns["auth"]
	if keeper || !ok {
		return nil
	}
	client := authpeerv1.NewProjectServiceClient(conn)
	return func(ctx context.Context, projectID string) (bool, error) {
		out, err := client.GetProject(ctx, &authpeerv1.GetProjectRequest{Project: projectID})
		if err != nil {
			return false, err
		}
		return out.GetArchived(), nil
	}
}

// Serve returns the workers of a service: its gRPC server on the listeners, its background loops, the sealer of its
// audit log, the workers that delete old rows, watch the durability of the database and write the journal of
// revocations and, if the service stores secrets, the worker that re-encrypts them.
func (e *Env) Serve(svc Service, keys authn.FetchKeys, listeners ...*rpc.Listener) ([]process.Worker, error) {
	server := rpc.NewServer(rpc.ServerOptions{
		Service: svc.Name(), Log: e.Log, Clock: e.Clock,
		NewRequestID: e.newRequestID,
		Verifier:     authn.NewVerifier(e.Clock, authn.NewKeys(e.Clock, keys)),
		Roles:        e.roles(svc),
		Archived:     e.archived(svc),
		Classify:     pg.Classify,
		Telemetry:    e.telemetry(),
		StopTimeout:  max(e.Stop.StopGrace, time.Millisecond), // zero would mean the server's default
	})
	svc.Register(e.journaled(server))
	commonpeerv1.RegisterAuditPeerServiceServer(server, e.AuditPeer())
	if err := server.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", svc.Name(), err)
	}
	serve := process.Worker{
		Name: svc.Name() + ".grpc",
		Run:  func(ctx context.Context) error { return server.Serve(ctx, listeners...) },
		Ready: func(ctx context.Context) error {
			if err := svc.Ready(ctx); err != nil {
				return err
			}
			server.SetServing(true)
			return nil
		},
	}
	if own, ok := svc.(Server); ok {
		serve.Serves = own.Serves
	}
	workers := []process.Worker{serve}
	if loops := svc.Workers(); len(loops) > 0 {
		workers = append(workers, process.Worker{
			Name: svc.Name() + ".loops",
			Run:  func(ctx context.Context) error { return process.Group(ctx, loops...) },
		})
	}
	if keeper, ok := svc.(SecretKeeper); ok {
		if e.Keyring == nil {
			return nil, fmt.Errorf("SERVICE_KEYRING must be set: %s encrypts secrets with it", svc.Name())
		}
		workers = append(workers, e.resealer(keeper))
	}
	sealer, err := e.sealer()
	if err != nil {
		return nil, err
	}
	old, err := e.retention(svc)
	if err != nil {
		return nil, err
	}
	workers = append(append(workers, e.durabilityWorkers()...), sealer, old)
	return append(workers, e.revocationWorkers()...), nil
}

// durabilityWorkers returns the worker that watches the durability of the database, or nothing if the pool accepts an
// unsafe server.
func (e *Env) durabilityWorkers() []process.Worker {
	if e.durability == nil {
		return nil
	}
	return []process.Worker{{
		Name: e.Name + ".durability",
		Run:  func(ctx context.Context) error { return e.durability.Run(ctx, e.Clock, e.Pool) },
	}}
}

// recordDurability writes an audit row when the database server becomes able to lose commits in a crash, because the
// listed settings are turned off, and another row when this is no longer so. The first row itself can be lost.
func (e *Env) recordDurability(ctx context.Context, off []string) error {
	entry := audit.Entry{Action: "database.safe", TargetKind: "database", TargetID: e.Name, After: map[string]any{"writes": "accepted"}}
	if len(off) > 0 {
		entry.Action, entry.After = "database.unsafe", map[string]any{"writes": "refused", "off": off}
	}
	return pg.InTx(ctx, e.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := pg.AllowWrites(ctx, tx); err != nil {
			return err
		}
		return audit.NewLog(e.Clock, e.IDs, e.Name).Record(ctx, tx, entry)
	})
}

func (e *Env) newRequestID() string { return e.IDs.New(id.Request) }

func (e *Env) telemetry() rpc.Telemetry {
	return rpc.Telemetry{Tracer: e.Obs.Tracer, Meter: e.Obs.Meter}
}
