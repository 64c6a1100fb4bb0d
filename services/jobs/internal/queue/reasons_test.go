package queue

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// told is what a waiting job is told of its wait.
type told struct {
	Position       int
	Reason, Detail string
}

func (b *bench) told(j *job.Job) (q told) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT queue_position, queue_reason, queue_detail FROM job WHERE id = $1`, j.ID).
		Scan(&q.Position, &q.Reason, &q.Detail))
	return q
}

func (b *bench) pass() {
	b.t.Helper()
	_, err := b.scheduler().RunOnce(b.t.Context())
	require.NoError(b.t, err)
}

func TestEveryWaitingJobIsToldItsPlaceAndTheReason(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, 1)
	b.exec(`INSERT INTO account (user_id, gpu_limit, set_limit) VALUES ('usr_poor', 1, 1)`)
	runs := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	wide := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 2})
	behind := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	huge := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 3})
	poor := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 2})
	b.exec(`UPDATE job SET owner_id = 'usr_poor' WHERE id = $1`, poor.ID)
	nowhere := b.submit(job.Pool{Pool: "tpu", GPUsPerNode: 1})
	b.exec(`UPDATE job SET created_at = '2026-11-21'::timestamptz + make_interval(secs => array_position($1, id))`,
		[]string{runs.ID, wide.ID, behind.ID, huge.ID, poor.ID, nowhere.ID})
	b.pass()
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled' AND queue_reason = '' AND queue_position = 0`), "who is placed does not wait")
	require.Equal(t, told{2, job.WaitPoolCapacity, "pool gpu is full: 1 nodes with 2 GPUs are asked for"}, b.told(wide))
	require.Equal(t, told{3, job.WaitPriority, "pool gpu is kept for " + wide.ID + ", which is ahead"}, b.told(behind))
	require.Equal(t, job.WaitPriority, b.told(huge).Reason)
	require.Equal(t, told{5, job.WaitAccountQuota, "asks for 2 GPUs while 0 of 1 are held"}, b.told(poor))
	require.Equal(t, told{6, job.WaitPoolCapacity, "no ready nodes of pool tpu are enough: 1 nodes with 1 GPUs are asked for"}, b.told(nowhere))
	b.pass()
	require.Equal(t, 1, b.told(wide).Position, "the line moves up")
	require.Equal(t, 5, b.told(nowhere).Position)
	require.Equal(t, 6, b.count("event WHERE type = 'job.queued'"), "a reason is no change of state: it has no event")
}

// A pass over a queue that has not changed writes no row: a queue of thousands costs no write a second.
func TestAPassThatFindsNoNewsWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0, 1)
	for range 5 {
		b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	}
	b.pass()
	var before, after string
	const versions = `SELECT string_agg(xmin::text || ':' || ctid::text, ',' ORDER BY id) FROM job`
	require.NoError(t, b.pool.QueryRow(t.Context(), versions).Scan(&before))
	b.pass()
	require.NoError(t, b.pool.QueryRow(t.Context(), versions).Scan(&after))
	require.Equal(t, before, after)
	b.exec(`UPDATE node SET gpus = 1`)
	b.pass()
	require.NoError(t, b.pool.QueryRow(t.Context(), versions).Scan(&after))
	require.NotEqual(t, before, after)
}

