package lifecycle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func TestDriver_Lose_withdrawsUnacknowledgedPlacement(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.placed(1, 0)
	w := b.works(j)[0]
	b.exec(`INSERT INTO ingest_token (hash, job_id, run_id, attempt, work_id, created_at, expires_at)
		VALUES (sha256('x'), $1, $2, 1, $3, now(), now() + interval '1 day')`, j.ID, j.RunID, w.ID)
	require.NoError(t, b.driver.Lose(t.Context(), "nod_1", clock.Real().Now()))
	got := b.job(j)
	require.Equal(t, job.Queued, got.State)
	require.Zero(t, got.Attempt, "the attempt number must be free again")
	require.Nil(t, got.NotBefore, "a withdrawn placement must cause no backoff")
	require.Empty(t, b.attempts(j))
	require.Zero(t, b.count("work"))
	require.Zero(t, b.count("ingest_token"))
	require.Zero(t, b.held())
	require.NoError(t, b.driver.Lose(t.Context(), "nod_1", clock.Real().Now()), "a repeated call must succeed and change nothing")
	require.Equal(t, got, b.job(j))
}

// The node has started the attempt, but stopped responding before it reported that.
func TestDriver_Lose_doesNotWithdrawAttemptWithRenewedLease(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.placed(1, 1)
	b.exec(`UPDATE work SET renewed_at = $2 WHERE job_id = $1`, j.ID, fixtures.Now())
	require.NoError(t, b.driver.Lose(t.Context(), "nod_1", fixtures.Now()))
	require.Equal(t, 1, b.job(j).Attempt)
	require.NotEqual(t, job.Queued, b.job(j).State, "the attempt continues")
	require.Equal(t, assignment.WantRunning, b.works(j)[0].Desired)
	require.NoError(t, b.driver.Lose(t.Context(), "nod_1", fixtures.Now().Add(time.Second)))
	require.Equal(t, job.Queued, b.job(j).State)
	require.Equal(t, 1, b.job(j).Attempt, "a second copy must not have the number of the first")
}

func TestDriver_Lose_judgesAcknowledgedAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		phase   string
		retries int
		stop    bool
		state   job.State
		reason  string
	}{
		"pending, retried": {gang.PhasePending, 1, false, job.Queued, job.ReasonExecutorLost},
		"running, retried": {gang.PhaseRunning, 1, false, job.Queued, job.ReasonExecutorLost},
		"no retries left":  {gang.PhaseRunning, 0, false, job.Failed, job.ReasonExecutorLost},
		"stopping":         {gang.PhaseRunning, 1, true, job.Stopped, job.ReasonUserStop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1)
			j := b.placed(1, c.retries)
			b.observe("nod_1", seen(b.works(j)[0], c.phase, nil))
			if c.stop {
				b.stop(j, job.ReasonUserStop)
			}
			require.NoError(t, b.driver.Lose(t.Context(), "nod_1", clock.Real().Now()))
			b.commit()
			require.Equal(t, c.state, b.job(j).State)
			require.Equal(t, 1, b.job(j).Attempt, "an acknowledged attempt must count")
			require.Equal(t, c.reason, b.attempts(j)[0].EndReason)
			require.Zero(t, b.held())
			w := b.works(j)[0]
			require.Equal(t, assignment.WantGone, w.Desired, "a node that comes back must remove the work")
			require.True(t, w.Released())
		})
	}
}

func TestDriver_Lose_stopsRestOfGang(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{gang.PhasePending, gang.PhaseRunning} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 2)
			j := b.placed(2, 1)
			works := b.works(j)
			b.observe(works[1].NodeID, seen(works[1], phase, nil))
			require.NoError(t, b.driver.Lose(t.Context(), works[0].NodeID, clock.Real().Now()))
			require.Equal(t, job.Starting, b.job(j).State, "an attempt that one node has acknowledged must not be withdrawn")
			require.Equal(t, assignment.WantStopped, b.works(j)[1].Desired)
			b.observe(works[1].NodeID, seen(works[1], gang.PhaseExited, &gang.Exit{Code: -1, Signal: 15, Reason: gang.ExitStopped}))
			require.Equal(t, job.Queued, b.job(j).State)
			require.Equal(t, job.ReasonExecutorLost, b.attempts(j)[0].EndReason)
			require.Zero(t, b.held())
		})
	}
}

// The agent of a node may be frozen while the shim, the process that supervises an attempt, still renews the attempt's
// lease.
func TestDriver_Lose_leavesAttemptsWithRenewedLease(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	silent, renewed := b.placed(1, 1), b.placed(1, 1)
	for _, j := range []*job.Job{silent, renewed} {
		b.observe("nod_1", seen(b.works(silent)[0], gang.PhaseRunning, nil), seen(b.works(renewed)[0], gang.PhaseRunning, nil))
		b.exec(`UPDATE work SET renewed_at = $2 WHERE job_id = $1`, j.ID, fixtures.Now())
	}
	b.exec(`UPDATE work SET renewed_at = $2 WHERE job_id = $1`, silent.ID, fixtures.Now().Add(-time.Second))
	require.NoError(t, b.driver.Lose(t.Context(), "nod_1", fixtures.Now()))
	require.Equal(t, job.Queued, b.job(silent).State)
	require.Equal(t, job.Starting, b.job(renewed).State)
	require.Equal(t, assignment.WantRunning, b.works(renewed)[0].Desired)
	require.NoError(t, b.driver.Abandon(t.Context(), "nod_1"), "a lease must not protect the work of a removed node")
	require.Equal(t, job.Queued, b.job(renewed).State)
}

