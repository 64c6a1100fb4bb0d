package lifecycle_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// TestDriver_Observe_endReleasesEverything ends attempts in every way that an executor can report.
func TestDriver_Observe_endReleasesEverything(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reports []string
		stop    string
		exit    gang.Exit
		retries int
		state   job.State
		reason  string // of the attempt
		warns   []string
	}{
		"success reported, exit 0":       {reports: []string{"running", "succeeded"}, state: job.Succeeded, reason: job.ReasonCompleted},
		"success reported, then crash":   {reports: []string{"succeeded"}, exit: gang.Exit{Code: 3}, state: job.Succeeded, reason: job.ReasonCompleted, warns: []string{job.WarnExitAfterSuccess}},
		"no report, exit 0":              {state: job.Succeeded, reason: job.ReasonCompleted, warns: []string{job.WarnNoReport}},
		"failure reported, exit 0":       {reports: []string{"failed"}, state: job.Failed, reason: job.ReasonUserError},
		"crash is not retried":           {exit: gang.Exit{Code: 1}, retries: 3, state: job.Failed, reason: job.ReasonUserError},
		"killed by signal":               {exit: gang.Exit{Code: -1, Signal: 9}, retries: 3, state: job.Failed, reason: job.ReasonUserError},
		"out of memory":                  {exit: gang.Exit{Code: -1, Reason: gang.ExitOOMHost}, retries: 3, state: job.Failed, reason: job.ReasonOOMHost},
		"environment not built":          {exit: gang.Exit{Code: -1, Reason: gang.ExitEnvBuild}, retries: 3, state: job.Failed, reason: job.ReasonEnvBuild},
		"command not started":            {exit: gang.Exit{Code: -1, Reason: gang.ExitStart}, retries: 3, state: job.Failed, reason: job.ReasonUserError},
		"fetch failed, retried":          {exit: gang.Exit{Code: -1, Reason: gang.ExitFetch}, retries: 1, state: job.Queued, reason: job.ReasonFetch},
		"fetch failed, no retries left":  {exit: gang.Exit{Code: -1, Reason: gang.ExitFetch}, state: job.Failed, reason: job.ReasonFetch},
		"lost, retried":                  {exit: gang.Exit{Code: -1, Reason: gang.ExitLost}, retries: 1, state: job.Queued, reason: job.ReasonExecutorLost},
		"lost, no retries left":          {exit: gang.Exit{Code: -1, Reason: gang.ExitLost}, state: job.Failed, reason: job.ReasonExecutorLost},
		"stopped by agent after failure": {reports: []string{"failed"}, exit: gang.Exit{Code: -1, Reason: gang.ExitStopped}, retries: 1, state: job.Queued, reason: job.ReasonExecutorLost},
		"stopped by agent, no retries":   {exit: gang.Exit{Code: -1, Reason: gang.ExitStopped}, state: job.Queued, reason: job.ReasonExecutorLost},
		"stopped by owner":               {stop: job.ReasonUserStop, exit: gang.Exit{Code: -1, Signal: 15, Reason: gang.ExitStopped}, retries: 3, state: job.Stopped, reason: job.ReasonUserStop},
		"stopped by admin after success": {stop: job.ReasonAdminStop, reports: []string{"succeeded"}, exit: gang.Exit{Reason: gang.ExitStopped}, state: job.Stopped, reason: job.ReasonAdminStop},
		"ended by itself before a stop":  {stop: job.ReasonUserStop, state: job.Succeeded, reason: job.ReasonCompleted, warns: []string{job.WarnNoReport}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1)
			j := b.placed(1, c.retries)
			require.Equal(t, 1, b.held())
			w := b.works(j)[0]
			b.observe("nod_1", seen(w, gang.PhaseRunning, nil))
			for _, event := range c.reports {
				b.report(j, event)
			}
			if c.stop != "" {
				b.stop(j, c.stop)
			}
			exit := c.exit
			b.observe("nod_1", seen(w, gang.PhaseExited, &exit))

			got, attempts, works := b.job(j), b.attempts(j), b.works(j)
			require.Equal(t, c.state, got.State)
			require.Len(t, attempts, 1)
			require.Equal(t, c.reason, attempts[0].EndReason)
			require.NotNil(t, attempts[0].EndedAt)
			require.Equal(t, c.exit.Code, *attempts[0].ExitCode)
			require.Zero(t, attempts[0].Held)
			require.Zero(t, b.held(), "the account must hold nothing")
			require.NotNil(t, works[0].ReleasedAt, "the slot must be free")
			require.Equal(t, assignment.WantGone, works[0].Desired)
			require.ElementsMatch(t, c.warns, got.Warnings)
			if c.state == job.Queued {
				require.NotNil(t, got.NotBefore)
				require.Equal(t, job.WaitBackoff, got.Queue.Reason)
				require.Empty(t, b.closes.runs, "the run must not be closed before the job ends")
				return
			}
			require.Equal(t, c.reason, got.EndReason)
			require.Equal(t, []string{j.RunID}, b.closes.runs)
			require.Equal(t, 1, b.count(`run WHERE id = $1 AND state = $2 AND ended_at IS NOT NULL`, j.RunID, c.state))
		})
	}
}

