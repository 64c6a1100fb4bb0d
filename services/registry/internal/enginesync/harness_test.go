package enginesync

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// guard is the time limit of every wait. No test depends on its length.
const guard = 2 * time.Minute

// jobs is a fake of the jobs service: it returns the streams that a test prepares and records orders.
type jobs struct {
	streams chan *stream // streams of the next calls of WatchWorks
	orders  chan *jobspeerv1.PutWorkRequest

	mu     sync.Mutex
	putErr error // error of PutWork, if set
}

func (j *jobs) CheckPool(_ context.Context, in *jobspeerv1.CheckPoolRequest, _ ...grpc.CallOption) (*jobspeerv1.CheckPoolResponse, error) {
	switch in.GetPool() {
	case "open":
		return nil, fault.New(fault.Forbidden, "isolation", "isolation: refused")
	case "slurm":
		return nil, fault.New(fault.Unconfigured, "slurm_engine", "engines do not run on Slurm")
	case "older":
		return nil, fault.New(fault.Unconfigured, "unknown_method", "unknown method CheckPool")
	}
	return &jobspeerv1.CheckPoolResponse{}, nil
}

func (j *jobs) PutWork(_ context.Context, in *jobspeerv1.PutWorkRequest, _ ...grpc.CallOption) (*jobspeerv1.PutWorkResponse, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.putErr != nil {
		return nil, j.putErr
	}
	j.orders <- in
	return &jobspeerv1.PutWorkResponse{Changed: true}, nil
}

func (j *jobs) refuse(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.putErr = err
}

func (j *jobs) WatchWorks(ctx context.Context, _ *jobspeerv1.WatchWorksRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[jobspeerv1.WorkStatus], error) {
	select {
	case s := <-j.streams:
		if s.refused != nil {
			return nil, s.refused
		}
		s.ctx = ctx
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stream is one watch, with the statuses that it delivers before it breaks.
type stream struct {
	grpc.ClientStream

	ctx     context.Context
	refused error
	news    chan *jobspeerv1.WorkStatus
}

// brings returns a stream that delivers the given statuses and then breaks.
func brings(news ...*jobspeerv1.WorkStatus) *stream {
	s := &stream{news: make(chan *jobspeerv1.WorkStatus, len(news))}
	for _, n := range news {
		s.news <- n
	}
	close(s.news)
	return s
}

func (s *stream) Recv() (*jobspeerv1.WorkStatus, error) {
	select {
	case n, ok := <-s.news:
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		return n, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func synced() *jobspeerv1.WorkStatus { return &jobspeerv1.WorkStatus{Synced: true} }

// harness is a watcher with its own database, which has one deployment.
type harness struct {
	*Watcher

	t     *testing.T
	pool  *pgxpool.Pool
	jobs  *jobs
	clock *clock.Fake
	ids   *id.Source
	d     *deployment.Deployment
}

// noOrders queues no orders, so that tests see only the orders of the watcher itself.
type noOrders struct{}

func (noOrders) Order(context.Context, pgx.Tx, string) error { return nil }

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	keys, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	b := &harness{
		t: t, pool: pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry"), clock: clk,
		jobs: &jobs{streams: make(chan *stream), orders: make(chan *jobspeerv1.PutWorkRequest, 100)}, ids: id.NewSource(clk, rand.Reader),
	}
	revisions := &revision.Store{Keys: keys}
	b.Watcher = &Watcher{
		Works: b.jobs, Clock: clk, Log: slog.New(slog.DiscardHandler), Orderer: &Orderer{Pool: b.pool, Revisions: revisions, Works: b.jobs},
		Changer: &deployment.Changer{
			Pool: b.pool, Store: &deployment.Store{}, Revisions: revisions, Orders: noOrders{}, Clock: clk, Events: event.NewLog(clk, b.ids, "registry"), Audit: audit.NewLog(clk, b.ids, "registry"),
		},
	}
	b.d = &deployment.Deployment{
		Owner: access.Owner{UserID: "usr_1", ProjectID: "prj_1", Project: "team", Visibility: "team"},
		ID:    b.ids.New(id.Deployment), Name: "chat", State: deployment.StateServing, CreatedAt: clk.Now(),
	}
	require.NoError(t, b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.Changer.Create(ctx, tx, b.d) }))
	_, err = b.pool.Exec(t.Context(), `INSERT INTO model (id, name, owner_id, owner_name, project_id, project, visibility, description, task, created_at)
		VALUES ('mdl_1', 'm', 'usr_1', 'ann', 'prj_1', 'team', 'team', '', 'chat', now())`)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `INSERT INTO model_version (id, model_id, version, status, lifecycle, run_id, artifact_id, format, digest, size_bytes,
		uri, file, packed, facts, created_at) VALUES ('mv_1', 'mdl_1', 1, 'ready', 'candidate', 'r', 'a', 'gguf', 'sha256:ab', 9, 'u', 'f', false, '{}', now())`)
	require.NoError(t, err)
	return b
}

func (b *harness) tx(fn func(ctx context.Context, tx pgx.Tx) error) error {
	return pg.InTx(b.t.Context(), b.pool, fn)
}

// revision creates a new candidate.
func (b *harness) revision() *revision.Revision {
	b.t.Helper()
	r := ofGguf()
	r.ID, r.DeploymentID, r.WorkID = b.ids.New(id.Revision), b.d.ID, b.ids.New(id.Work)
	r.Source = revision.Source{ModelID: "mdl_1", Version: 1}
	r.State, r.Generation, r.CreatedAt = revision.Pending, 1, b.clock.Now()
	require.NoError(b.t, b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.Changer.CreateRevision(ctx, tx, r) }))
	return r
}

func (b *harness) state(r *revision.Revision) revision.State {
	b.t.Helper()
	now, err := b.Orderer.Revisions.ByID(b.t.Context(), b.pool, r.ID)
	require.NoError(b.t, err)
	return now.State
}

// ordered returns the next order that the fake jobs service receives.
func (b *harness) ordered() *jobspeerv1.PutWorkRequest {
	b.t.Helper()
	select {
	case in := <-b.jobs.orders:
		return in
	case <-time.After(guard):
		require.Fail(b.t, "nothing was ordered")
		return nil
	}
}

// seen returns the status that the jobs service reports for a revision's engine.
func seen(r *revision.Revision, phase jobsv1.Phase, report *jobsv1.EngineReport) *jobspeerv1.WorkStatus {
	return &jobspeerv1.WorkStatus{
		WorkId: r.WorkID, Generation: r.Generation, Fence: 1, NodeId: "nod_1",
		Observed: &jobsv1.ObservedWork{Generation: r.Generation, Fence: 1, Phase: phase, Engine: report},
	}
}

var errAway = errors.New("jobs is away")

// queue returns a queue client that only inserts orders.
func (b *harness) queue() *bgjob.Client {
	b.t.Helper()
	client, err := bgjob.New(b.pool, bgjob.Config{Schema: "registry", Log: slog.New(slog.DiscardHandler)})
	require.NoError(b.t, err)
	return client
}
