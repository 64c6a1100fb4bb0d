package lifecycle_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

func nothing(context.Context, pgx.Tx) error { return nil }

func checkpoint(number int, name string) job.Checkpoint {
	return job.Checkpoint{
		ArtifactID: name, Attempt: number, Format: "npz", URI: "blob://runs/x/" + name + ".npz", Size: 3, SHA256: "aa",
		CreatedAt: clock.Real().Now(),
	}
}

// running places a job and brings it to the state running.
func (b *harness) running(nodes, retryMax int) *job.Job {
	b.t.Helper()
	j := b.placed(nodes, retryMax)
	for _, w := range b.works(j) {
		b.observe(w.NodeID, seen(w, gang.PhaseRunning, nil))
	}
	b.report(j, job.ReportRunning)
	return b.job(j)
}

func (b *harness) pause(j *job.Job) {
	b.t.Helper()
	_, err := b.driver.Pause(b.t.Context(), j.ID, nothing)
	require.NoError(b.t, err)
}

func (b *harness) register(j *job.Job, c job.Checkpoint) {
	b.t.Helper()
	require.NoError(b.t, b.driver.Register(b.t.Context(), j.RunID, c))
}

// passGrace lets the grace period of a pause expire and enforces it.
func (b *harness) passGrace(j *job.Job) {
	b.t.Helper()
	b.exec(`UPDATE job SET signal_deadline = now() - interval '1 second' WHERE id = $1`, j.ID)
	require.NoError(b.t, b.driver.Enforce(b.t.Context(), j.ID))
}

// Training processes poll every few seconds, so a poll must read only the columns of the signal. The test makes other
// columns of the job unreadable.
func TestDriver_Next_readsOnlySignal(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.running(1, 0)
	b.exec(`UPDATE job SET labels = '[1]', pools = '1' WHERE id = $1`, j.ID)
	next, err := b.driver.Next(t.Context(), j.RunID, 1)
	require.NoError(t, err)
	require.Equal(t, job.PendingSignal{Signal: job.SignalNone}, next)
	_, err = b.driver.Next(t.Context(), "run_unknown", 1)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

// TestDriver_Pause_releasesGPUsAndResumesFromCheckpoint covers the whole sequence: pause requested,
// checkpoint saved and acknowledged, processes ended, paused, resumed, placed again.
func TestDriver_Pause_releasesGPUsAndResumesFromCheckpoint(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 2)
	j := b.running(2, 0)
	next, err := b.driver.Next(t.Context(), j.RunID, 1)
	require.NoError(t, err)
	require.Equal(t, job.PendingSignal{Signal: job.SignalNone}, next)
	b.pause(j)
	b.pause(j)
	require.Equal(t, 2, b.held(), "a pausing job must keep its GPUs")
	signal, err := b.driver.Next(t.Context(), j.RunID, 1)
	require.NoError(t, err)
	require.Equal(t, job.SignalCheckpoint, signal.Signal)
	_, err = b.driver.Ack(t.Context(), j.RunID, 1, signal.ID)
	require.True(t, fault.HasCode(err, "checkpoint"), "the acknowledgement must be refused before a checkpoint is registered: %v", err)
	for _, w := range b.works(j) {
		require.Equal(t, assignment.WantRunning, w.Desired, "the work must keep running until a checkpoint is acknowledged")
	}
	b.register(j, checkpoint(1, "art_1"))
	for range 2 {
		next, err = b.driver.Ack(t.Context(), j.RunID, 1, signal.ID)
		require.NoError(t, err)
		require.Equal(t, job.SignalPause, next.Signal)
	}
	works := b.works(j)
	require.Equal(t, assignment.WantStopped, works[0].Desired)
	b.observe(works[0].NodeID, seen(works[0], gang.PhaseExited, &gang.Exit{Code: -1, Reason: gang.ExitStopped}))
	require.Equal(t, job.Pausing, b.job(j).State, "the job must not be paused before every process is gone")
	b.observe(works[1].NodeID, seen(works[1], gang.PhaseExited, &gang.Exit{}))
	got := b.job(j)
	require.Equal(t, job.Paused, got.State)
	require.NotNil(t, got.PausedAt)
	require.Zero(t, b.held(), "a paused job must hold no GPU")
	b.balance()
	require.Zero(t, b.count(`work WHERE job_id = $1 AND released_at IS NULL`, j.ID))
	require.Empty(t, b.closes.runs, "the run of a paused job must not be closed")
	require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND type = 'job.paused'`, j.ID))
	_, err = b.driver.Report(t.Context(), j.RunID, 1, job.ReportRunning, "")
	require.True(t, fault.Is(err, fault.Conflict), "an attempt that is over must be refused: %v", err)

	_, err = b.driver.Resume(t.Context(), j.ID, nothing)
	require.NoError(t, err)
	_, err = b.driver.Resume(t.Context(), j.ID, nothing)
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	b.schedule()
	got = b.job(j)
	require.Equal(t, job.Scheduled, got.State)
	require.Equal(t, 2, got.Attempt)
	require.Equal(t, 2, b.held())
	for _, w := range b.works(j) {
		require.Equal(t, "art_1", b.resumePoint(w).GetArtifactId())
		require.Equal(t, "blob://runs/x/art_1.npz", b.resumePoint(w).GetFile().GetUri())
	}
	require.Equal(t, []string{"", "art_1"}, []string{b.attempts(j)[0].ResumedFrom, b.attempts(j)[1].ResumedFrom})
	require.Nil(t, b.attempts(j)[0].ResumedStep)
	require.Equal(t, got.Checkpoint.Step, b.attempts(j)[1].ResumedStep)
	_, err = b.driver.Next(t.Context(), j.RunID, 1)
	require.True(t, fault.HasCode(err, "stale_attempt"), "%v", err)
	_, err = b.driver.Ack(t.Context(), j.RunID, 1, signal.ID)
	require.True(t, fault.HasCode(err, "stale_attempt"), "%v", err)
	require.True(t, fault.HasCode(b.driver.Register(t.Context(), j.RunID, checkpoint(1, "art_0")), "stale_attempt"))
}

func TestDriver_Enforce_pauseGraceOver(t *testing.T) {
	t.Parallel()
	for name, saved := range map[string]bool{"with a checkpoint": true, "without a checkpoint": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1)
			j := b.running(1, 0)
			if saved {
				b.register(j, checkpoint(1, "art_1"))
			}
			b.pause(j)
			require.NoError(t, b.driver.Enforce(t.Context(), j.ID))
			require.Equal(t, job.Pausing, b.job(j).State, "the job must be pausing until the grace period is over")
			b.passGrace(j)
			w := b.works(j)[0]
			if !saved {
				require.Equal(t, job.Running, b.job(j).State, "without a checkpoint, the pause must be cancelled")
				require.Equal(t, assignment.WantRunning, w.Desired)
				require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND type = 'job.pause_given_up' AND reason = 'no_checkpoint'`, j.ID))
				b.pause(j)
				require.Equal(t, job.Pausing, b.job(j).State, "it must be possible to pause the job again")
				return
			}
			require.Equal(t, job.Pausing, b.job(j).State, "the job must be pausing until the processes are gone")
			require.Equal(t, assignment.WantStopped, w.Desired)
			seq := b.job(j).Seq
			require.NoError(t, b.driver.Enforce(t.Context(), j.ID))
			require.Equal(t, seq, b.job(j).Seq, "a repeated call must change nothing")
			b.observe(w.NodeID, seen(w, gang.PhaseExited, &gang.Exit{Code: -1, Signal: 9, Reason: gang.ExitStopped}))
			require.Equal(t, job.Paused, b.job(j).State, "the job must be paused; it resumes from the earlier checkpoint")
		})
	}
}

