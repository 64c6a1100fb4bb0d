package job_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// TestRandomEventsFollowEdges applies random events to jobs and checks each step against
// job.Edges.
func TestRandomEventsFollowEdges(t *testing.T) {
	t.Parallel()
	ends := map[job.State]int{}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		j := &job.Job{ID: "job_1", RetryMax: 2, RunningS: 30, StartingS: 20, QueueS: 40, CheckpointGraceS: 5, CheckpointNeeded: seed%2 == 0, Resumable: true, Status: job.Status{
			State: job.Queued, Queue: job.Queue{Since: fixtures.Now()},
		}}
		var a *job.Attempt
		now := fixtures.Now()
		for range 40 {
			before := j.State
			was := j.Attempt
			now = now.Add(time.Duration(r.IntN(5)) * time.Second)
			a = step(r, j, a, now)
			if j.State != before {
				require.True(t, job.CanMove(before, j.State), "seed %d: %s to %s", seed, before, j.State)
			}
			require.Equal(t, j.State.Terminal(), j.EndedAt != nil, "seed %d: only ended jobs must have an end time", seed)
			require.Equal(t, j.State.Terminal(), j.EndReason != "", "seed %d: only ended jobs must have an end reason", seed)
			require.LessOrEqual(t, j.Attempt, was+1, "seed %d: an attempt number was skipped", seed)
			require.LessOrEqual(t, j.Retries, j.RetryMax, "seed %d: too many retries", seed)
			require.Equal(t, j.State == job.Paused, j.PausedAt != nil, "seed %d: only paused jobs must have a pause time", seed)
			if j.State == job.Paused {
				require.True(t, a.Over(), "seed %d: a paused job must have no live attempt", seed)
			}
			if j.State.Placed() {
				require.False(t, a.Over(), "seed %d: a placed job must have a live attempt", seed)
			}
		}
		ends[j.State]++
	}
	for _, s := range []job.State{job.Succeeded, job.Failed, job.Stopped, job.Paused} {
		require.Positive(t, ends[s], "no walk ended in %s", s)
	}
}

// step applies one random event to a job.
func step(r *rand.Rand, j *job.Job, a *job.Attempt, now time.Time) *job.Attempt {
	events := []string{job.ReportStarting, job.ReportRunning, job.ReportSucceeded, job.ReportFailed}
	reasons := []string{"", "", gang.ExitLost, gang.ExitStopped, gang.ExitEnvBuild, gang.ExitFetch, gang.ExitOOMHost, gang.ExitStart}
	switch r.IntN(13) {
	case 0, 1, 2:
		if j.State == job.Queued && (j.NotBefore == nil || !now.Before(*j.NotBefore)) {
			a, _ = j.Place("att", "nod", now)
		}
	case 3:
		if a != nil {
			_, _ = j.Report(a, events[r.IntN(len(events))], "", now)
		}
	case 4:
		if a != nil {
			j.Observe(a, gang.Gang{Phase: gang.PhasePreparing, Begun: true, Runs: r.IntN(2) == 0}, now)
		}
	case 5:
		if a != nil && !a.Over() {
			exit := gang.Exit{Code: r.IntN(2), Reason: reasons[r.IntN(len(reasons))]}
			j.End(a, exit, job.Judge(j, a, exit), now)
		}
	case 6:
		if r.IntN(6) == 0 {
			_, _ = j.Stop(a, job.ReasonUserStop, now)
		}
	case 9:
		if a != nil && !a.Over() {
			_, _ = j.Pause(a, "sig_1", now)
		}
	case 10:
		j.Register(job.Checkpoint{ArtifactID: "art_1", Attempt: j.Attempt, Format: "npz", CreatedAt: now})
		_, _ = j.Ack("sig_1", now)
	case 11:
		if j.GraceOver(now) == job.GraceAbandoned {
			j.KeepRunning(a)
		}
	case 12:
		_ = j.Resume(now)
	case 7:
		j.ExpireQueue(now)
	case 8:
		if reason := j.Overdue(now); reason != "" {
			_, _ = j.Stop(a, reason, now)
		}
	}
	return a
}
