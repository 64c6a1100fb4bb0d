package transfer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/transfer"
)

func TestTransferOwned_movesEverythingOfUser(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 8)
	running := b.submit("usr_1", 2)
	b.schedule()
	b.end(running)
	held, waiting, other := b.submit("usr_1", 3), b.submit("usr_1", 6), b.submit("usr_3", 1)
	b.schedule()
	require.Equal(t, []job.State{job.Scheduled, job.Queued}, []job.State{b.job(held.ID).State, b.job(waiting.ID).State})
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, created_at, updated_at)
		VALUES ('wrk_e', 'engine', 1, 1, 'running', now(), '', 'gpu', 0, 1, 'usr_1', 'prj_1', now(), now())`)
	require.Equal(t, "job 3 run 3 ", b.owned("usr_1"))

	moved, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	require.Equal(t, "job 3 run 3 ", moved)
	require.Equal(t, []string{"job 0 run 0 ", "job 3 run 3 ", "job 1 run 1 "}, []string{b.owned("usr_1"), b.owned("usr_2"), b.owned("usr_3")})
	for _, table := range []string{"job", "run", "work"} {
		require.Zero(t, b.count(table+` WHERE owner_id = 'usr_1'`), table)
	}
	require.Equal(t, "name of usr_2", b.job(held.ID).OwnerName)
	require.Equal(t, 3, b.count(`run WHERE owner_name = 'name of usr_2'`))
	require.Equal(t, []int{0, 3}, []int{b.held("usr_1"), b.held("usr_2")})
	require.Equal(t, "usr_3", b.job(other.ID).OwnerID)

	b.end(held)
	require.Equal(t, []int{0, 0}, []int{b.held("usr_1"), b.held("usr_2")}, "an ended job must release its GPUs to the account that holds them")
}

func TestTransferAppendsNoEventToEndedJob(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 8)
	ended := b.submit("usr_1", 1)
	b.schedule()
	b.end(ended)
	live := b.submit("usr_1", 1)
	before, last := b.job(live.ID), b.job(ended.ID)
	_, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	require.Equal(t, before.Seq+1, b.job(live.ID).Seq)
	require.Equal(t, last.Seq, b.job(ended.ID).Seq, "an ended job must get no more events")
	const gapless = `event WHERE subject_kind = 'job' AND subject_id = $1`
	require.EqualValues(t, b.job(live.ID).Seq, b.count(gapless, live.ID), "events must be numbered without gaps")
	require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND type = $2 AND actor_id = 'usr_admin' AND message LIKE '%name of usr_2%'`,
		live.ID, transfer.EventTransferred))
	for _, id := range []string{live.ID, ended.ID} {
		require.Equal(t, 1, b.count(`audit WHERE action = 'job.transfer' AND target_id = $1 AND actor_id = 'usr_admin'
			AND after->>'former_owner_id' = 'usr_1' AND after->>'owner_id' = 'usr_2'`, id))
	}
	require.Equal(t, 2, b.count(`audit WHERE action = 'run.transfer'`))
}

func TestTransferRepeated(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 8)
	b.submit("usr_1", 1)
	_, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	again, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	require.Equal(t, "job 0 run 0 ", again)
	b.submit("usr_1", 1)
	left, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	require.Equal(t, "job 1 run 1 ", left)
	require.Equal(t, 2, b.count(`audit WHERE action = 'job.transfer'`))
}

func TestTransferOverQuotaMovesNothing(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 8)
	b.submit("usr_1", 3)
	b.schedule()
	b.exec(`INSERT INTO account (user_id, gpu_limit, set_limit) VALUES ('usr_2', 2, 2)`)
	_, err := b.transfer("usr_1", "usr_2")
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	require.Equal(t, "job 1 run 1 ", b.owned("usr_1"))
	require.Equal(t, []int{3, 0}, []int{b.held("usr_1"), b.held("usr_2")})
	require.Zero(t, b.count(`audit WHERE action LIKE '%.transfer'`))
}

