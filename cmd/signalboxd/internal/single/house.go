package single

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

	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/blob/driver"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/pg/role"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth"
	"github.com/signalbox-dev/signalbox/services/inference"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/services/jobs"
	"github.com/signalbox-dev/signalbox/services/registry"
)

// house is what the parts of the process share.
type house struct {
	settings *Settings
	loaded   *conf.Loaded
	options  Options
	closers  *run.Closers

	obs      *obs.Obs
	clock    clock.Clock
	ids      *id.Source
	folder   *folder
	keys     keys
	sealing  boot.Sealing
	listener net.Listener
	agents   *rpc.Listener // for agents of other hosts, nil where there are none
	bus      *rpc.Bus
	postgres *local.Server
	access   map[string]role.Credentials
	objects  driver.Opened
	first    *auth.FirstLogin
}

// open takes what another process could hold first (the folder, the port), so that a clash is named
// before anything is started.
func open(ctx context.Context, s *Settings, loaded *conf.Loaded, o Options, closers *run.Closers) (*house, error) {
	h := &house{settings: s, loaded: loaded, options: o, closers: closers, clock: clock.Real()}
	h.ids = id.NewSource(h.clock, rand.Reader)
	var err error
	if h.obs, err = obs.Setup(ctx, obs.Config{
		Service: "signalboxd", Version: version.Server(), LogLevel: s.Common.Obs.LogLevel,
		LogFormat: s.Common.Obs.LogFormat, OTLPEndpoint: s.Common.Obs.OTLPEndpoint,
	}, o.Log); err != nil {
		return nil, fmt.Errorf("set up logs and traces: %w", err)
	}
	closers.Add("telemetry", h.obs.Shutdown)
	for _, w := range loaded.Warnings {
		h.obs.Log.WarnContext(ctx, "a setting that nothing reads", "setting", w)
	}
	if h.folder, err = openFolder(s.Data); err != nil {
		return nil, err
	}
	closers.Add("data folder", func(context.Context) error { return h.folder.close() })
	if h.listener, err = h.folder.listen(s.Gateway.Listen.Addr); err != nil {
		return nil, err
	}
	closers.Add("listener", func(context.Context) error { return ignoreClosed(h.listener.Close()) })
	if h.keys, err = h.folder.keys(h.clock.Now()); err != nil {
		return nil, err
	}
	if err := h.keys.given(s.Common); err != nil {
		return nil, err
	}
	if err := h.listenForAgents(); err != nil {
		return nil, err
	}
	if h.agents != nil {
		closers.Add("listener for agents", func(context.Context) error { return ignoreClosed(h.agents.Close()) })
	}
	if h.sealing, err = boot.OpenSealing(boot.Audit{Key: h.keys.audit, Dir: cmp.Or(s.Common.Audit.Dir, h.folder.in("audit"))}); err != nil {
		return nil, err
	}
	h.bus = rpc.Memory(rpc.ClientOptions{Clock: h.clock, Telemetry: rpc.Telemetry{Tracer: h.obs.Tracer, Meter: h.obs.Meter}})
	return h, h.openDatabase(ctx)
}

// listen takes the public address, or names it where it is taken.
func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr) //nolint:noctx // it answers at once.
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the address %s is in use by another process: choose one with --listen", addr)
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

// openDatabase starts the server where none is given, and brings every schema to this version.
func (h *house) openDatabase(ctx context.Context) error {
	admin, seed := h.settings.Postgres.AdminURL, h.keys.audit
	if admin.IsZero() {
		bin, err := local.Find(h.settings.Postgres.Bin, h.settings.Postgres.CacheDir)
		if err != nil && h.settings.Postgres.Bin != "" {
			return fmt.Errorf("SERVICE_POSTGRES_BIN: %w", err)
		}
		if err != nil {
			return err
		}
		h.postgres, err = local.Start(ctx, local.Config{BinDir: bin, Dir: h.folder.in("postgres"), Entropy: rand.Reader})
		if err != nil {
			return fmt.Errorf("start Postgres: %w", err)
		}
		h.closers.Add("postgres", h.postgres.Stop)
		admin, seed = h.postgres.AdminURL(), h.postgres.Password()
	}
	return h.migrate(ctx, admin, seed)
}

// schemas are the migrations of the five services.
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

func (h *house) migrate(ctx context.Context, admin, seed secret.String) error {
	all, err := schemas()
	if err != nil {
		return err
	}
	names := []string{auth.Name, jobs.Name, ingest.Name, registry.Name, inference.Name}
	h.access, err = role.Bootstrap(ctx, role.Config{
		AdminURL: admin, Database: h.settings.Postgres.Database, Services: names, Seed: seed,
	})
	if err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range names {
		group.Go(func() error {
			if err := migrate.Up(ctx, h.access[name].OwnerURL, name, all[name]); err != nil {
				return fmt.Errorf("migrate %s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// env is the Env of one service, with its pool.
func (h *house) env(ctx context.Context, name string) (*boot.Env, error) {
	e := boot.NewEnv(name, h.obs, h.clock, h.ids, h.bus.As(name))
	e.Keyring, e.PublicURL, e.Stop, e.Sealing, e.Blobs = h.keys.ring, h.url, h.settings.Common.Stop, h.sealing, h.objects.Store
	creds, ok := h.access[name]
	if !ok {
		return e, nil
	}
	return e, e.OpenPool(ctx, h.closers, conf.Postgres{URL: creds.URL, MaxConns: poolSize, StatementTimeout: statementTimeout}, false)
}

// openObjects opens the object store, in the data folder where nothing else is set.
func (h *house) openObjects() error {
	c := h.settings.Common.Blob
	if c.Driver == conf.BlobFS {
		if c.Root == "" {
			c.Root = h.folder.in("objects")
		}
		if c.SigningKey.IsZero() {
			c.SigningKey = h.keys.blobs
		}
	}
	e := boot.NewEnv("objects", h.obs, h.clock, h.ids, nil)
	e.PublicURL = h.url
	var err error
	h.objects, err = e.OpenBlobs(h.closers, c)
	return err
}
