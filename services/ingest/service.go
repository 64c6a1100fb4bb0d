package ingest

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/follow"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/httpapi"
	points "github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/read"
	ingestrun "github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/transfer"
)

// Name is the name of the service. Its database schema, its identity and its group of settings have the same name.
const Name = "ingest"

// Deps holds the dependencies of the service.
type Deps struct {
	Pool  *pgxpool.Pool
	Runs  jobspeerv1.RunPeerServiceClient
	Blobs blob.Store
	Clock clock.Clock
	IDs   *id.Source
	Log   *slog.Logger
	Meter metric.MeterProvider // may be nil
}

// Service is the assembled ingest service.
type Service struct {
	deps        Deps
	rows        *ingestrun.Store
	quota       *groupcommit.Quota
	commit      *groupcommit.Committer
	compactor   *points.Compactor
	hub         *follow.Hub
	live        *follow.Wakeups // nil without Redis
	signals     *ingestrun.ControlBoard
	handler     *httpapi.Handler
	download    *httpapi.LogDownload
	export      *httpapi.MetricExport
	public      *read.Server
	peer        *read.PeerServer
	owners      *transfer.Server
	comparison  *read.CompareServer
	evaluations *evaluation.Server
	cfg         Config
	sweeper     *retention.Sweeper
	keeper      *artifact.Keeper
	freed       func(ctx context.Context, bytes int64)
}

// Migrations returns the goose files of the ingest schema.
func Migrations() (fs.FS, error) { return db.Migrations() }

// New assembles the service. It starts no goroutine.
func New(_ context.Context, cfg Config, d Deps) (*Service, error) {
	s := &Service{cfg: cfg, deps: d, rows: &ingestrun.Store{Pool: d.Pool, Clock: d.Clock}, hub: follow.NewHub(d.Clock)}
	if !cfg.RedisURL.IsZero() {
		l, err := follow.NewWakeups(cfg.RedisURL, d.Clock, d.Log)
		if err != nil {
			return nil, err
		}
		follow.UseRedisLog(d.Log)
		s.live = l
	}
	s.sweeper = &retention.Sweeper{
		Objects: d.Blobs, Pool: d.Pool, Prefix: artifact.ObjectPrefix, LockSQL: artifact.LockObjectsSQL, Unused: artifact.UnusedObjects,
	}
	var err error
	if s.quota, err = groupcommit.NewQuota(cfg.limits(), d.Meter); err != nil {
		return nil, err
	}
	s.commit = groupcommit.New(d.Pool, d.Clock, s.quota, s.changed)
	if s.commit.Meters, err = groupcommit.NewMeters(d.Meter); err != nil {
		return nil, err
	}
	s.signals = ingestrun.NewControlBoard(d.Clock, s.nextSignal)
	return s, s.wire()
}

// changed wakes the followers on this replica at once. If Redis is configured, it also wakes the followers on other
// replicas, which otherwise wait for the database notification.
func (s *Service) changed(runs []string) {
	s.hub.Wake(runs)
	if s.live != nil {
		s.live.Notify(runs)
	}
}

// Name returns the service's name.
func (s *Service) Name() string { return Name }

// Register registers the gRPC services of ingest.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	ingestv1.RegisterRunDataServiceServer(r, s.public)
	ingestv1.RegisterRunComparisonServiceServer(r, s.comparison)
	ingestv1.RegisterAgentEvaluationServiceServer(r, s.evaluations)
	ingestpeerv1.RegisterRunDataPeerServiceServer(r, s.peer)
	commonpeerv1.RegisterOwnerPeerServiceServer(r, s.owners)
}

// Handler returns the handler for /api/ingest and for the downloads of logs and metrics.
func (s *Service) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.export.Match(r.URL.Path); ok {
			s.export.ServeHTTP(w, r)
			return
		}
		if _, ok := s.download.Match(r.URL.Path); ok {
			s.download.ServeHTTP(w, r)
			return
		}
		s.handler.ServeHTTP(w, r)
	})
}

// Bounds of the backoff before a lost connection or stream is opened again.
const (
	listenLeast = 100 * time.Millisecond
	listenMost  = 5 * time.Second
)

// Workers returns the background loops of the service.
func (s *Service) Workers() []process.Worker {
	workers := []process.Worker{
		{Name: "ingest.commit", Run: s.commit.Run},
		{Name: "ingest.compact", Run: s.compactor.Run},
		{Name: "ingest.poll", Run: s.hub.Run},
		{Name: "ingest.listen", Run: s.listen},
		{Name: "ingest.signals", Run: s.watchSignals},
		{Name: "ingest.deleted", Run: s.clearDeleted},
		{Name: "ingest.checkpoints", Run: s.freeCheckpoints},
	}
	if s.live != nil {
		workers = append(workers, process.Worker{Name: "ingest.live", Run: func(ctx context.Context) error {
			return s.live.Run(ctx, s.hub.Wake)
		}})
	}
	return workers
}

// clearEvery is the pause between two searches for deleted runs that have data.
const clearEvery = 15 * time.Second

// clearDeleted deletes the data of deleted runs.
func (s *Service) clearDeleted(ctx context.Context) error {
	expiry := &ingestrun.Expiry{Pool: s.deps.Pool}
	return process.Loop(ctx, s.deps.Clock, clearEvery, clearEvery/4, process.Logged(s.deps.Log, "ingest.deleted", expiry.ClearDeleted))
}

// listen wakes followers when any replica commits data. If it loses its connection, it connects again; until then,
// followers poll.
func (s *Service) listen(ctx context.Context) error {
	backoff := process.Backoff{Min: listenLeast, Max: listenMost, Jitter: 0.5}
	for try := 0; ; try++ {
		began := s.deps.Clock.Now()
		err := s.hub.Listen(ctx, s.deps.Pool, groupcommit.Channel)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.deps.Log.WarnContext(ctx, "cannot listen for commits; followers poll until the connection is back", "error", err)
		if clock.Since(s.deps.Clock, began) > listenMost {
			try = 0
		}
		if err := backoff.Wait(ctx, s.deps.Clock, try); err != nil {
			return err
		}
	}
}

// Ready checks that the database is reachable and its schema is current.
func (s *Service) Ready(ctx context.Context) error {
	files, err := db.Migrations()
	if err != nil {
		return fmt.Errorf("open the migrations: %w", err)
	}
	return migrate.Check(ctx, s.deps.Pool, Name, files)
}

func (s *Service) artifacts() *artifact.Store { return &artifact.Store{Pool: s.deps.Pool} }
