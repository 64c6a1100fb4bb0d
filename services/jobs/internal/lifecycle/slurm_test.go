package lifecycle_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/lifecycle"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// newSlurmHarness makes nod_1 the agent of a Slurm fleet whose pool gpu can be used.
func newSlurmHarness(t *testing.T) *harness {
	t.Helper()
	b := newHarness(t, 1)
	const set = `{"partition": "p1", "account": "", "qos": "", "user": "", "folder": "/s"}`
	b.exec(`UPDATE fleet SET kind = 'slurm'`)
	b.exec(`UPDATE node SET slurm = jsonb_build_object('version', '', 'partitions', '[]'::jsonb, 'problem', '', 'pools',
		jsonb_build_array(jsonb_build_object('pool', 'gpu', 'slurm', $1::text::jsonb, 'isolation', 'own_user')))`, set)
	b.exec(`INSERT INTO pool (name, slurm) VALUES ('gpu', $1::text::jsonb)`, set)
	return b
}

// held returns the report that Slurm holds a work.
func held(w *assignment.Work, id, reason, detail string) assignment.Observed {
	s := seen(w, gang.PhasePending, nil)
	s.BatchID, s.BatchReason, s.BatchDetail = id, reason, detail
	return s
}

func TestDriver_Observe_heldBySlurm(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t)
	j := b.placed(2, 0)
	w := b.works(j)[0]
	require.True(t, w.Batch)
	placed := b.job(j)
	require.True(t, placed.BatchHeld)
	require.False(t, placed.Waits())
	b.observe("nod_1", held(w, "17", "Priority", "expected at noon"))
	got := b.job(j)
	require.Equal(t, job.Scheduled, got.State)
	require.Equal(t, [2]string{"Priority", "expected at noon"}, [2]string{got.Queue.Reason, got.Queue.Detail})
	require.True(t, got.Waits())
	require.Equal(t, placed.Seq, got.Seq, "a reason is not a change of the state, so it has no event")
	require.Equal(t, "17", b.attempts(j)[0].BatchID)
	require.Positive(t, b.count(`job_change WHERE job_id = $1 AND id = (SELECT max(id) FROM job_change)`, j.ID), "lists must show the reason")
	changes := b.count(`job_change`)
	b.observe("nod_1", held(w, "17", "Priority", "expected at noon"))
	require.Equal(t, changes, b.count(`job_change`), "a repeated report must write nothing")
	b.observe("nod_1", held(w, "", "Resources", ""))
	require.Equal(t, "Resources", b.job(j).Queue.Reason)

	begun := seen(w, gang.PhaseRunning, nil)
	begun.BatchNodes = []string{"n1", "n2", "n3"}
	b.observe("nod_1", begun)
	got = b.job(j)
	require.Equal(t, job.Starting, got.State)
	require.Equal(t, job.Queue{Since: got.Queue.Since}, got.Queue)
	require.True(t, got.ScheduledAt.After(*placed.ScheduledAt), "the start limit counts from the start by Slurm")
	require.Equal(t, []string{"n1", "n2"}, b.attempts(j)[0].BatchNodes, "there is one node for each rank")
	b.observe("nod_1", held(w, "17", "Late", ""))
	require.Equal(t, job.Starting, b.job(j).State)
	require.Empty(t, b.job(j).Queue.Reason)
	b.observe("nod_1", seen(w, gang.PhaseExited, &gang.Exit{}))
	require.Equal(t, job.Succeeded, b.job(j).State)
	require.Equal(t, "17", b.attempts(j)[0].BatchID)
	require.Zero(t, b.held())
}

func TestDriver_Enforce_heldBySlurm(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t)
	j := b.placed(1, 3)
	w := b.works(j)[0]
	b.observe("nod_1", held(w, "17", "Priority", ""))
	r := &lifecycle.Reconciler{Pool: b.pool, Driver: b.driver, Nodes: fleet.NewLiveness(b.pool, b.driver.Jobs.Events, 0, 200), Clock: clock.Real(), Lease: time.Hour, Fence: time.Hour}
	pass := func(after time.Duration) job.State {
		require.NoError(t, r.RunOnce(pg.WithOffset(t.Context(), after), clock.Real().Now()))
		return b.job(j).State
	}
	require.Equal(t, job.Scheduled, pass(4990*time.Second), "the start limit must not count while Slurm holds the job")
	require.Equal(t, job.Stopping, pass(5010*time.Second))
	require.Equal(t, job.ReasonQueueTimeout, b.job(j).StopReason)
	require.Equal(t, assignment.WantStopped, b.works(j)[0].Desired)
	b.observe("nod_1", seen(w, gang.PhaseExited, &gang.Exit{Code: -1, Reason: gang.ExitStopped}))
	require.Equal(t, job.Failed, b.job(j).State)
	require.Equal(t, job.ReasonQueueTimeout, b.job(j).EndReason)
	require.Zero(t, b.held())

	started := b.placed(1, 3)
	b.observe("nod_1", seen(b.works(started)[0], gang.PhaseRunning, nil))
	require.NoError(t, r.RunOnce(pg.WithOffset(t.Context(), 110*time.Second), clock.Real().Now()))
	require.Equal(t, job.ReasonStartTimeout, b.job(started).StopReason)
}

