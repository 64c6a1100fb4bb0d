package jobapi_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobapi"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// pollInterval is the polling interval of a watch.
const pollInterval = 5 * time.Second

type harness struct {
	t    *testing.T
	pool *pgxpool.Pool
	clk  *clock.Fake
	ids  *id.Source
	*jobapi.Server
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	b := &harness{t: t, pool: pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs"), clk: clk}
	b.ids = id.NewSource(clk, rand.Reader)
	b.Server = &jobapi.Server{Pool: b.pool, Jobs: &job.Store{Events: event.NewLog(clk, b.ids, "jobs")}, Hub: pg.NewNotifyHub(), Clock: clk}
	return b
}

// insert stores a job of alice in a project that everyone may see.
func (b *harness) insert() *job.Job {
	b.t.Helper()
	j := &job.Job{
		ID: b.ids.New(id.Job), RunID: b.ids.New(id.Run), Name: "n", OwnerID: "usr_alice", OwnerName: "alice", ProjectID: "prj_1",
		Project: "default", Visibility: "all", Labels: map[string]string{}, Priority: 50, Spec: []byte(`{"name":"n"}`),
		SpecDigest: "sha256:1", Template: []byte{1}, Pools: []job.Pool{{Pool: "cpu", Role: "trainer", Nodes: 1}},
		RunningS: 100, StartingS: 10, QueueS: 1000, CreatedAt: b.clk.Now(),
		Status: job.Status{State: job.Queued, Queue: job.Queue{Reason: job.WaitNew, Since: b.clk.Now()}},
	}
	facts := job.RunFacts{RecipeLock: []byte(`{}`), Bindings: []byte(`{}`), RecipeDigest: "sha256:2"}
	b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.Jobs.Insert(ctx, tx, j, facts, job.Cause{}) })
	return j
}

func (b *harness) tx(fn func(ctx context.Context, tx pgx.Tx) error) {
	b.t.Helper()
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, fn))
}

// schedule moves a queued job to scheduled.
func (b *harness) schedule(jobID string) {
	b.t.Helper()
	b.tx(func(ctx context.Context, tx pgx.Tx) error {
		j, err := b.Jobs.Lock(ctx, tx, jobID)
		if err != nil {
			return err
		}
		j.State = job.Scheduled
		return b.Jobs.Save(ctx, tx, j, job.Queued, job.Cause{})
	})
}

// watchStream passes the messages of a watch to the test.
type watchStream struct {
	grpc.ServerStreamingServer[jobsv1.WatchJobResponse]

	ctx   context.Context
	sent  chan *jobsv1.WatchJobResponse
	ended chan error
}

func (w *watchStream) Context() context.Context       { return w.ctx }
func (w *watchStream) SendHeader(_ metadata.MD) error { return nil }
func (w *watchStream) Send(m *jobsv1.WatchJobResponse) error {
	w.sent <- m
	return nil
}

// follow opens a watch as bob, who is a member of the given projects, and reads its first change.
func (b *harness) follow(name string, projects ...authn.ProjectRole) *watchStream {
	b.t.Helper()
	bob := &authn.Caller{Kind: authn.KindUser, Subject: "usr_bob", Role: authn.RoleOperator, Projects: projects}
	w := &watchStream{
		ctx:  authn.WithNeed(authn.NewContext(b.t.Context(), bob), authn.NeedRead),
		sent: make(chan *jobsv1.WatchJobResponse, 10), ended: make(chan error, 1),
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.ended <- b.WatchJob(&jobsv1.WatchJobRequest{Id: name}, w)
	}()
	b.t.Cleanup(func() { <-over })
	require.EqualValues(b.t, 1, (<-w.sent).GetSeq())
	require.NoError(b.t, b.clk.Await(b.t.Context(), 1))
	return w
}

func (b *harness) exec(sql, jobID string) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, jobID)
	require.NoError(b.t, err)
}

// Hiding a project wakes no watch; the watches notice it when they poll.
func TestServer_WatchJob_endsWhenAccessIsLost(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	member := authn.ProjectRole{Project: "prj_1", Role: authn.ProjectViewer}
	for name, c := range map[string]struct {
		before, change string
		projects       []authn.ProjectRole
	}{
		"project hidden": {change: `UPDATE job SET visibility = 'team' WHERE id = $1`},
		"new owner": {
			before: `UPDATE job SET visibility = 'team', owner_id = 'usr_bob' WHERE id = $1`,
			change: `UPDATE job SET owner_id = 'usr_heir' WHERE id = $1`,
		},
		"moved to other project": {
			before: `UPDATE job SET visibility = 'team' WHERE id = $1`, projects: []authn.ProjectRole{member},
			change: `UPDATE job SET project_id = 'prj_2' WHERE id = $1`,
		},
	} {
		j := b.insert()
		if c.before != "" {
			b.exec(c.before, j.ID)
		}
		w, ofRun := b.follow(j.ID, c.projects...), b.follow(j.RunID, c.projects...)
		require.NoError(t, b.clk.Await(t.Context(), 2))
		b.exec(c.change, j.ID)
		b.clk.Advance(pollInterval)
		err := <-w.ended
		require.True(t, fault.Is(err, fault.Absent), "%s: %v", name, err)
		require.Equal(t, "no such job: "+j.ID, fault.From(err).Msg, name)
		require.Equal(t, "no such run: "+j.RunID, fault.From(<-ofRun.ended).Msg, name)
	}
}

func TestServer_WatchJob_sendsNoChangeAfterAccessIsLost(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert()
	w := b.follow(j.ID)
	b.exec(`UPDATE job SET visibility = 'team' WHERE id = $1`, j.ID)
	b.schedule(j.ID)
	b.Hub.Wake(db.JobTopic(j.ID))
	require.True(t, fault.Is(<-w.ended, fault.Absent))
	require.Empty(t, w.sent)
}

func TestServer_WatchJob_continuesWhileVisible(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert()
	w := b.follow(j.ID, authn.ProjectRole{Project: "prj_1", Role: authn.ProjectViewer})
	b.exec(`UPDATE job SET visibility = 'team' WHERE id = $1`, j.ID)
	b.clk.Advance(pollInterval)
	b.schedule(j.ID)
	b.Hub.Wake(db.JobTopic(j.ID))
	m := <-w.sent
	require.EqualValues(t, 2, m.GetSeq())
	require.Equal(t, jobsv1.JobState_JOB_STATE_SCHEDULED, m.GetJob().GetState())
	require.Empty(t, w.ended)
}