func TestDriver_Observe_repeatedReportWritesNothing(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.placed(1, 0)
	w := b.works(j)[0]
	for _, step := range []struct {
		phase string
		state job.State
		event string
	}{
		{gang.PhasePending, job.Scheduled, "job.scheduled"},
		{gang.PhasePreparing, job.Starting, "job.starting"},
		{gang.PhaseRunning, job.Starting, "job.executor_running"},
		{gang.PhaseCollecting, job.Starting, "job.executor_running"},
	} {
		news := seen(w, step.phase, nil)
		b.observe("nod_1", news)
		got, works := b.job(j), b.works(j)
		require.Equal(t, step.state, got.State, step.phase)
		require.Equal(t, step.phase, b.attempts(j)[0].Phase)
		require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND type = $2`, j.ID, step.event))
		b.observe("nod_1", news)
		require.Equal(t, got.Seq, b.job(j).Seq, "a repeated report must not append an event")
		require.Equal(t, works[0].UpdatedAt, b.works(j)[0].UpdatedAt, "a repeated report must not write")
	}
	require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND type = 'job.starting' AND actor_kind = 'agent' AND actor_id = 'nod_1'`, j.ID))
}

func TestDriver_Observe_ignoresOtherExecutions(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 2)
	j := b.placed(1, 3)
	w := b.works(j)[0]
	b.observe(w.NodeID, seen(w, gang.PhaseRunning, nil))
	before, other := b.job(j), "nod_2"
	if w.NodeID == other {
		other = "nod_1"
	}
	ended := seen(w, gang.PhaseExited, &gang.Exit{Code: 1})
	for name, c := range map[string]struct {
		node  string
		spoil func(s *assignment.Observed)
	}{
		"other node":       {other, func(*assignment.Observed) {}},
		"unknown node":     {"nod_none", func(*assignment.Observed) {}},
		"later generation": {w.NodeID, func(s *assignment.Observed) { s.Generation++ }},
		"earlier fence":    {w.NodeID, func(s *assignment.Observed) { s.Fence-- }},
	} {
		s := ended
		c.spoil(&s)
		b.observe(c.node, s)
		require.Equal(t, before, b.job(j), name)
	}
	b.observe(w.NodeID, ended)
	require.Equal(t, job.Failed, b.job(j).State, "the matching report must end the job")
}

