package scheduler

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// many inserts copies of a job: n for each of the given number of accounts, whose ids begin at usr_<first>. All copies
// are older than the job.
func (b *harness) many(like *job.Job, first, accounts, n int) {
	b.t.Helper()
	const chunk = 2000
	for from := 0; from < accounts*n; from += chunk {
		b.exec(`INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec, spec_digest,
				template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, queue_reason, queued_at, seq)
			SELECT 'job_' || i, 'run_' || i, name, 'usr_' || $2 + i / $3, owner_name, project_id, project, visibility, labels, priority, spec, spec_digest,
				template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at - interval '1 day' + make_interval(secs => i), state,
				queue_reason, queued_at, seq
			FROM job, generate_series($4::int, $5) i WHERE job.id = $1`, like.ID, first, n, from, min(from+chunk, accounts*n)-1)
	}
	b.analyze()
}

// An account with a long queue delays a job of another account by at most two passes. What the queued jobs wait for
// does not matter.
func TestScheduler_RunOnce_longQueueHidesNoOtherAccount(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 0, 4)
	b.exec(`INSERT INTO account (user_id, gpu_limit, set_limit) VALUES ('usr_100', 0, 0)`)
	other := b.submit(job.Pool{Pool: "cpu"})
	b.many(other, 100, 1, 20_000)
	b.exec(`UPDATE job SET
			pools = CASE WHEN id LIKE '%1' THEN jsonb_set(pools, '{0,pool}', '"tpu"') ELSE jsonb_set(pools, '{0,gpus_per_node}', '1') END,
			not_before = CASE WHEN id LIKE '%2' THEN now() + interval '1 hour' END
		WHERE owner_id = 'usr_100'`)
	b.pass()
	b.pass()
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled'`))
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled' AND id = '`+other.ID+`'`))
}

// The accounts share the lookahead. At least leastJobs jobs of each account are read, and the first jobs of all
// accounts come first.
func TestWaitingJobsShareLookahead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ accounts, jobs, most int }{
		{1, 1200, lookahead}, {4, 300, 250}, {4, 200, 200}, {150, 12, 10}, {1100, 2, 1},
	} {
		t.Run(fmt.Sprintf("%d accounts", c.accounts), func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 0, 1)
			like := b.submit(job.Pool{Pool: "cpu"})
			b.many(like, 1000, c.accounts, c.jobs)
			b.exec(`UPDATE job SET state = 'stopped', ended_at = now(), end_reason = 'user_stop' WHERE id = $1`, like.ID)
			read, err := waitingJobs(t.Context(), b.pool, clock.Real().Now())
			require.NoError(t, err)
			require.Len(t, read, min(lookahead, c.accounts*c.most))
			of := map[string]int{}
			for _, w := range read {
				of[w.OwnerID]++
				require.LessOrEqual(t, of[w.OwnerID], c.most)
			}
			require.Len(t, of, min(lookahead, c.accounts), "jobs of every account must be read")
		})
	}
}

func TestWaitingJobsUseIndexes(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 0, 1)
	b.many(b.submit(job.Pool{Pool: "cpu"}), 100, 20, 1000)
	b.exec(`UPDATE job SET not_before = now() + interval '1 hour' WHERE id LIKE '%7'`)
	b.analyze()
	reads := pgtest.Measure(t, b.pool, func(q pg.Querier) error {
		_, err := waitingJobs(t.Context(), q, clock.Real().Now())
		return err
	})
	require.Empty(t, reads.Whole, reads.Plan)
	require.LessOrEqual(t, reads.Rows, 2*lookahead, reads.Plan)
	reads = pgtest.Measure(t, b.pool, func(q pg.Querier) error {
		_, err := nextBackoff(t.Context(), q, clock.Real().Now())
		return err
	})
	require.Empty(t, reads.Whole, reads.Plan)
	require.LessOrEqual(t, reads.Rows, 10, reads.Plan)
}
