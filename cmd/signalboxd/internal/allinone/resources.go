package allinone

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/httpguard"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/inference"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/services/registry"
)

// daemon holds what the parts of the process share.
type daemon struct {
	settings *Settings
	loaded   *conf.Loaded
	options  Options
	closers  *process.Closers

	obs      *obs.Obs
	clock    clock.Clock
	ids      *id.Source
	folder   *folder
	keys     keys
	sealing  boot.Sealing
	listener net.Listener
	agents   *rpc.Listener // for agents on other hosts, nil if not configured
	bus      *rpc.Bus
	postgres *local.Server
	access   map[string]migrate.Credentials
	objects  objectstore.Opened
	first    *auth.FirstLogin

	signInLink func(context.Context) (auth.SignInLink, error)
}

// open first takes what another process could hold, the folder and the port, so that a conflict is reported
// before anything is started.
func open(ctx context.Context, s *Settings, loaded *conf.Loaded, o Options, closers *process.Closers) (*daemon, error) {
	d := &daemon{settings: s, loaded: loaded, options: o, closers: closers, clock: clock.Real()}
	d.ids = id.NewSource(d.clock, rand.Reader)
	var err error
	if d.obs, err = obs.Setup(ctx, obs.Config{
		Service: "signalboxd", Version: version.Server(), LogLevel: s.Common.Obs.LogLevel,
		LogFormat: s.Common.Obs.LogFormat, OTLPEndpoint: s.Common.Obs.OTLPEndpoint,
	}, o.Log); err != nil {
		return nil, fmt.Errorf("set up logs and traces: %w", err)
	}
	closers.Add("telemetry", d.obs.Shutdown)
	for _, w := range loaded.Warnings {
		d.obs.Log.WarnContext(ctx, "unused setting", "setting", w)
	}
	if err := s.agent(s.Data).CheckPrivate(); err != nil {
		return nil, err
	}
	if err := d.freeSpace(ctx); err != nil {
		return nil, err
	}
	if d.folder, err = openFolder(s.Data); err != nil {
		return nil, err
	}
	closers.Add("data folder", func(context.Context) error { return d.folder.close() })
	if d.listener, err = d.folder.listen(s.Gateway.Listen.Addr); err != nil {
		return nil, err
	}
	closers.Add("listener", func(context.Context) error { return ignoreClosed(d.listener.Close()) })
	if d.keys, err = d.folder.keys(d.clock.Now()); err != nil {
		return nil, err
	}
	if err := d.keys.override(s.Common); err != nil {
		return nil, err
	}
	if err := d.listenForAgents(); err != nil {
		return nil, err
	}
	if d.agents != nil {
		closers.Add("listener for agents", func(context.Context) error { return ignoreClosed(d.agents.Close()) })
	}
	if d.sealing, err = boot.OpenSealing(boot.Audit{
		Key: d.keys.audit, Dir: cmp.Or(s.Common.Audit.Dir, d.folder.in("audit")), RevocationDays: s.Common.Audit.RevocationDays,
	}); err != nil {
		return nil, err
	}
	d.bus = rpc.Memory(rpc.ClientOptions{Clock: d.clock, Telemetry: rpc.Telemetry{Tracer: d.obs.Tracer, Meter: d.obs.Meter}})
	return d, d.openDatabase(ctx)
}

// freeSpace makes room for the start if the disk is full.
func (d *daemon) freeSpace(ctx context.Context) error {
	return agent.FreeSpace(ctx, d.settings.agent(d.settings.Data), d.obs.Logger("agent"))
}

// listen listens on the public address. If the address is in use, the error names it.
func listen(addr string) (net.Listener, error) {
	l, err := httpguard.Listen(context.Background(), addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the address %s is in use by another process; choose another with --listen", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// openDatabase starts a Postgres server if the settings name none, and migrates every schema to this version.
func (d *daemon) openDatabase(ctx context.Context) error {
	admin, seed := d.settings.Postgres.AdminURL, d.keys.audit
	if admin.IsZero() {
		bin, err := local.Find(d.settings.Postgres.Bin, d.settings.Postgres.CacheDir)
		if err != nil && d.settings.Postgres.Bin != "" {
			return fmt.Errorf("SERVICE_POSTGRES_BIN: %w", err)
		}
		if err != nil {
			return err
		}
		d.postgres, err = local.Start(ctx, local.Config{
			BinDir: bin, Dir: d.folder.in("postgres"), Entropy: rand.Reader, Log: d.obs.Logger("postgres"), Meter: d.obs.Meter,
		})
		if err != nil {
			return fmt.Errorf("start Postgres: %w", err)
		}
		d.closers.Add("postgres", d.postgres.Stop)
		admin, seed = d.postgres.AdminURL(), d.postgres.Password()
	}
	return d.migrate(ctx, admin, seed)
}

// schemas returns the migrations of the five services by the services' names.
func schemas() (map[string]fs.FS, error) {
	out := map[string]fs.FS{jobs.Name: jobs.Migrations()}
	for name, files := range map[string]func() (fs.FS, error){
		auth.Name: auth.Migrations, ingest.Name: ingest.Migrations, registry.Name: registry.Migrations,
		inference.Name: inference.Migrations,
	} {
		var err error
		if out[name], err = files(); err != nil {
			return nil, fmt.Errorf("open the migrations of %s: %w", name, err)
		}
	}
	return out, nil
}

func (d *daemon) migrate(ctx context.Context, admin, seed secret.String) error {
	all, err := schemas()
	if err != nil {
		return err
	}
	names := []string{auth.Name, jobs.Name, ingest.Name, registry.Name, inference.Name}
	d.access, err = migrate.Bootstrap(ctx, migrate.RoleConfig{
		AdminURL: admin, Database: d.settings.Postgres.Database, Services: names, Seed: seed,
	})
	if err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range names {
		group.Go(func() error {
			if err := migrate.Up(ctx, d.access[name].OwnerURL, name, all[name]); err != nil {
				return fmt.Errorf("migrate %s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// env creates the Env of one service, with its database pool.
func (d *daemon) env(ctx context.Context, name string) (*boot.Env, error) {
	e := boot.NewEnv(name, d.obs, d.clock, d.ids, d.bus.As(name))
	e.Keyring, e.PublicURL, e.Stop, e.Sealing, e.Blobs = d.keys.ring, d.url, d.settings.Common.Stop, d.sealing, d.objects.Store
	e.Ages = d.settings.Common.Ages()
	creds, ok := d.access[name]
	if !ok {
		return e, nil
	}
	err := e.OpenPool(ctx, d.closers, conf.Postgres{URL: creds.URL, MaxConns: poolSize, StatementTimeout: statementTimeout}, false)
	if err != nil {
		return nil, err
	}
	return e, e.OpenRevocations(d.closers)
}

// openObjects opens the object store. It is in the data folder unless the settings name another place.
func (d *daemon) openObjects() error {
	c := d.settings.Common.Blob
	if c.Driver == conf.BlobFS {
		if c.Root == "" {
			c.Root = d.folder.in("objects")
		}
		if c.SigningKey.IsZero() {
			c.SigningKey = d.keys.blobs
		}
	}
	e := boot.NewEnv("objects", d.obs, d.clock, d.ids, nil)
	e.PublicURL = d.url
	var err error
	d.objects, err = e.OpenBlobs(d.closers, c)
	return err
}