func TestDriver_Observe_gangEndsTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second gang.Exit
		broke         bool // the second is stopped when the first has ended
		state         job.State
		code          int
	}{
		"both exit 0":           {state: job.Succeeded},
		"first failed":          {first: gang.Exit{Code: 3}, second: gang.Exit{Code: -1, Reason: gang.ExitStopped}, broke: true, state: job.Failed, code: 3},
		"second failed":         {second: gang.Exit{Code: 4}, state: job.Failed, code: 4},
		"one lost, one stopped": {first: gang.Exit{Code: -1, Reason: gang.ExitLost}, second: gang.Exit{Code: -1, Reason: gang.ExitStopped}, broke: true, state: job.Queued, code: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 2)
			j := b.placed(2, 1)
			works := b.works(j)
			require.Equal(t, 2, b.held())
			b.observe(works[0].NodeID, seen(works[0], gang.PhaseRunning, nil))
			require.Nil(t, b.job(j).ExecutorRunningAt, "the job must not count as running while only one of two nodes runs")
			b.observe(works[1].NodeID, seen(works[1], gang.PhaseRunning, nil))
			require.NotNil(t, b.job(j).ExecutorRunningAt)

			b.observe(works[0].NodeID, seen(works[0], gang.PhaseExited, &c.first))
			require.Equal(t, job.Starting, b.job(j).State, "the attempt must not end before its last node")
			require.Equal(t, 2, b.held())
			require.Equal(t, c.broke, b.works(j)[1].Desired == assignment.WantStopped)
			b.observe(works[1].NodeID, seen(works[1], gang.PhaseExited, &c.second))
			require.Equal(t, c.state, b.job(j).State)
			require.Equal(t, c.code, *b.attempts(j)[0].ExitCode)
			require.Zero(t, b.held())
			require.Equal(t, 2, b.count(`work WHERE released_at IS NOT NULL AND desired = 'gone'`))
		})
	}
}

func TestDriver_Observe_missingStartedWorkIsLost(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	fresh := b.placed(1, 1)
	b.observe("nod_1")
	require.Equal(t, job.Scheduled, b.job(fresh).State, "a work that may still be on its way to the node must not count as lost")
	b.observe("nod_1", seen(b.works(fresh)[0], gang.PhaseRunning, nil))
	b.observe("nod_1")
	require.Equal(t, job.Queued, b.job(fresh).State)
	require.Equal(t, job.ReasonExecutorLost, b.attempts(fresh)[0].EndReason)
}

func TestDriver_Observe_concurrentEndsCountOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j, other := b.placed(1, 0), b.placed(1, 0)
	w := b.works(j)[0]
	running := seen(b.works(other)[0], gang.PhaseRunning, nil)
	b.observe("nod_1", seen(w, gang.PhaseRunning, nil), running)
	ended := seen(w, gang.PhaseExited, &gang.Exit{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := b.driver.Observe(t.Context(), "nod_1", []assignment.Observed{ended, running}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range 3 {
		wg.Go(b.commit)
	}
	wg.Wait()
	require.Equal(t, job.Succeeded, b.job(j).State)
	require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND type = 'job.succeeded'`, j.ID))
	require.Equal(t, []string{j.RunID}, b.closes.runs)
	require.Equal(t, 1, b.held(), "the other job must keep its GPU")
}

func TestDriver_Observe_recordsFullDisk(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.placed(1, 0)
	w := b.works(j)[0]
	running := seen(w, gang.PhaseRunning, nil)
	b.observe("nod_1", running)
	frozen := running
	frozen.Detail = assignment.DetailFrozen
	for range 2 {
		b.observe("nod_1", frozen)
	}
	b.observe("nod_1", running)
	rows, err := b.pool.Query(t.Context(), `SELECT type || ' ' || reason || ' ' || message FROM event
		WHERE subject_id = $1 AND type IN ('job.frozen', 'job.thawed') ORDER BY seq`, j.ID)
	require.NoError(t, err)
	events, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"job.frozen disk_full frozen: the disk of the node is full", "job.thawed disk_full "}, events)
	exit := gang.Exit{}
	b.observe("nod_1", frozen)
	b.observe("nod_1", seen(w, gang.PhaseExited, &exit))
	require.Equal(t, job.Succeeded, b.job(j).State)
}
