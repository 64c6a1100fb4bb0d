package lifecycle_test

import (
	"context"
	"crypto/rand"
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
	"github.com/signalbox-dev/signalbox/services/jobs/internal/lifecycle"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// closer ignores the closing of runs, which these tests do not need.
type closer struct{}

func (closer) CloseRun(context.Context, pgx.Tx, string) error { return nil }

type reconcileHarness struct {
	t    *testing.T
	pool *pgxpool.Pool
	r    *lifecycle.Reconciler
}

// newReconcileHarness creates the ready node nod_1, which was seen just now and runs the engine wrk_1.
func newReconcileHarness(t *testing.T) *reconcileHarness {
	t.Helper()
	ids := id.NewSource(clock.Real(), rand.Reader)
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	events, works := event.NewLog(clock.Real(), ids, "jobs"), &assignment.Store{}
	b := &reconcileHarness{t: t, pool: pool, r: &lifecycle.Reconciler{
		Pool: pool, Nodes: fleet.NewLiveness(pool, events, 0, 200), Works: works, Clock: clock.Real(),
		Driver: &lifecycle.Driver{Pool: pool, Jobs: &job.Store{Events: events, Closer: closer{}}, Works: works},
		Lease:  30 * time.Second, Fence: 90 * time.Second,
	}}
	b.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'agent', 'active', '{cpu}', now())`)
	b.exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at, last_seen_at)
		VALUES ('nod_1', 'flt_1', 'n', 'ready', 8, 0, 0, 8, '', '', now(), now())`)
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id,
			node_id, phase, created_at, updated_at)
		VALUES ('wrk_1', 'engine', 1, 1, 'running', now(), '', 'cpu', 0, 1, 'u', 'p', 'nod_1', 'running', now(), now())`)
	return b
}

func (b *reconcileHarness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *reconcileHarness) count(from string) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM `+from).Scan(&n))
	return n
}

// pass runs one pass after the given time, as a replica that has been the leader for the duration led.
func (b *reconcileHarness) pass(after, led time.Duration) {
	b.t.Helper()
	require.NoError(b.t, b.r.RunOnce(pg.WithOffset(b.t.Context(), after), clock.Real().Now().Add(-led)))
}

func TestReconciler_RunOnce_silentNodeLostThenFenced(t *testing.T) {
	t.Parallel()
	b := newReconcileHarness(t)
	for _, step := range []struct {
		after, led    time.Duration
		lost, unplace int
	}{
		{after: 20 * time.Second, led: time.Hour},
		{after: 5 * time.Minute, led: 20 * time.Second}, // a new leader does not rely on the silence before it led
		{after: 35 * time.Second, led: time.Hour, lost: 1},
		{after: 80 * time.Second, led: time.Hour, lost: 1},
		{after: 100 * time.Second, led: time.Second, lost: 1},
		{after: 100 * time.Second, led: time.Hour, lost: 1, unplace: 1},
		{after: 200 * time.Second, led: time.Hour, lost: 1, unplace: 1},
	} {
		b.pass(step.after, step.led)
		require.Equal(t, step.lost, b.count(`node WHERE state = 'lost'`), "wrong number of lost nodes after %s, if the replica has been the leader for %s", step.after, step.led)
		require.Equal(t, step.unplace, b.count(`work WHERE node_id = '' AND waiting = 'starting'`), "wrong number of unplaced engines after %s", step.after)
	}
}

// If the control plane was unavailable after a node was lost, the node may come back until Fence has passed again.
func TestReconciler_RunOnce_silenceCountsFromStart(t *testing.T) {
	t.Parallel()
	b := newReconcileHarness(t)
	b.pass(35*time.Second, time.Hour)
	require.Equal(t, 1, b.count(`node WHERE state = 'lost'`))
	b.pass(10*time.Minute, 40*time.Second)
	require.Equal(t, 1, b.count(`work WHERE node_id = 'nod_1'`))
	b.pass(10*time.Minute, 91*time.Second)
	require.Equal(t, 1, b.count(`work WHERE node_id = ''`))
}