// An agent of a Slurm fleet that is lost may leave works that Slurm holds, and works that run. What Slurm holds keeps its
// place there until it starts, must end or its node is removed.
func TestDriver_Lose_slurm(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t)
	jobs := map[string]*job.Job{}
	for _, name := range []string{"held", "stopping", "unsubmitted", "unacknowledged", "renewed", "silent"} {
		jobs[name] = b.placed(1, 0)
	}
	work := func(name string) *assignment.Work { return b.works(jobs[name])[0] }
	b.observe("nod_1", held(work("held"), "17", "Priority", ""), held(work("renewed"), "18", "Priority", ""), seen(work("silent"), gang.PhaseRunning, nil),
		held(work("stopping"), "19", "Priority", ""), held(work("unsubmitted"), "", "", ""))
	b.exec(`UPDATE work SET renewed_at = $2 WHERE job_id = $1`, jobs["renewed"].ID, fixtures.Now())
	b.exec(`UPDATE work SET desired = 'stopped' WHERE job_id = $1`, jobs["stopping"].ID)
	b.exec(`UPDATE job SET state = 'stopping', stop_reason = 'user' WHERE id = $1`, jobs["stopping"].ID)
	number := b.job(jobs["held"]).Attempt
	b.exec(`UPDATE node SET state = 'lost', lost_at = $1`, fixtures.Now())
	nodes := fleet.NewLiveness(b.pool, b.driver.Jobs.Events, 0, 200)
	lose := func(renewed time.Time) []string {
		ids, err := nodes.NodesToFence(t.Context(), fixtures.Now(), renewed)
		require.NoError(t, err)
		require.NoError(t, b.driver.Lose(t.Context(), "nod_1", renewed))
		b.commit()
		return ids
	}
	require.Equal(t, []string{"nod_1"}, lose(fixtures.Now()))
	for _, name := range []string{"unsubmitted", "unacknowledged"} {
		got := b.job(jobs[name])
		require.Equal(t, job.Queued, got.State, "%s: the job must be queued again, although it has no retries", name)
		require.Equal(t, number-1, got.Attempt, name)
		require.False(t, got.BatchHeld, name)
		require.Empty(t, b.attempts(jobs[name]), name)
	}
	require.Equal(t, job.Scheduled, b.job(jobs["held"]).State, "Slurm starts it without the agent")
	require.Equal(t, job.Stopped, b.job(jobs["stopping"]).State)
	require.Equal(t, job.Scheduled, b.job(jobs["renewed"]).State, "Slurm has started it, and its shim has renewed the lease")
	require.Equal(t, job.Failed, b.job(jobs["silent"]).State, "an attempt that ran counts")
	require.Equal(t, []string{"nod_1"}, lose(fixtures.Now().Add(time.Second)))
	require.Equal(t, job.Failed, b.job(jobs["renewed"]).State)
	require.Empty(t, lose(fixtures.Now().Add(time.Second)), "what Slurm holds needs no further pass")
	require.Equal(t, job.Scheduled, b.job(jobs["held"]).State)
	require.NoError(t, b.driver.Abandon(t.Context(), "nod_1"))
	require.Equal(t, job.Queued, b.job(jobs["held"]).State, "its agent was removed")
	require.Zero(t, b.held())
}

// A higher limit does not reach Slurm, which would end the attempt earlier.
func TestDriver_Update_limitOfBatch(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t)
	j := b.placed(1, 0)
	set := func(running int) error {
		_, err := b.driver.Update(t.Context(), j.ID, func(j *job.Job) error { j.RunningS = running; return nil },
			func(context.Context, pgx.Tx) error { return nil })
		return err
	}
	more := b.job(j).RunningS + 1
	err := set(more)
	require.True(t, fault.HasCode(err, "batch_limit") && fault.Is(err, fault.Conflict), "%v", err)
	require.Equal(t, more-1, b.job(j).RunningS)
	require.NoError(t, set(more-2))
	b.observe("nod_1", seen(b.works(j)[0], gang.PhaseRunning, nil))
	require.ErrorContains(t, set(more), "Slurm ends attempt 1 of job "+j.ID+" at the time limit")
	waiting := b.placed(1, 0)
	require.NoError(t, b.driver.Abandon(t.Context(), "nod_1"))
	require.Equal(t, job.Queued, b.job(waiting).State)
	j = waiting
	require.NoError(t, set(more))
}

func TestDriver_withdrawsHeldWorks(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(b *harness) error{
		"drain":      func(b *harness) error { return b.driver.Evict(b.t.Context(), "nod_1") },
		"checkpoint": func(b *harness) error { return b.driver.EvictIdle(b.t.Context(), "nod_1") },
		"removed":    func(b *harness) error { return b.driver.Abandon(b.t.Context(), "nod_1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newSlurmHarness(t)
			j := b.placed(1, 0)
			b.observe("nod_1", held(b.works(j)[0], "17", "Priority", ""))
			require.NoError(t, leave(b))
			require.Equal(t, job.Queued, b.job(j).State)
			require.Zero(t, b.count("work"), "the agent must cancel it in Slurm")
			require.Zero(t, b.held())
		})
	}
}

// A stop of a held job ends it as soon as the agent has cancelled it.
func TestDriver_Stop_heldBySlurm(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t)
	j := b.placed(1, 3)
	w := b.works(j)[0]
	b.observe("nod_1", held(w, "17", "Priority", ""))
	b.stop(j, job.ReasonUserStop)
	require.Equal(t, job.Stopping, b.job(j).State)
	require.False(t, b.job(j).Waits())
	require.NoError(t, b.driver.Evict(t.Context(), "nod_1"))
	require.Equal(t, job.Stopping, b.job(j).State, "a job that is being stopped must not be queued again")
	b.observe("nod_1", seen(w, gang.PhaseExited, &gang.Exit{Code: -1, Reason: gang.ExitStopped}))
	require.Equal(t, job.Stopped, b.job(j).State)
}