// A transaction transfers at most 500 jobs.
func TestTransferInSteps(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 8)
	b.submit("usr_1", 2)
	b.schedule()
	b.exec(`INSERT INTO run SELECT (jsonb_populate_record(r, jsonb_build_object('id', r.id || n, 'job_id', r.job_id || n))).* FROM run r, generate_series(1, 1200) n`)
	b.exec(`INSERT INTO job SELECT (jsonb_populate_record(j, jsonb_build_object('id', j.id || n, 'run_id', j.run_id || n,
		'state', 'stopped', 'ended_at', now(), 'end_reason', 'user_stop'))).* FROM job j, generate_series(1, 1200) n`)
	b.exec(`INSERT INTO run SELECT (jsonb_populate_record(r, jsonb_build_object('id', 'run_alone', 'job_id', NULL))).* FROM run r LIMIT 1`)
	moved, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	require.Equal(t, "job 1201 run 1202 ", moved)
	require.Equal(t, "job 0 run 0 ", b.owned("usr_1"))
	require.Equal(t, []int{0, 2}, []int{b.held("usr_1"), b.held("usr_2")})
	require.Equal(t, 1201, b.count(`audit WHERE action = 'job.transfer'`))
	require.Zero(t, b.count(`(SELECT count(*) AS n FROM job GROUP BY xmin::text) s WHERE n > 500`))
}

// A transaction transfers at most 500 engines.
func TestTransferEnginesInSteps(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 8)
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, created_at, updated_at)
		SELECT 'wrk_' || n, 'engine', 1, 1, 'running', now(), '', 'gpu', 0, 1, CASE n WHEN 0 THEN 'usr_3' ELSE 'usr_1' END, 'prj_1', now(), now()
		FROM generate_series(0, 1200) AS n`)
	_, err := b.transfer("usr_1", "usr_2")
	require.NoError(t, err)
	require.Equal(t, []int{1200, 1}, []int{b.count(`work WHERE owner_id = 'usr_2'`), b.count(`work WHERE owner_id = 'usr_3'`)})
	require.Zero(t, b.count(`(SELECT count(*) AS n FROM work WHERE owner_id = 'usr_2' GROUP BY xmin::text) s WHERE n > 500`))
}

// While jobs change concurrently, an account always holds exactly the GPUs that its attempts hold.
func TestTransferKeepsLedgerBalanced(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 100)
	var jobs []*job.Job
	for range 6 {
		jobs = append(jobs, b.submit("usr_1", 1))
	}
	b.schedule()
	var wg sync.WaitGroup
	for _, j := range jobs[:4] {
		wg.Go(func() { b.end(j) })
	}
	wg.Go(func() {
		if _, err := b.transfer("usr_1", "usr_2"); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	require.Equal(t, []int{0, 2}, []int{b.held("usr_1"), b.held("usr_2")})
	require.Zero(t, b.count(`account c WHERE held <> (SELECT coalesce(sum(a.held), 0) FROM attempt a JOIN job j ON j.id = a.job_id
		WHERE j.owner_id = c.user_id)`))
}

// GPUs that an attempt releases while the transfer waits for the lock on its job are not moved.
func TestTransferCountsHeldAfterLockingJobs(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 100)
	j := b.submit("usr_1", 3)
	b.submit("usr_1", 2)
	b.schedule()
	require.Equal(t, 5, b.held("usr_1"))
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	do := func(sql string) {
		_, err := tx.Exec(t.Context(), sql, j.ID)
		require.NoError(t, err)
	}
	do(`SELECT FROM job WHERE id = $1 FOR UPDATE`)
	moved := make(chan error, 1)
	go func() {
		_, err := b.transfer("usr_1", "usr_2")
		moved <- err
	}()
	require.Eventually(t, func() bool {
		return b.count(`pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, time.Minute, time.Millisecond, "the transfer must wait for the lock on the job")
	do(`UPDATE attempt SET held = 0 WHERE job_id = $1`)
	do(`UPDATE account SET held = held - 3 WHERE user_id = (SELECT owner_id FROM job WHERE id = $1)`)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-moved)
	require.Equal(t, []int{0, 2}, []int{b.held("usr_1"), b.held("usr_2")})
}
