package assignment_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness is a database with a work store. Each server on it acts as one replica.
type harness struct {
	t     *testing.T
	pool  *pgxpool.Pool
	works *assignment.Store
	clock *clock.Fake

	projects *projects
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	keys, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: randomBytes(t, 32)})
	require.NoError(t, err)
	return &harness{
		t: t, pool: pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs"),
		works: &assignment.Store{Keys: keys}, clock: clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)),
		projects: &projects{},
	}
}

func (b *harness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *harness) count(from string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM `+from, args...).Scan(&n))
	return n
}

func (b *harness) get(id string) *assignment.Work {
	b.t.Helper()
	w, err := b.works.Get(b.t.Context(), b.pool, id)
	require.NoError(b.t, err)
	return w
}

// attempt stores the work of an attempt of job_1 on nod_1. Its spec refers to a package, a dataset and a model.
func (b *harness) attempt(id string) {
	b.t.Helper()
	spec, err := proto.Marshal(&jobsv1.AttemptSpec{
		JobId: "job_1", RunId: "run_1", Package: &jobsv1.ObjectRef{Uri: "blob://recipes/a.tar"},
		Datasets: []*jobsv1.DatasetInput{{Files: []*jobsv1.ObjectRef{{Uri: "blob://projects/p/a"}, {Uri: "blob://projects/p/b"}}}},
		Model:    &jobsv1.ModelInput{Files: []*jobsv1.ObjectRef{{Uri: "blob://models/m"}}},
	})
	require.NoError(b.t, err)
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, job_id, attempt, owner_id,
			project_id, node_id, created_at, updated_at)
		VALUES ($1, 'attempt', 1, 1, 'running', now(), $2, 'cpu', 0, 1, 'job_1', 1, 'usr_1', 'prj_1', 'nod_1', now(), now())`, id, spec)
}

func (b *harness) peer() *assignment.PeerServer {
	return &assignment.PeerServer{Pool: b.pool, Works: b.works, Hub: pg.NewNotifyHub(), Clock: b.clock, Projects: b.projects}
}

// projects returns the team of each project, and counts the calls.
type projects struct {
	team  string
	calls int
	err   error
}

func (p *projects) GetProject(context.Context, *authpeerv1.GetProjectRequest, ...grpc.CallOption) (*authpeerv1.Project, error) {
	p.calls++
	return &authpeerv1.Project{TeamId: p.team}, p.err
}

// orderOf returns the registry's order for an engine.
func orderOf(id string, generation int64, desired jobsv1.Desired, change ...func(*jobspeerv1.PutWorkRequest)) *jobspeerv1.PutWorkRequest {
	req := &jobspeerv1.PutWorkRequest{
		WorkId: id, Generation: generation, Desired: desired, Pool: "cpu", OwnerId: "usr_1", ProjectId: "prj_1",
		Engine: &jobsv1.EngineSpec{DeploymentId: "dep_1", RevisionNumber: int32(generation), Driver: "llamacpp"},
	}
	for _, c := range change {
		c(req)
	}
	return req
}

const (
	running = jobsv1.Desired_DESIRED_RUNNING
	stopped = jobsv1.Desired_DESIRED_STOPPED
	gone    = jobsv1.Desired_DESIRED_GONE
)

// asNode returns a context authenticated as a node.
func asNode(ctx context.Context, node string) context.Context {
	return authn.NewContext(ctx, &authn.Caller{Kind: authn.KindAgent, Subject: node})
}

// trail stores the audit records in memory.
type trail struct {
	mu   sync.Mutex
	rows []string
	err  error
}

func (r *trail) Record(_ context.Context, _ pgx.Tx, action, kind, target string, after any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, err := json.Marshal(after)
	if err != nil {
		return err
	}
	r.rows = append(r.rows, fmt.Sprintf("%s %s %s %s", action, kind, target, raw))
	return r.err
}

// statuses is the stream of a watch, as the registry reads it.
type statuses struct {
	grpc.ServerStream
	ctx  context.Context
	sent chan *jobspeerv1.WorkStatus
}

func (s *statuses) Context() context.Context { return s.ctx }

func (s *statuses) Send(m *jobspeerv1.WorkStatus) error {
	s.sent <- m
	return nil
}

func randomBytes(t *testing.T, n int) []byte {
	t.Helper()
	raw := make([]byte, n)
	_, err := rand.Read(raw)
	require.NoError(t, err)
	return raw
}
