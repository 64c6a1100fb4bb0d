package lifecycle_test

import (
	"context"
	"fmt"
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
)

// decide reports the exit of a job's only work, which decides the end of the job.
func (b *harness) decide(j *job.Job, change ...func(*assignment.Observed)) {
	b.t.Helper()
	s := seen(b.works(j)[0], gang.PhaseExited, &gang.Exit{})
	for _, c := range change {
		c(&s)
	}
	require.NoError(b.t, b.driver.Observe(b.t.Context(), "nod_1", []assignment.Observed{s}))
}

// The job ends only when its run is closed. Its GPUs and its quota are free before, and nothing that comes meanwhile
// changes its end.
func TestDriver_Commit_endsAsDecided(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.placed(1, 3)
	b.observe("nod_1", seen(b.works(j)[0], gang.PhaseRunning, nil))
	b.report(j, job.ReportRunning)
	b.decide(j)
	got := b.job(j)
	require.Equal(t, job.Running, got.State)
	require.Nil(t, got.EndedAt)
	require.Equal(t, 0, b.held())
	require.Equal(t, []int{2, 2, 2}, b.gpusFree())
	require.Equal(t, []string{j.RunID}, b.closes.all())

	_, err := b.driver.Report(t.Context(), j.RunID, 1, job.ReportFailed, "")
	require.True(t, fault.HasCode(err, "lifecycle"), "%v", err)
	_, err = b.driver.Pause(t.Context(), j.ID, func(context.Context, pgx.Tx) error { return nil })
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	b.stop(j, job.ReasonUserStop)
	require.Equal(t, job.Stopping, b.job(j).State)
	require.NoError(t, b.driver.Observe(t.Context(), "nod_1", nil))
	require.NoError(t, b.driver.Lose(t.Context(), "nod_1", clock.Real().Now()))
	require.NoError(t, b.driver.Enforce(pg.WithOffset(t.Context(), time.Hour), j.ID))
	require.Equal(t, job.Stopping, b.job(j).State)

	end, err := b.driver.Decided(t.Context(), j.RunID)
	require.NoError(t, err)
	require.Equal(t, job.Succeeded, end.Outcome.State)
	for range 2 {
		require.NoError(t, b.driver.Commit(t.Context(), j.RunID, true))
	}
	got = b.job(j)
	require.Equal(t, job.Succeeded, got.State)
	require.Equal(t, end.At, *got.EndedAt)
	require.True(t, *got.Collected)
	require.True(t, *b.attempts(j)[0].Collected)
	require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND type = 'job.succeeded' AND actor_id = 'nod_1'`, j.ID))
	require.Len(t, b.closes.all(), 1, "the closing of the run must be queued once")
	end, err = b.driver.Decided(t.Context(), j.RunID)
	require.NoError(t, err)
	require.Nil(t, end)
}

func TestDriver_Commit_collected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		uncollected, lost bool
		closed            bool
		want              bool
	}{
		"all delivered":         {closed: true, want: true},
		"not all delivered":     {uncollected: true, closed: true},
		"node lost":             {lost: true, closed: true},
		"run not closed before": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1)
			j := b.placed(1, 0)
			b.observe("nod_1", seen(b.works(j)[0], gang.PhaseRunning, nil))
			if c.lost {
				require.NoError(t, b.driver.Lose(t.Context(), "nod_1", clock.Real().Now()))
			} else {
				b.decide(j, func(s *assignment.Observed) { s.Uncollected = c.uncollected })
			}
			require.NoError(t, b.driver.Commit(t.Context(), j.RunID, c.closed))
			require.Equal(t, c.want, *b.job(j).Collected)
			require.Equal(t, c.want, *b.attempts(j)[0].Collected)
		})
	}
}

// endings records the attempts whose lines are finished.
type endings []string

func (e *endings) EndAttempt(_ context.Context, _ pgx.Tx, runID string, attempt int) error {
	*e = append(*e, fmt.Sprintf("%s/%d", runID, attempt))
	return nil
}

// An attempt that is followed by another one ends at once. Its job has not ended, so the run stays open, and only the
// attempt's lines are finished.
func TestDriver_Observe_requeueWaitsForNothing(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	lines := &endings{}
	b.driver.Lines = lines
	j := b.placed(1, 1)
	b.observe("nod_1", seen(b.works(j)[0], gang.PhaseRunning, nil))
	require.NoError(t, b.driver.Lose(t.Context(), "nod_1", clock.Real().Now()))
	require.Equal(t, job.Queued, b.job(j).State)
	require.False(t, *b.attempts(j)[0].Collected)
	require.Empty(t, b.closes.all())
	require.Equal(t, endings{j.RunID + "/1"}, *lines)
	require.NoError(t, b.driver.Commit(t.Context(), j.RunID, true))
	require.Equal(t, job.Queued, b.job(j).State)
	b.stop(j, job.ReasonUserStop)
	require.False(t, *b.job(j).Collected, "the last attempt was lost")
	fresh := b.submit(1, 0)
	b.stop(fresh, job.ReasonUserStop)
	require.True(t, *b.job(fresh).Collected, "a job without an attempt has nothing to deliver")
	require.NoError(t, b.driver.Commit(t.Context(), "run_none", true))
}
