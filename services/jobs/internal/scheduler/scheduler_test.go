package scheduler

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

type harness struct {
	t    *testing.T
	db   *pgtest.DB
	pool *pgxpool.Pool
	ids  *id.Source
	jobs *job.Store
	node string
}

// newHarness creates one ready node with the given GPUs and slots.
func newHarness(t *testing.T, gpus, slots int) *harness {
	t.Helper()
	ids := id.NewSource(clock.Real(), rand.Reader)
	database := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations})
	b := &harness{
		t: t, db: database, pool: database.Pool("jobs"), ids: ids,
		jobs: &job.Store{Events: event.NewLog(clock.Real(), ids, "jobs")}, node: ids.New(id.Node),
	}
	b.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'agent', 'active', '{gpu,cpu}', now())`)
	b.exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at, boundary)
		VALUES ($1, 'flt_1', 'host', 'ready', 8, 0, $2, $3, '', '', now(), '{"kind": "own_user"}')`, b.node, gpus, slots)
	return b
}

func (b *harness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

// analyze collects statistics about the jobs. If a role that does not own the table runs ANALYZE, Postgres only warns.
func (b *harness) analyze() {
	b.t.Helper()
	_, err := b.db.OwnerPool("jobs").Exec(b.t.Context(), `ANALYZE job`)
	require.NoError(b.t, err)
}

func (b *harness) count(from string) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM `+from).Scan(&n))
	return n
}

func (b *harness) scheduler() *Scheduler {
	return &Scheduler{Pool: b.pool, IDs: b.ids, Jobs: b.jobs, Works: &assignment.Store{}, Fleets: fleet.Store{}, Ledger: quota.Ledger{Default: 1000}}
}

func (b *harness) submit(pool job.Pool) *job.Job {
	b.t.Helper()
	pool.Nodes = 1
	j := &job.Job{
		ID: b.ids.New(id.Job), RunID: b.ids.New(id.Run), Name: "n", OwnerID: "usr_1", Visibility: "all", Labels: map[string]string{},
		Spec: []byte(`{}`), Template: []byte{}, Pools: []job.Pool{pool}, GPUs: pool.GPUsPerNode, CreatedAt: clock.Real().Now(),
		Status: job.Status{State: job.Queued, Queue: job.Queue{Reason: job.WaitNew, Since: clock.Real().Now()}},
	}
	facts := job.RunFacts{RecipeLock: []byte(`{}`), Bindings: []byte(`{}`)}
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		return b.jobs.Insert(ctx, tx, j, facts, job.Cause{})
	}))
	return j
}

// TestScheduler_place_outdatedDecision changes the rows between planning and placing.
func TestScheduler_place_outdatedDecision(t *testing.T) {
	t.Parallel()
	taken := `INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, node_id, created_at, updated_at)
		VALUES ('wrk_other', 'engine', 1, 1, 'running', now(), '', 'gpu', %d, %d, 'u', 'p', (SELECT id FROM node), now(), now())`
	for name, c := range map[string]struct {
		gpus   int
		change string
	}{
		"GPU taken":      {1, fmt.Sprintf(taken, 1, 0)},
		"slot taken":     {0, fmt.Sprintf(taken, 0, 1)},
		"node lost":      {1, `UPDATE node SET state = 'lost', lost_at = now()`},
		"node cordoned":  {1, `UPDATE node SET hold = 'cordoned'`},
		"node draining":  {0, `UPDATE node SET hold = 'draining', drain_mode = 'wait'`},
		"fleet draining": {1, `UPDATE fleet SET state = 'draining'`},
		"not isolating":  {1, `UPDATE node SET boundary = '{"kind": "none", "required": true}'`},
		"pool moved":     {1, `UPDATE fleet SET pools = '{other}'`},
		"job stopped":    {1, `UPDATE job SET state = 'stopped', ended_at = now(), end_reason = 'user_stop'`},
		"job in backoff": {1, `UPDATE job SET not_before = now() + interval '1 hour'`},
		"account full":   {1, `INSERT INTO account (user_id, gpu_limit, set_limit) VALUES ('usr_1', 0, 0)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1, 1)
			b.submit(job.Pool{Pool: "gpu", GPUsPerNode: c.gpus})
			s := b.scheduler()
			decisions, _, err := s.decide(t.Context())
			require.NoError(t, err)
			require.Len(t, decisions, 1)
			require.Len(t, decisions[0].Places, 1)
			b.exec(c.change)
			require.NoError(t, s.place(t.Context(), decisions[0]))
			require.Zero(t, b.count("attempt"))
			require.Zero(t, b.count(`account WHERE held > 0`), "a failed placement must not hold GPUs")
		})
	}
}

// The scheduler carries out a decision while an admin changes the pool to require isolation. The decision was made
// before the change.
func TestScheduler_place_waitsForChangeOfIsolation(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1, 1)
	b.exec(`UPDATE node SET boundary = '{"kind": "none", "required": false}'`)
	b.exec(`INSERT INTO pool (name, isolation) VALUES ('gpu', 'none')`)
	b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	s := b.scheduler()
	decisions, _, err := s.decide(t.Context())
	require.NoError(t, err)
	require.Len(t, decisions[0].Places, 1)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE pool SET isolation = 'required'`)
	require.NoError(t, err)
	placed := make(chan error, 1)
	go func() { placed <- s.place(t.Context(), decisions[0]) }()
	require.Eventually(t, func() bool {
		return b.count(`pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FOR SHARE%'`) == 1
	}, time.Minute, 5*time.Millisecond, "the placement must wait for the change")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-placed)
	require.Zero(t, b.count("attempt"))
}

func TestScheduler_RunOnce_concurrentSchedulers(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 4, 3)
	for range 10 {
		b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
		b.submit(job.Pool{Pool: "cpu"})
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := b.scheduler().RunOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 4, b.count(`work WHERE gpus = 1`))
	require.Equal(t, 3, b.count(`work WHERE slots = 1`))
	require.Equal(t, 7, b.count(`job WHERE state = 'scheduled'`))
	require.Equal(t, 1, b.count(`account WHERE held = 4`))
	require.Equal(t, 13, b.count(`job WHERE state = 'queued' AND queue_reason IN ('pool_capacity', 'priority') AND queue_position > 0`))
}

func TestScheduler_RunOnce_returnsEndOfBackoff(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1, 1)
	next, err := b.scheduler().RunOnce(t.Context())
	require.NoError(t, err)
	require.True(t, next.IsZero())
	j := b.submit(job.Pool{Pool: "cpu"})
	until := clock.Real().Now().Add(time.Hour)
	b.exec(`UPDATE job SET not_before = $2, queue_reason = 'backoff', queue_detail = 'attempt 1 ended' WHERE id = $1`, j.ID, until)
	next, err = b.scheduler().RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, until, next)
	require.Equal(t, 1, b.count(`job WHERE queue_reason = 'backoff' AND queue_detail = 'attempt 1 ended'`))
	_, err = b.scheduler().RunOnce(pg.WithOffset(t.Context(), 2*time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled'`))
}