func TestTheOrderIsPriorityThenTimeThenID(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 1)
	var jobs []*job.Job
	for range 4 {
		jobs = append(jobs, b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1}))
	}
	b.exec(`UPDATE job SET created_at = '2026-11-21'`)
	b.exec(`UPDATE job SET priority = 60 WHERE id = $1`, jobs[2].ID)
	b.exec(`UPDATE job SET created_at = '2026-11-20' WHERE id = $1`, jobs[1].ID)
	var order []string
	for range jobs {
		b.pass()
		var id string
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT id FROM job WHERE state = 'scheduled'`).Scan(&id))
		order = append(order, id)
		b.exec(`UPDATE job SET state = 'succeeded', ended_at = now(), end_reason = 'completed' WHERE id = $1`, id)
		b.exec(`UPDATE work SET released_at = now()`)
	}
	require.Equal(t, []string{jobs[2].ID, jobs[1].ID, jobs[0].ID, jobs[3].ID}, order)
}

// One account that fills its quota with a long queue holds up nobody else's jobs.
func TestAnAccountAtItsLimitStandsInNobodysWay(t *testing.T) {
	t.Parallel()
	b := newBench(t, 4, 1)
	b.exec(`INSERT INTO account (user_id, gpu_limit, set_limit) VALUES ('usr_1', 1, 1)`)
	for range 20 {
		b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	}
	other := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 3})
	b.exec(`UPDATE job SET owner_id = 'usr_2', created_at = created_at + interval '1 day' WHERE id = $1`, other.ID)
	b.pass()
	require.Equal(t, 1, b.count(`job WHERE owner_id = 'usr_1' AND state = 'scheduled'`))
	require.Equal(t, 1, b.count(`job WHERE owner_id = 'usr_2' AND state = 'scheduled'`))
	require.Equal(t, 19, b.count(`job WHERE queue_reason = 'account_quota'`))
}

func TestOnlyReadyNodesOfActiveFleetsGetWork(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"joining":            `UPDATE node SET state = 'joining'`,
		"draining":           `UPDATE node SET state = 'draining'`,
		"unhealthy":          `UPDATE node SET state = 'unhealthy'`,
		"lost":               `UPDATE node SET state = 'lost', lost_at = now()`,
		"a draining fleet":   `UPDATE fleet SET state = 'draining'`,
		"a disabled fleet":   `UPDATE fleet SET state = 'disabled'`,
		"another pool":       `UPDATE fleet SET pools = '{tpu}'`,
		"too few CPUs":       `UPDATE node SET cpus = 1`,
		"too little memory":  `UPDATE node SET memory_bytes = (1::bigint << 30) - 1`,
		"its GPU has failed": `UPDATE node SET gpus = 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1, 1)
			b.exec(`UPDATE node SET memory_bytes = 1::bigint << 30`)
			j := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1, CPU: 2, MemoryGB: 1})
			b.exec(change)
			b.pass()
			require.Equal(t, job.WaitPoolCapacity, b.told(j).Reason)
			require.Zero(t, b.count("attempt"))
			require.Zero(t, b.count(`account WHERE held > 0`))
		})
	}
	b := newBench(t, 1, 1)
	b.exec(`UPDATE node SET memory_bytes = 1::bigint << 30, cpus = 2`)
	b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1, CPU: 2, MemoryGB: 1})
	b.pass()
	require.Equal(t, 1, b.count("attempt"), "just enough is enough")
}

func TestAnEngineThatManyPlaceHasOnePlaceAndOneNewFence(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0, 3)
	for i := range 5 {
		b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, waiting,
				phase, exit_code, exit_reason, created_at, updated_at)
			VALUES ($1, 'engine', 1, 4, 'running', now(), '', 'cpu', 0, 1, 'u', 'p', 'no_capacity', 'exited', -1, 'lost', now(), now())`,
			fmt.Sprintf("wrk_%d", i))
	}
	b.exec(`UPDATE work SET desired = 'stopped', released_at = now() WHERE id = 'wrk_0'`)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := b.scheduler().RunOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 3, b.count(`work WHERE node_id <> '' AND fence = 5 AND waiting = '' AND phase = '' AND exit_code IS NULL`),
		"each is a new execution, placed once, of which nothing was seen")
	require.Equal(t, 1, b.count(`work WHERE node_id = '' AND waiting = 'no_capacity' AND desired = 'running'`))
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_0' AND node_id = ''`), "nobody wants this one to run")
}

// A pass looks at so many jobs and no more; the rest gets its turn when those ahead are gone.
func TestAPassLooksAtABoundedPartOfTheQueueFromItsHead(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 1)
	first := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	b.exec(`INSERT INTO job SELECT (jsonb_populate_record(job, jsonb_build_object('id', 'job_x' || n, 'run_id', 'run_x' || n,
			'created_at', job.created_at + make_interval(secs => n)))).* FROM job, generate_series(1, $1) n`, lookahead+50)
	b.pass()
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled' AND id = '`+first.ID+`'`))
	require.Equal(t, lookahead-1, b.count(`job WHERE state = 'queued' AND queue_position > 0`))
	require.Equal(t, 51, b.count(`job WHERE state = 'queued' AND queue_reason = 'new'`))
}

// The pause after a failed attempt is by the clock of the rows, as leases are.
func TestAPauseEndsByTheClockOfTheRows(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, 1)
	j := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	b.exec(`UPDATE job SET not_before = clock_timestamp() + interval '1 hour', queue_detail = 'attempt 1 ended: executor_lost' WHERE id = $1`, j.ID)
	b.pass()
	require.Equal(t, told{1, job.WaitBackoff, "attempt 1 ended: executor_lost"}, b.told(j))
	_, err := b.scheduler().RunOnce(pg.WithOffset(t.Context(), 59*time.Minute))
	require.NoError(t, err)
	require.Zero(t, b.count("attempt"))
	_, err = b.scheduler().RunOnce(pg.WithOffset(t.Context(), 61*time.Minute))
	require.NoError(t, err)
	require.Equal(t, 1, b.count("attempt"))
	require.Equal(t, 1, b.count(`job WHERE not_before IS NULL AND state = 'scheduled'`), "the pause is over")
}
