package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

func TestDriver_Report_events(t *testing.T) {
	t.Parallel()
	type step struct {
		event   string
		attempt int
		applied bool
		code    string // of the error, or empty
		state   job.State
	}
	for name, steps := range map[string][]step{
		"in order": {
			{"starting", 1, true, "", job.Starting},
			{"starting", 1, false, "", job.Starting},
			{"running", 1, true, "", job.Running},
			{"running", 1, false, "", job.Running},
			{"succeeded", 1, true, "", job.Running},
			{"succeeded", 1, false, "", job.Running},
		},
		"event skipped": {{"running", 1, true, "", job.Running}, {"failed", 1, true, "", job.Running}},
		"out of order":  {{"running", 1, true, "", job.Running}, {"starting", 1, false, "lifecycle", job.Running}},
		"after the end": {{"succeeded", 1, true, "", job.Scheduled}, {"running", 1, false, "lifecycle", job.Scheduled}},
		"different end": {{"failed", 1, true, "", job.Scheduled}, {"succeeded", 1, false, "lifecycle", job.Scheduled}},
		"other attempt": {{"running", 2, false, "stale_attempt", job.Scheduled}, {"running", 0, false, "stale_attempt", job.Scheduled}},
		"unknown event": {{"dancing", 1, false, "invalid", job.Scheduled}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1)
			j := b.placed(1, 0)
			for _, s := range steps {
				before := b.job(j).Seq
				applied, err := b.driver.Report(t.Context(), j.RunID, s.attempt, s.event, "")
				require.Equal(t, s.applied, applied, s.event)
				if s.code == "invalid" {
					require.True(t, fault.Is(err, fault.Invalid), "%v", err)
				} else {
					require.Equal(t, s.code != "", fault.HasCode(err, s.code), "%v", err)
				}
				got := b.job(j)
				require.Equal(t, s.state, got.State, s.event)
				require.Equal(t, s.applied, got.Seq == before+1, "only an applied report must append an event")
				if s.applied {
					require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND reason = $2 AND actor_kind = 'run' AND actor_id = $3`,
						j.ID, "reported_"+s.event, j.RunID))
				}
			}
		})
	}
}

func TestDriver_Report_unknownRunOrAttempt(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	_, err := b.driver.Report(t.Context(), "run_none", 1, "running", "")
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	_, err = b.driver.Report(t.Context(), b.submit(1, 0).RunID, 1, "running", "")
	require.True(t, fault.HasCode(err, "stale_attempt"), "a report for a job that was never placed must be refused: %v", err)
}

func TestDriver_Report_requeueClearsRunningTime(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.placed(1, 1)
	b.report(j, job.ReportRunning)
	b.observe("nod_1", seen(b.works(j)[0], gang.PhaseExited, &gang.Exit{Code: -1, Reason: gang.ExitLost}))
	require.Nil(t, b.job(j).RunningAt)
	_, err := b.driver.Report(t.Context(), j.RunID, 1, job.ReportSucceeded, "")
	require.True(t, fault.HasCode(err, "lifecycle"), "a report after the end of the attempt must be refused: %v", err)
	require.Equal(t, job.Queued, b.job(j).State)
	require.Equal(t, 1, b.count(`run WHERE id = $1 AND started_at IS NOT NULL AND state = 'queued' AND attempts = 1`, j.RunID),
		"the run must keep its first start time")
}