func TestDriver_Lose_unplacesEngines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		desired  assignment.Desired
		node     string
		waiting  string
		released bool
	}{
		"desired running": {assignment.WantRunning, "", assignment.WaitStart, false},
		"desired stopped": {assignment.WantStopped, "nod_1", "", true},
		"desired gone":    {assignment.WantGone, "nod_1", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1)
			now := clock.Real().Now()
			w := &assignment.Work{
				Observed: assignment.Observed{Key: assignment.Key{ID: "wrk_1", Generation: 1, Fence: 1}}, Kind: assignment.Engine, Desired: c.desired,
				DesiredAt: now, Spec: []byte{1}, Pool: "cpu", Slots: 1, OwnerID: "u", ProjectID: "p", NodeID: "nod_1", NNodes: 1,
			}
			require.NoError(t, pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
				return b.driver.Works.Insert(ctx, tx, w)
			}))
			b.observe("nod_1", assignment.Observed{Key: w.Key, Phase: gang.PhaseRunning})
			b.exec(`UPDATE work SET renewed_at = $1`, fixtures.Now())
			require.NoError(t, b.driver.Lose(t.Context(), "nod_1", fixtures.Now()))
			got, err := b.driver.Works.Get(t.Context(), b.pool, "wrk_1")
			require.NoError(t, err)
			require.Equal(t, gang.PhaseRunning, got.Phase, "an engine whose lease was renewed must keep running")
			require.Equal(t, "nod_1", got.NodeID)
			require.NoError(t, b.driver.Lose(t.Context(), "nod_1", fixtures.Now().Add(time.Second)))
			got, err = b.driver.Works.Get(t.Context(), b.pool, "wrk_1")
			require.NoError(t, err)
			require.Equal(t, c.node, got.NodeID)
			require.Equal(t, c.waiting, got.Waiting)
			require.Equal(t, c.released, got.Released())
			require.Equal(t, c.released, got.Phase == gang.PhaseGone)
		})
	}
}

func TestDriver_Stop(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	ran := 0
	also := func(context.Context, pgx.Tx) error { ran++; return nil }
	by := job.Cause{ActorKind: "user", ActorID: "usr_9"}

	waiting := b.submit(1, 0)
	got, err := b.driver.Stop(t.Context(), waiting.ID, job.ReasonUserStop, false, by, also)
	require.NoError(t, err)
	require.Equal(t, job.Stopped, got.State, "a queued job must be stopped at once")
	require.Equal(t, 1, ran)
	require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND type = 'job.stopped' AND reason = 'user_stop' AND actor_id = 'usr_9'`, waiting.ID))
	_, err = b.driver.Stop(t.Context(), waiting.ID, job.ReasonUserStop, false, by, also)
	require.True(t, fault.HasCode(err, "job_ended"), "%v", err)

	j := b.placed(1, 3)
	b.observe("nod_1", seen(b.works(j)[0], gang.PhaseRunning, nil))
	errAudit := errors.New("the audit record cannot be written")
	_, err = b.driver.Stop(t.Context(), j.ID, job.ReasonUserStop, false, by, func(context.Context, pgx.Tx) error { return errAudit })
	require.ErrorIs(t, err, errAudit)
	require.Equal(t, job.Starting, b.job(j).State, "the stop must be rolled back with the audit record")
	require.Equal(t, assignment.WantRunning, b.works(j)[0].Desired)
	for range 2 {
		got, err = b.driver.Stop(t.Context(), j.ID, job.ReasonUserStop, false, by, also)
		require.NoError(t, err)
		require.Equal(t, job.Stopping, got.State)
	}
	require.Equal(t, 2, ran, "a repeated stop must not call extra again")
	require.Equal(t, assignment.WantStopped, b.works(j)[0].Desired)
	require.Equal(t, 1, b.held(), "the quota must be held until the end is observed")
	_, err = b.driver.Stop(t.Context(), "job_none", job.ReasonUserStop, false, by, also)
	require.True(t, fault.Is(err, fault.Absent))
}

func TestDriver_Enforce_limits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		placed, running bool
		after           time.Duration
		state           job.State
		reason          string // stop reason or end reason
	}{
		"within the queue limit":    {after: 4990 * time.Second, state: job.Queued},
		"past the queue limit":      {after: 5010 * time.Second, state: job.Failed, reason: job.ReasonQueueTimeout},
		"within the start limit":    {placed: true, after: 90 * time.Second, state: job.Starting},
		"past the start limit":      {placed: true, after: 110 * time.Second, state: job.Stopping, reason: job.ReasonStartTimeout},
		"running, past start limit": {placed: true, running: true, after: 110 * time.Second, state: job.Running},
		"past the running limit":    {placed: true, running: true, after: 1010 * time.Second, state: job.Stopping, reason: job.ReasonTimeLimit},
		"running, within its limit": {placed: true, running: true, after: 990 * time.Second, state: job.Running},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1)
			j := b.submit(1, 3)
			if c.placed {
				b.exec(`UPDATE job SET state = 'stopped', ended_at = now(), end_reason = 'x' WHERE id = $1`, j.ID)
				j = b.placed(1, 3)
				b.observe("nod_1", seen(b.works(j)[0], gang.PhaseRunning, nil))
			}
			if c.running {
				b.report(j, job.ReportRunning)
			}
			for range 2 { // a repeated call changes nothing
				require.NoError(t, b.driver.Enforce(pg.WithOffset(t.Context(), c.after), j.ID))
				got := b.job(j)
				require.Equal(t, c.state, got.State)
				require.Equal(t, c.reason, got.StopReason+got.EndReason)
			}
			require.Equal(t, c.state == job.Stopping, b.count(`work WHERE desired = 'stopped'`) == 1)
		})
	}
}
