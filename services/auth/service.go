package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/internal/auditpeer"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/services/auth/internal/key"
	"github.com/signalbox-dev/signalbox/services/auth/internal/llm"
	"github.com/signalbox-dev/signalbox/services/auth/internal/loginlimit"
	"github.com/signalbox-dev/signalbox/services/auth/internal/maintenance"
	"github.com/signalbox-dev/signalbox/services/auth/internal/password"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
	"github.com/signalbox-dev/signalbox/services/auth/internal/setting"
)

// Name is the name of the service, of its database schema and of its identity at other services.
const Name = "auth"

// PeerNames lists the services that auth calls.
func PeerNames() []string { return []string{"jobs", "ingest", "registry", "inference"} }

// Deps holds what auth depends on.
type Deps struct {
	Pool    *pgxpool.Pool
	Keyring *secret.Keyring
	Quota   jobspeerv1.QuotaPeerServiceClient
	// Peers maps the names of services to connections. Auth calls services that store objects with owners, and
	// services whose audit it merges.
	Peers map[string]grpc.ClientConnInterface
	// Audit serves auth's own part of the audit.
	Audit *auditpeer.Server
	Clock clock.Clock
	IDs   *id.Source
	Rand  io.Reader
	Log   *slog.Logger
	// PublicURL returns the address at which browsers reach the installation. It is known once the gateway listens.
	PublicURL func() string
}

// Service is the auth service with its parts wired together.
type Service struct {
	deps      Deps
	cfg       Config
	limit     *loginlimit.Login
	keys      *key.Rotation
	sessions  *session.Sessions
	bootstrap *account.Bootstrap
	hub       *pg.NotifyHub
	gateways  *session.Gateways
	public    *session.Server
	peer      *session.PeerServer
	provider  provided
	teams     teams
	projects  projects
	settings  *setting.Settings
	mode      *maintenance.Switch
	agent     *llm.Tester
}

// Migrations returns the goose files of the auth schema.
func Migrations() (fs.FS, error) { return db.Migrations() }

// New wires the service. It loads the signing keys, or creates them at the first start. It starts no goroutine.
func New(ctx context.Context, cfg Config, d Deps) (*Service, error) {
	if d.Keyring == nil {
		return nil, errors.New("SERVICE_KEYRING must be set; auth encrypts its signing keys with it")
	}
	params := password.Params{MemoryKiB: uint32(cfg.HashMemoryKiB), Time: uint32(cfg.HashIterations), Threads: 1}
	hasher, err := password.New(params, password.Workers(cfg.HashParallel, runtime.GOMAXPROCS(0)), d.Rand)
	if err != nil {
		return nil, err
	}
	counter, trail := &loginlimit.Login{Pool: d.Pool}, audit.NewLog(d.Clock, d.IDs, Name)
	keys, err := openKeys(ctx, cfg, d, trail)
	if err != nil {
		return nil, err
	}
	sessions := &session.Sessions{
		Pool: d.Pool, Limit: counter, Password: hasher, Audit: trail, Clock: d.Clock, IDs: d.IDs, Rand: d.Rand,
		Access: session.NewAccess(keys.Ring.Of(key.Access), cfg.accessLife(), d.Clock),
	}
	signer := authn.NewSigner(d.Clock, func() string { return d.IDs.New(id.TokenRow) }, nil)
	hub := pg.NewNotifyHub()
	gateways := &session.Gateways{Pool: d.Pool, Hub: hub, Clock: d.Clock}
	public := &session.Server{Sessions: sessions, Accounts: account.NewLoader(d.Pool), Quota: d.Quota, PublicURL: d.PublicURL}
	provider, err := wireOIDC(cfg, d, sessions, public, trail)
	if err != nil {
		return nil, err
	}
	mode := wireMaintenance(d, trail)
	settings := wireSettings(d, trail)
	agent, err := wireAgent(cfg, d, settings, trail)
	if err != nil {
		return nil, err
	}
	return &Service{
		deps: d, cfg: cfg, limit: counter, keys: keys, sessions: sessions,
		bootstrap: &account.Bootstrap{
			Pool: d.Pool, Hasher: hasher, Audit: trail, Clock: d.Clock, IDs: d.IDs, Rand: d.Rand, Password: cfg.AdminPassword,
		},
		hub: hub, gateways: gateways, public: public,
		peer: &session.PeerServer{
			Sessions: sessions, Signer: signer, Keys: keys.Ring.Of(key.Caller), Gateways: gateways, Serving: mode.Serving,
		},
		provider: provider,
		teams:    wireTeam(d, trail),
		projects: wireProject(d, trail),
		settings: settings,
		mode:     mode,
		agent:    agent,
	}, nil
}

