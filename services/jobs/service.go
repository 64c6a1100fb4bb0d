package jobs

import (
	"context"
	"io"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/cluster"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/hardware"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobapi"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/lifecycle"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	jobrun "github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	jobqueue "github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/share"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/transfer"
)

// Name is the service's name, which is also the name of its database schema, of its identity and of its group of
// settings.
const Name = "jobs"

// NodeCA signs the certificates of nodes with the internal CA.
type NodeCA interface {
	SignNode(requestPEM []byte, nodeID string) (certPEM, caPEM []byte, err error)
}

// Deps are the service's dependencies.
type Deps struct {
	Pool     *pgxpool.Pool
	Projects authpeerv1.ProjectServiceClient
	Accounts authpeerv1.AccountPeerServiceClient
	Catalog  registrypeerv1.CatalogPeerServiceClient
	RunData  ingestpeerv1.RunDataPeerServiceClient
	Blobs    assignment.Signer // a blob.Store
	CA       NodeCA
	// Keyring encrypts the engines' API keys at rest.
	Keyring *secret.Keyring
	Clock   clock.Clock
	IDs     *id.Source
	Rand    io.Reader
	Log     *slog.Logger
	// PublicURL is the address at which users and training processes reach the platform. AgentAddress is the host:port
	// of the agents' listener; it is empty if only an agent in this process can connect. Both are functions, because
	// the addresses are known only after the listeners are open.
	PublicURL    func() string
	AgentAddress func() string
}

// Service is the jobs service. New creates it.
type Service struct {
	cfg       Config
	deps      Deps
	hub       *pg.NotifyHub
	queue     *bgjob.Client
	keys      *idempotency.Store
	liveness  *fleet.Liveness
	registrar *fleet.Registrar
	scheduler *jobqueue.Scheduler
	reconcile *lifecycle.Reconciler
	driver    *lifecycle.Driver
	orders    *cluster.Orders
	hardware  *hardware.Copy

	jobs   *jobapi.Server
	runs   *jobrun.Server
	fleets *fleet.Server
	nodes  *cluster.Server
	series *hardware.Server
	agents *assignment.AgentServer
	quotas *quota.Server
	shares *share.Server
	shared *share.PublicServer

	runPeer   *jobrun.PeerServer
	quotaPeer *quota.PeerServer
	workPeer  *assignment.PeerServer
	ownerPeer *transfer.Server
}

// Migrations are the goose files of the jobs schema.
func Migrations() fs.FS { return db.Migrations }

// New assembles the service. It starts no goroutine.
func New(_ context.Context, cfg Config, d Deps) (*Service, error) {
	s := &Service{cfg: cfg, deps: d, hub: pg.NewNotifyHub(), keys: idempotency.New(d.Clock)}
	workers := river.NewWorkers()
	closer := &jobrun.Closer{Pool: d.Pool, Ingest: d.RunData, Clock: d.Clock}
	if err := river.AddWorkerSafely(workers, closer); err != nil {
		return nil, err
	}
	settler := &hardware.Settler{
		Pool: d.Pool, Hub: s.hub, Clock: d.Clock, Audit: audit.NewLog(d.Clock, d.IDs, Name), Events: event.NewLog(d.Clock, d.IDs, Name),
	}
	if err := river.AddWorkerSafely(workers, settler); err != nil {
		return nil, err
	}
	client, err := bgjob.New(d.Pool, bgjob.Config{Schema: Name, Workers: workers, JobTimeout: jobrun.CloseTimeout, Log: d.Log})
	if err != nil {
		return nil, err
	}
	s.queue = client
	s.wire()
	return s, nil
}

// Name returns the service's name.
func (s *Service) Name() string { return Name }

// Register registers the service's gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	jobsv1.RegisterJobServiceServer(r, s.jobs)
	jobsv1.RegisterRunServiceServer(r, s.runs)
	jobsv1.RegisterFleetServiceServer(r, s.fleets)
	jobsv1.RegisterClusterServiceServer(r, s.nodes)
	jobsv1.RegisterHardwareServiceServer(r, s.series)
	jobsv1.RegisterAgentServiceServer(r, s.agents)
	jobsv1.RegisterQuotaServiceServer(r, s.quotas)
	jobsv1.RegisterShareServiceServer(r, s.shares)
	jobsv1.RegisterSharedServiceServer(r, s.shared)
	jobspeerv1.RegisterRunPeerServiceServer(r, s.runPeer)
	jobspeerv1.RegisterQuotaPeerServiceServer(r, s.quotaPeer)
	jobspeerv1.RegisterWorkPeerServiceServer(r, s.workPeer)
	commonpeerv1.RegisterOwnerPeerServiceServer(r, s.ownerPeer)
}

// Ready checks the database and its schema.
func (s *Service) Ready(ctx context.Context) error {
	return migrate.Check(ctx, s.deps.Pool, Name, Migrations())
}
