package lifecycle_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/lifecycle"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// closes records the runs whose closing was queued.
type closes struct {
	mu   sync.Mutex
	runs []string
}

func (c *closes) CloseRun(_ context.Context, _ pgx.Tx, runID string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = append(c.runs, runID)
	return nil
}

func (c *closes) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.runs)
}

type harness struct {
	t      *testing.T
	pool   *pgxpool.Pool
	ids    *id.Source
	driver *lifecycle.Driver
	closes *closes
}

// newHarness creates ready nodes nod_1, nod_2, … with two GPUs and eight slots each.
func newHarness(t *testing.T, nodes int) *harness {
	t.Helper()
	ids := id.NewSource(clock.Real(), rand.Reader)
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	b := &harness{t: t, pool: pool, ids: ids, closes: &closes{}}
	b.driver = &lifecycle.Driver{
		Pool: pool, Jobs: &job.Store{Events: event.NewLog(clock.Real(), ids, "jobs"), Closer: b.closes},
		Works: &assignment.Store{}, Ledger: quota.Ledger{Default: 1000}, IDs: ids,
	}
	b.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'agent', 'active', '{gpu,cpu}', now())`)
	for i := range nodes {
		b.exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at, boundary)
			VALUES ($1, 'flt_1', $1, 'ready', 8, 0, 2, 8, '', '', now(), '{"kind": "own_user"}')`, fmt.Sprintf("nod_%d", i+1))
	}
	return b
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

// submit stores a job with one GPU per node.
func (b *harness) submit(nodes, retryMax int) *job.Job {
	b.t.Helper()
	j := &job.Job{
		ID: b.ids.New(id.Job), RunID: b.ids.New(id.Run), Name: "n", OwnerID: "usr_1", Visibility: "all",
		Labels: map[string]string{}, Spec: []byte(`{}`), Template: []byte{}, GPUs: nodes, RetryMax: retryMax,
		Resumable: true, CheckpointGraceS: 60, CheckpointNeeded: true,
		Pools:    []job.Pool{{Pool: "gpu", Role: "trainer", Nodes: nodes, GPUsPerNode: 1}},
		RunningS: 1000, StartingS: 100, QueueS: 5000, CreatedAt: clock.Real().Now(),
		Status: job.Status{State: job.Queued, Queue: job.Queue{Reason: job.WaitNew, Since: clock.Real().Now()}},
	}
	facts := job.RunFacts{RecipeLock: []byte(`{}`), Bindings: []byte(`{}`)}
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		return b.driver.Jobs.Insert(ctx, tx, j, facts, job.Cause{})
	}))
	return j
}

// placed submits a job and lets the scheduler place it.
func (b *harness) placed(nodes, retryMax int) *job.Job {
	b.t.Helper()
	j := b.submit(nodes, retryMax)
	b.schedule()
	require.Equal(b.t, job.Scheduled, b.job(j).State)
	return j
}

// schedule runs one pass of the scheduler.
func (b *harness) schedule() {
	b.t.Helper()
	s := &scheduler.Scheduler{
		Pool: b.pool, IDs: b.ids, Jobs: b.driver.Jobs, Works: b.driver.Works, Fleets: fleet.Store{}, Ledger: b.driver.Ledger,
	}
	_, err := s.RunOnce(b.t.Context())
	require.NoError(b.t, err)
}

// resumePoint returns the resume point in a work's spec.
func (b *harness) resumePoint(w *assignment.Work) *jobsv1.ResumePoint {
	b.t.Helper()
	whole, err := b.driver.Works.Get(b.t.Context(), b.pool, w.ID)
	require.NoError(b.t, err)
	spec := &jobsv1.AttemptSpec{}
	require.NoError(b.t, proto.Unmarshal(whole.Spec, spec))
	return spec.GetResume()
}

func (b *harness) job(j *job.Job) *job.Job {
	b.t.Helper()
	got, err := b.driver.Jobs.Get(b.t.Context(), b.pool, authn.Scope{Admin: true, Projects: []string{}}, j.ID)
	require.NoError(b.t, err)
	return got
}

func (b *harness) attempts(j *job.Job) []*job.Attempt {
	b.t.Helper()
	got, err := b.driver.Jobs.Attempts(b.t.Context(), b.pool, j.ID, request.Page{Limit: 100})
	require.NoError(b.t, err)
	return got
}

// works returns the works of the job's current attempt, ordered by rank.
func (b *harness) works(j *job.Job) (works []*assignment.Work) {
	b.t.Helper()
	number := b.job(j).Attempt
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		works, err = b.driver.Works.LockAttempt(ctx, tx, j.ID, number)
		return err
	}))
	return works
}

func (b *harness) held() int {
	b.t.Helper()
	a, err := b.driver.Ledger.Account(b.t.Context(), b.pool, "usr_1")
	require.NoError(b.t, err)
	return a.Held
}

// seen returns the report of a node that a work is in the given phase.
func seen(w *assignment.Work, phase string, exit *gang.Exit) assignment.Observed {
	at := clock.Real().Now()
	s := assignment.Observed{Key: w.Key, Phase: phase, Exit: exit}
	if gang.PhaseRank(phase) >= gang.PhaseRank(gang.PhasePreparing) {
		s.PreparingAt = &at
	}
	if gang.PhaseRank(phase) >= gang.PhaseRank(gang.PhaseRunning) {
		s.RunningAt = &at
	}
	return s
}

// observe passes the report of a node to the driver, and ends the jobs whose end it has decided.
func (b *harness) observe(node string, report ...assignment.Observed) {
	b.t.Helper()
	require.NoError(b.t, b.driver.Observe(b.t.Context(), node, report))
	b.commit()
}

// commit ends the runs whose closing was queued, as if ingest had closed them.
func (b *harness) commit() {
	b.t.Helper()
	for _, runID := range b.closes.all() {
		require.NoError(b.t, b.driver.Commit(b.t.Context(), runID, true))
	}
}

func (b *harness) report(j *job.Job, event string) {
	b.t.Helper()
	_, err := b.driver.Report(b.t.Context(), j.RunID, b.job(j).Attempt, event, "a message")
	require.NoError(b.t, err)
}

func (b *harness) stop(j *job.Job, reason string) {
	b.t.Helper()
	_, err := b.driver.Stop(b.t.Context(), j.ID, reason, false, job.Cause{}, func(context.Context, pgx.Tx) error { return nil })
	require.NoError(b.t, err)
}