func TestDriver_Stop_forceReachesNodes(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.running(1, 0)
	stop := func(force bool) {
		_, err := b.driver.Stop(t.Context(), j.ID, job.ReasonUserStop, force, job.Cause{}, nothing)
		require.NoError(t, err)
	}
	stop(false)
	require.False(t, b.works(j)[0].Force)
	stop(true)
	require.True(t, b.works(j)[0].Force)
	seq := b.job(j).Seq
	stop(true)
	stop(false)
	require.True(t, b.works(j)[0].Force, "force must not be taken back")
	require.Equal(t, seq, b.job(j).Seq, "a repeated forced stop must change nothing")
	require.Equal(t, 1, b.count(`event WHERE subject_id = $1 AND type = 'job.stop_forced'`, j.ID))
}

func TestDriver_Stop_pausedJobEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.running(1, 0)
	b.pause(j)
	require.NoError(t, b.driver.Lose(t.Context(), b.works(j)[0].NodeID, clock.Real().Now()))
	require.Equal(t, job.Paused, b.job(j).State, "the loss of the node must complete the pause, because it ends the processes")
	b.stop(j, job.ReasonUserStop)
	got := b.job(j)
	require.Equal(t, job.Stopped, got.State)
	require.Nil(t, got.PausedAt)
	require.Equal(t, []string{j.RunID}, b.closes.runs)
}

// The ledger balances when pauses, acknowledgements, resumes and ends race.
func TestDriver_Pause_racesWithEnds(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	for range 6 {
		j := b.running(1, 3)
		w := b.works(j)[0]
		b.register(j, checkpoint(1, "art_1"))
		var wg sync.WaitGroup
		race := func(fn func() error) {
			wg.Go(func() {
				if err := fn(); err != nil && !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
			})
		}
		race(func() error { _, err := b.driver.Pause(t.Context(), j.ID, nothing); return err })
		race(func() error {
			signal, err := b.driver.Next(t.Context(), j.RunID, 1)
			if err == nil {
				_, err = b.driver.Ack(t.Context(), j.RunID, 1, signal.ID)
			}
			return err
		})
		race(func() error {
			return b.driver.Observe(t.Context(), w.NodeID, []assignment.Observed{seen(w, gang.PhaseExited, &gang.Exit{Code: -1, Reason: gang.ExitStopped})})
		})
		race(func() error { _, err := b.driver.Resume(t.Context(), j.ID, nothing); return err })
		race(func() error { return b.driver.Register(t.Context(), j.RunID, checkpoint(1, "art_2")) })
		wg.Wait()
		b.balance()
		_, err := b.driver.Stop(t.Context(), j.ID, job.ReasonUserStop, false, job.Cause{}, nothing)
		require.NoError(t, err)
		require.Equal(t, job.Stopped, b.job(j).State, "without a process, the stop must take effect at once")
		require.Zero(t, b.held())
	}
}

func TestDriver_Enforce_expiredPauseHandledOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	j := b.running(1, 0)
	b.exec(`UPDATE job SET checkpoint_grace_s = 1 WHERE id = $1`, j.ID)
	b.pause(j)
	require.WithinDuration(t, clock.Real().Now().Add(time.Second), *b.job(j).Signal.Deadline, time.Minute)
	b.exec(`UPDATE job SET signal_deadline = now() - interval '1 second' WHERE id = $1`, j.ID)
	require.Equal(t, 1, b.count(`job WHERE state = 'pausing' AND signal_acked_at IS NULL AND signal_deadline <= now()`))
	b.passGrace(j)
	require.Zero(t, b.count(`job WHERE state = 'pausing' AND signal_acked_at IS NULL AND signal_deadline <= now()`), "the pause must be handled once")
}