// Name returns the name of the service.
func (s *Service) Name() string { return Name }

// FirstLogin is the username and the password of the first admin.
type FirstLogin = account.FirstLogin

// Bootstrap creates the first admin and the default project if no account exists. If this call created the admin, it
// returns the login, so that the caller can show it once; otherwise it returns nil.
func (s *Service) Bootstrap(ctx context.Context) (*FirstLogin, error) { return s.bootstrap.Run(ctx) }

// Register registers auth's services on a server. Calls that change something return once every gateway applies the
// change.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	r = rpc.Settled(r, s.gateways.Settle)
	s.registerSettings(r, s.public)
	authpeerv1.RegisterCredentialServiceServer(r, s.peer)
	s.registerKeys(r)
	s.provider.register(r)
	s.teams.register(r)
	s.projects.register(r)
	s.registerTrail(r)
	s.registerDevice(r)
	s.registerOAuth(r)
	s.registerAccount(r)
	s.registerProfile(r)
}

// sweepEvery is the interval between two sweeps of expired rows, such as old login attempts.
const (
	sweepEvery  = 5 * time.Minute
	sweepJitter = time.Minute
	// saltsEvery is the interval between two deletions of the salts of exchanged refresh tokens.
	saltsEvery = 5 * time.Second
	// listenAgain is the pause before a lost connection for wake-ups is opened again.
	listenAgain = time.Second
)

// Workers returns auth's background loops.
func (s *Service) Workers() []process.Worker {
	sweep := process.Worker{Name: "auth.login-sweep", Run: func(ctx context.Context) error {
		return process.Loop(ctx, s.deps.Clock, sweepEvery, sweepJitter, process.Logged(s.deps.Log, "auth.login-sweep", s.limit.Sweep))
	}}
	return append([]process.Worker{
		sweep,
		{Name: "auth.wake", Run: func(ctx context.Context) error {
			listen := func(ctx context.Context) error { return s.hub.Listen(ctx, s.deps.Pool) }
			return process.Loop(ctx, s.deps.Clock, listenAgain, listenAgain/2, process.Logged(s.deps.Log, "auth.wake", listen))
		}},
		s.sweeping("auth.gateway-sweep", s.gateways.Sweep),
		s.rotating(),
		s.finishing(),
		{Name: "auth.refresh-salts", Run: func(ctx context.Context) error {
			forget := process.Logged(s.deps.Log, "auth.refresh-salts", s.sessions.ForgetSalts)
			return process.Loop(ctx, s.deps.Clock, saltsEvery, saltsEvery/5, forget)
		}},
		s.sweeping("auth.device-sweep", s.devices().Sweep),
		s.sweeping("auth.link-sweep", s.sessions.SweepLinks),
	}, s.provider.workers()...)
}

// Ready checks the database and its schema.
func (s *Service) Ready(ctx context.Context) error {
	files, err := db.Migrations()
	if err != nil {
		return fmt.Errorf("open the migrations: %w", err)
	}
	return migrate.Check(ctx, s.deps.Pool, Name, files)
}
