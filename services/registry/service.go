package registry

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/catalog"
	"github.com/signalbox-dev/signalbox/services/registry/internal/codepackage"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/enginesync"
	"github.com/signalbox-dev/signalbox/services/registry/internal/environment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/playground"
	"github.com/signalbox-dev/signalbox/services/registry/internal/recipe"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
	"github.com/signalbox-dev/signalbox/services/registry/internal/rubric"
	"github.com/signalbox-dev/signalbox/services/registry/internal/snapshot"
	"github.com/signalbox-dev/signalbox/services/registry/internal/solution"
	"github.com/signalbox-dev/signalbox/services/registry/internal/transfer"
)

// Name is the name of the service, of its schema and of its identity to other services.
const Name = "registry"

// Deps are the dependencies of the registry.
type Deps struct {
	Pool     *pgxpool.Pool
	Projects authpeerv1.ProjectServiceClient
	Runs     jobspeerv1.RunPeerServiceClient
	Lineage  jobspeerv1.RunLineagePeerServiceClient
	Works    jobspeerv1.WorkPeerServiceClient
	RunData  ingestpeerv1.RunDataPeerServiceClient
	Blobs    blob.Store
	// Recipes holds the built-in recipe catalog: recipes.FS().
	Recipes fs.FS
	// Keyring encrypts the API keys of engines at rest.
	Keyring *secret.Keyring
	Clock   clock.Clock
	IDs     *id.Source
	Rand    io.Reader
	Log     *slog.Logger
	Meter   metric.MeterProvider // may be nil
	// PublicURL returns the address that clients use. It is known once the gateway listens.
	PublicURL func() string
}

// Service is the registry. New creates it.
type Service struct {
	cfg     Config
	deps    Deps
	hub     *pg.NotifyHub
	queue   *bgjob.Client
	seeder  *recipe.Seeder
	ledger  *epoch.Ledger
	watcher *enginesync.Watcher
	sweeper *retention.Sweeper

	recipes      *recipe.Server
	datasets     *dataset.Server
	packages     *codepackage.Server
	environments *environment.Server
	rubrics      *rubric.Server
	solutions    *solution.Server
	applications *solution.Applications

	models      *model.Server
	deployments *deployment.Server
	playgrounds *playground.Server
	tries       *playground.Changer
	snapshots   *snapshot.Server
	catalog     *catalog.Server
	lineage     *catalog.LineageServer
	owners      *transfer.Server
}

// Migrations returns the goose migrations of the registry schema.
func Migrations() (fs.FS, error) { return db.Migrations() }

// New builds the service. It starts nothing.
func New(_ context.Context, cfg Config, d Deps) (*Service, error) {
	s := &Service{cfg: cfg, deps: d, hub: pg.NewNotifyHub()}
	revisions := &revision.Store{Keys: d.Keyring}
	orderer := &enginesync.Orderer{Pool: d.Pool, Revisions: revisions, Works: d.Works}
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, orderer); err != nil {
		return nil, fmt.Errorf("register the engine order worker: %w", err)
	}
	if err := river.AddWorkerSafely(workers, &catalog.Protector{Runs: d.Runs}); err != nil {
		return nil, fmt.Errorf("register the protection worker: %w", err)
	}
	if err := s.validator(workers); err != nil {
		return nil, err
	}
	client, err := bgjob.New(d.Pool, bgjob.Config{Schema: Name, Workers: workers, Log: d.Log})
	if err != nil {
		return nil, err
	}
	s.queue = client
	if err := s.wire(revisions, orderer); err != nil {
		return nil, err
	}
	return s, nil
}

// Name returns the service's name.
func (s *Service) Name() string { return Name }

// Register registers the service's methods on r.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	registryv1.RegisterRecipeServiceServer(r, s.recipes)
	registryv1.RegisterDatasetServiceServer(r, s.datasets)
	registryv1.RegisterPackageServiceServer(r, s.packages)
	registryv1.RegisterEnvironmentServiceServer(r, s.environments)
	registryv1.RegisterRubricServiceServer(r, s.rubrics)
	registryv1.RegisterSolutionServiceServer(r, s.solutions)
	registryv1.RegisterSolutionApplicationServiceServer(r, s.applications)
	registryv1.RegisterModelServiceServer(r, s.models)
	registryv1.RegisterDeploymentServiceServer(r, s.deployments)
	registryv1.RegisterPlaygroundServiceServer(r, s.playgrounds)
	registrypeerv1.RegisterPlaygroundPeerServiceServer(r, &playground.PeerServer{Server: s.playgrounds})
	registrypeerv1.RegisterSnapshotServiceServer(r, s.snapshots)
	registrypeerv1.RegisterCatalogPeerServiceServer(r, s.catalog)
	registryv1.RegisterLineageServiceServer(r, s.lineage)
	commonpeerv1.RegisterOwnerPeerServiceServer(r, s.owners)
	searchv1.RegisterSearchServiceServer(r, &catalog.FindServer{Pool: s.deps.Pool})
}

// Ready checks that the database is reachable and its schema is current.
func (s *Service) Ready(ctx context.Context) error {
	files, err := db.Migrations()
	if err != nil {
		return fmt.Errorf("open the migrations: %w", err)
	}
	return migrate.Check(ctx, s.deps.Pool, Name, files)
}
