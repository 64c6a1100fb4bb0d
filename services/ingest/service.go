package ingest

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
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
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/follow"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/httpapi"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/read"
	ingestrun "github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/transfer"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/wakeup"
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
}

// Service is the assembled ingest service.
type Service struct {
	deps        Deps
	rows        *ingestrun.Store
	commit      *groupcommit.Committer
	hub         *follow.Hub
	live        *wakeup.Wakeups // nil without Redis
	signals     *ingestrun.ControlBoard
	handler     *httpapi.Handler
	public      *read.Server
	peer        *read.PeerServer
	owners      *transfer.Server
	evaluations *evaluation.Server
	digestAge   time.Duration // 0 keeps the digests
}

// Migrations returns the goose files of the ingest schema.
func Migrations() (fs.FS, error) { return db.Migrations() }

// New assembles the service. It starts no goroutine.
func New(_ context.Context, cfg Config, d Deps) (*Service, error) {
	s := &Service{deps: d, rows: &ingestrun.Store{Pool: d.Pool, Clock: d.Clock}, hub: follow.NewHub(d.Clock)}
	if !cfg.RedisURL.IsZero() {
		l, err := wakeup.New(cfg.RedisURL, d.Clock, d.Log)
		if err != nil {
			return nil, err
		}
		wakeup.UseLog(d.Log)
		s.live = l
	}
	s.digestAge = time.Duration(cfg.DigestDays) * 24 * time.Hour
	s.commit = groupcommit.New(d.Pool, d.Clock, s.changed)
	s.signals = ingestrun.NewControlBoard(d.Clock, s.nextSignal)
	s.wire()
	return s, nil
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
	ingestv1.RegisterAgentEvaluationServiceServer(r, s.evaluations)
	ingestpeerv1.RegisterRunDataPeerServiceServer(r, s.peer)
	commonpeerv1.RegisterOwnerPeerServiceServer(r, s.owners)
}

// Handler returns the handler for /api/ingest.
func (s *Service) Handler() http.Handler { return s.handler }

// Bounds of the backoff before a lost connection or stream is opened again.
const (
	listenLeast = 100 * time.Millisecond
	listenMost  = 5 * time.Second
)

// Workers returns the background loops of the service.
func (s *Service) Workers() []process.Worker {
	workers := []process.Worker{
		{Name: "ingest.commit", Run: s.commit.Run},
		{Name: "ingest.poll", Run: s.hub.Run},
		{Name: "ingest.listen", Run: s.listen},
		{Name: "ingest.signals", Run: s.watchSignals},
	}
	if s.live != nil {
		workers = append(workers, process.Worker{Name: "ingest.live", Run: func(ctx context.Context) error {
			return s.live.Run(ctx, s.hub.Wake)
		}})
	}
	return workers
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