// While the database was unavailable, no message of a node could be stored.
func TestReconciler_RunOnce_silenceCountsFromDatabaseReturn(t *testing.T) {
	t.Parallel()
	b := newReconcileHarness(t)
	now := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	b.r.Clock = now
	led := now.Now().Add(-time.Hour)
	pass := func(after time.Duration) {
		t.Helper()
		require.NoError(t, b.r.RunOnce(pg.WithOffset(t.Context(), after), led))
	}
	pass(35 * time.Second)
	require.Equal(t, 1, b.count(`node WHERE state = 'lost'`))
	now.Advance(10 * time.Minute)
	away, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, b.r.RunOnce(away, led))
	pass(11 * time.Minute)
	for range 4 {
		now.Advance(20 * time.Second)
		pass(13 * time.Minute)
		require.Equal(t, 1, b.count(`work WHERE node_id = 'nod_1'`))
	}
	now.Advance(20 * time.Second)
	pass(13 * time.Minute)
	require.Equal(t, 1, b.count(`work WHERE node_id = ''`))
}

func TestReconciler_RunOnce_leaseMayBeShorterThanInterval(t *testing.T) {
	t.Parallel()
	b := newReconcileHarness(t)
	now := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	b.r.Clock, b.r.Interval, b.r.Lease = now, 10*time.Second, time.Second
	led := now.Now().Add(-time.Hour)
	for n := range 12 {
		require.NoError(t, b.r.RunOnce(pg.WithOffset(t.Context(), time.Duration(n)*10*time.Second), led))
		now.Advance(10 * time.Second)
	}
	require.Equal(t, 1, b.count(`work WHERE node_id = ''`))
}

func TestReconciler_RunOnce_fenceNotShorterThanLease(t *testing.T) {
	t.Parallel()
	b := newReconcileHarness(t)
	b.r.Fence = time.Second
	b.pass(20*time.Second, time.Hour)
	require.Equal(t, 1, b.count(`work WHERE node_id = 'nod_1'`))
	b.pass(35*time.Second, time.Hour)
	require.Equal(t, 1, b.count(`work WHERE node_id = ''`))
}

func TestReconciler_RunOnce_enforcesPassedLimitsOnly(t *testing.T) {
	t.Parallel()
	b := newReconcileHarness(t)
	add := func(name, state, marks string) {
		b.exec(`INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec,
				spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, queued_at, seq, state,
				scheduled_at, running_at, ended_at, end_reason)
			SELECT 'job_' || $1, 'run_' || $1, $1, 'u', '', 'p', '', 'all', '{}', 50, '{}', '', '', '[]', 0, 0, 1000, 100, 50,
				now(), now(), 1, $2, `+marks, name, state)
	}
	const placed, runs, ended = `now(), NULL::timestamptz, NULL::timestamptz, ''`, `now(), now(), NULL, ''`, `NULL, NULL, now(), 'completed'`
	add("waits", "queued", `NULL, NULL, NULL, ''`)
	add("placed", "scheduled", placed)
	add("starts", "starting", placed)
	add("runs", "running", runs)
	add("stops", "stopping", runs)
	add("ended", "succeeded", ended)
	for _, step := range []struct {
		after time.Duration
		want  map[string]string
	}{
		{40 * time.Second, map[string]string{}},
		{60 * time.Second, map[string]string{"waits": "queue_timeout"}},
		{110 * time.Second, map[string]string{"waits": "queue_timeout", "placed": "start_timeout", "starts": "start_timeout"}},
		{990 * time.Second, map[string]string{"waits": "queue_timeout", "placed": "start_timeout", "starts": "start_timeout"}},
		{1010 * time.Second, map[string]string{"waits": "queue_timeout", "placed": "start_timeout", "starts": "start_timeout", "runs": "time_limit"}},
	} {
		for range 2 {
			b.pass(step.after, 0) // a new leader enforces limits too, because they depend on the rows alone
		}
		rows, err := b.pool.Query(t.Context(), `SELECT name, stop_reason || end_reason FROM job WHERE seq > 1`)
		require.NoError(t, err)
		got := map[string]string{}
		var name, reason string
		_, err = pgx.ForEachRow(rows, []any{&name, &reason}, func() error { got[name] = reason; return nil })
		require.NoError(t, err)
		require.Equal(t, step.want, got, "wrong states of jobs after %s", step.after)
	}
}
