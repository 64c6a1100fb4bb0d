package scheduler

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// wait is the stored queue reason of a job.
type wait struct {
	Position       int
	Reason, Detail string
}

func (b *harness) wait(j *job.Job) (q wait) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT queue_position, queue_reason, queue_detail FROM job WHERE id = $1`, j.ID).
		Scan(&q.Position, &q.Reason, &q.Detail))
	return q
}

func (b *harness) pass() {
	b.t.Helper()
	_, err := b.scheduler().RunOnce(b.t.Context())
	require.NoError(b.t, err)
}

func TestWaitingJobsShowPositionAndReason(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 2, 1)
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
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled' AND queue_reason = '' AND queue_position = 0`), "a placed job must have no queue reason")
	require.Equal(t, wait{2, job.WaitPoolCapacity, "pool gpu is full; the job needs 1 node with 2 GPUs"}, b.wait(wide))
	require.Equal(t, wait{3, job.WaitPriority, "pool gpu is reserved for " + wide.ID + ", which is ahead in the queue"}, b.wait(behind))
	require.Equal(t, job.WaitPriority, b.wait(huge).Reason)
	require.Equal(t, wait{5, job.WaitAccountQuota, "the job needs 2 GPUs, but the account already holds 0 of its 1"}, b.wait(poor))
	require.Equal(t, wait{6, job.WaitPoolCapacity, "pool tpu has too few suitable ready nodes; the job needs 1 node with 1 GPU"}, b.wait(nowhere))
	b.pass()
	require.Equal(t, 1, b.wait(wide).Position, "the next job must move up in the queue")
	require.Equal(t, 5, b.wait(nowhere).Position)
	require.Equal(t, 6, b.count("event WHERE type = 'job.queued'"), "a new queue reason must not append an event")
}

// A pass over an unchanged queue writes no row, so that a long queue causes no constant writes.
func TestScheduler_RunOnce_unchangedQueueWritesNothing(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 0, 1)
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

func TestQueueOrderIsPriorityThenTimeThenID(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1, 1)
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

// The queued jobs of an account at its limit do not block jobs of other accounts.
func TestAccountAtLimitDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 4, 1)
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

func TestScheduler_RunOnce_onlySuitableReadyNodes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"joining":           `UPDATE node SET state = 'joining'`,
		"draining":          `UPDATE node SET state = 'draining'`,
		"unhealthy":         `UPDATE node SET state = 'unhealthy'`,
		"lost":              `UPDATE node SET state = 'lost', lost_at = now()`,
		"fleet draining":    `UPDATE fleet SET state = 'draining'`,
		"fleet disabled":    `UPDATE fleet SET state = 'disabled'`,
		"other pool":        `UPDATE fleet SET pools = '{tpu}'`,
		"too few CPUs":      `UPDATE node SET cpus = 1`,
		"too little memory": `UPDATE node SET memory_bytes = (1::bigint << 30) - 1`,
		"GPU failed":        `UPDATE node SET gpus = 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1, 1)
			b.exec(`UPDATE node SET memory_bytes = 1::bigint << 30`)
			j := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1, CPU: 2, MemoryGB: 1})
			b.exec(change)
			b.pass()
			require.Equal(t, job.WaitPoolCapacity, b.wait(j).Reason)
			require.Zero(t, b.count("attempt"))
			require.Zero(t, b.count(`account WHERE held > 0`))
		})
	}
	b := newHarness(t, 1, 1)
	b.exec(`UPDATE node SET memory_bytes = 1::bigint << 30, cpus = 2`)
	b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1, CPU: 2, MemoryGB: 1})
	b.pass()
	require.Equal(t, 1, b.count("attempt"), "exactly enough resources must suffice")
}

func TestScheduler_RunOnce_concurrentEnginePlacement(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 0, 3)
	for i := range 5 {
		b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, waiting,
				phase, exit_code, exit_reason, created_at, updated_at)
			VALUES ($1, 'engine', 1, 4, 'running', now(), '', 'cpu', 0, 1, 'u', 'p', 'starting', 'exited', -1, 'lost', now(), now())`,
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
		"each engine must be placed once, as a new execution without observed state")
	require.Equal(t, 1, b.count(`work WHERE node_id = '' AND waiting = 'no_capacity' AND desired = 'running'`))
	require.Equal(t, 1, b.count(`work WHERE id = 'wrk_0' AND node_id = ''`), "an engine that is desired stopped must not be placed")
}

// A pass considers at most lookahead jobs, from the head of the queue.
func TestScheduler_RunOnce_bounded(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1, 1)
	first := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	b.exec(`INSERT INTO job SELECT (jsonb_populate_record(job, jsonb_build_object('id', 'job_x' || n, 'run_id', 'run_x' || n,
			'created_at', job.created_at + make_interval(secs => n)))).* FROM job, generate_series(1, $1) n`, lookahead+50)
	b.pass()
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled' AND id = '`+first.ID+`'`))
	require.Equal(t, lookahead-1, b.count(`job WHERE state = 'queued' AND queue_position > 0`))
	require.Equal(t, 51, b.count(`job WHERE state = 'queued' AND queue_reason = 'new'`))
}

// The backoff after a failed attempt uses the database clock, as leases do.
func TestBackoffUsesDatabaseClock(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1, 1)
	j := b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	b.exec(`UPDATE job SET not_before = clock_timestamp() + interval '1 hour', queue_reason = 'backoff', queue_detail = 'attempt 1 ended: executor_lost' WHERE id = $1`, j.ID)
	b.pass()
	require.Equal(t, wait{0, job.WaitBackoff, "attempt 1 ended: executor_lost"}, b.wait(j), "a pass must not change the reason of a job in backoff")
	_, err := b.scheduler().RunOnce(pg.WithOffset(t.Context(), 59*time.Minute))
	require.NoError(t, err)
	require.Zero(t, b.count("attempt"))
	_, err = b.scheduler().RunOnce(pg.WithOffset(t.Context(), 61*time.Minute))
	require.NoError(t, err)
	require.Equal(t, 1, b.count("attempt"))
	require.Equal(t, 1, b.count(`job WHERE not_before IS NULL AND state = 'scheduled'`), "the backoff must be cleared")
}
