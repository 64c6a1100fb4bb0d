package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// A pause that would lose work is refused. Each way to save the work allows the pause.
func TestJob_Pause_preconditions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(j *job.Job, a *job.Attempt)
		code   string
	}{
		"no way to save":          {func(*job.Job, *job.Attempt) {}, "checkpoint"},
		"resumable recipe":        {func(j *job.Job, _ *job.Attempt) { j.Resumable = true }, ""},
		"listens for signals":     {func(_ *job.Job, a *job.Attempt) { now := fixtures.Now(); a.ListensAt = &now }, ""},
		"has a checkpoint":        {func(j *job.Job, _ *job.Attempt) { j.Register(saved(1, fixtures.Now())) }, ""},
		"checkpoint not required": {func(j *job.Job, _ *job.Attempt) { j.CheckpointNeeded = false }, ""},
		"GGUF weights only": {func(j *job.Job, _ *job.Attempt) {
			c := saved(1, fixtures.Now())
			c.Format = "gguf"
			j.Register(c)
		}, "checkpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, a := jobIn(t, job.Running, 0)
			j.Resumable = false
			c.change(j, a)
			changed, err := j.Pause(a, "sig_1", fixtures.Now())
			if c.code != "" {
				require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, c.code), "%v", err)
				require.Equal(t, job.Running, j.State)
				return
			}
			require.NoError(t, err)
			require.True(t, changed)
			require.Equal(t, job.PendingSignal{Signal: job.SignalCheckpoint, ID: "sig_1", Deadline: new(fixtures.Now().Add(time.Minute))}, j.CurrentSignal())
			changed, err = j.Pause(a, "sig_2", fixtures.Now())
			require.NoError(t, err)
			require.False(t, changed, "a repeated pause must change nothing")
			require.Equal(t, "sig_1", j.CurrentSignal().ID)
		})
	}
}

func TestJob_Register_onlyNewerCheckpoint(t *testing.T) {
	t.Parallel()
	j, _ := jobIn(t, job.Running, 3)
	first := saved(1, fixtures.Now().Add(time.Minute))
	require.True(t, j.Register(first))
	require.False(t, j.Register(saved(1, fixtures.Now())), "an older checkpoint that arrives late must be ignored")
	require.False(t, j.Register(first), "the same checkpoint must not be recorded twice")
	next := saved(2, fixtures.Now())
	next.ArtifactID = "art_2"
	require.True(t, j.Register(next), "a newer attempt's checkpoint must be recorded, even with an earlier time")
	require.False(t, j.Register(saved(1, fixtures.Now().Add(time.Hour))), "an older attempt's checkpoint must be ignored")
	require.Equal(t, "art_2", j.Checkpoint.ArtifactID)
}

// A pause first signals checkpoint, then pause. Only the current signal can be acknowledged.
func TestPauseSignalsCheckpointThenPause(t *testing.T) {
	t.Parallel()
	j, a := jobIn(t, job.Pausing, 0)
	_, err := j.Ack("sig_9", fixtures.Now())
	require.True(t, fault.HasCode(err, "signal"), "%v", err)
	_, err = j.Ack("", fixtures.Now())
	require.True(t, fault.HasCode(err, "signal"), "%v", err)
	require.True(t, j.Register(saved(1, fixtures.Now())))
	changed, err := j.Ack("sig_1", fixtures.Now())
	require.NoError(t, err)
	require.True(t, changed)
	changed, err = j.Ack("sig_1", later())
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, job.SignalPause, j.CurrentSignal().Signal)
	require.NotEqual(t, "sig_1", j.CurrentSignal().ID, "the second signal must have a new ID, so that clients notice it")
	acked := *j.Signal.AckedAt
	changed, err = j.Ack(j.CurrentSignal().ID, later())
	require.NoError(t, err, "acknowledging the current signal must succeed")
	require.False(t, changed)
	require.Equal(t, acked, *j.Signal.AckedAt)
	require.Equal(t, job.GraceActive, j.GraceOver(later()), "the grace period must not apply once the checkpoint is acknowledged")
	exit := gang.Exit{Code: -1, Signal: 15, Reason: gang.ExitStopped}
	j.End(a, exit, job.Judge(j, a, exit), fixtures.Now())
	require.Equal(t, job.Paused, j.State)
	require.Equal(t, job.Paused, a.State)
	require.Empty(t, a.EndReason)
	require.Equal(t, job.SignalNone, j.CurrentSignal().Signal)
	require.NoError(t, j.Resume(later()))
	next, ok := j.Place("att_2", "nod_1", later())
	require.True(t, ok)
	require.Equal(t, 2, next.Number)
	require.Equal(t, "art_1", next.ResumedFrom)
	require.Equal(t, j.Checkpoint.Step, next.ResumedStep)
	require.Zero(t, j.Retries, "a pause must not count as a retry")
}

func TestStopIsSignalled(t *testing.T) {
	t.Parallel()
	j, a := jobIn(t, job.Pausing, 0)
	_, err := j.Stop(a, job.ReasonUserStop, fixtures.Now())
	require.NoError(t, err)
	require.Equal(t, job.PendingSignal{Signal: job.SignalStop, ID: "stop.1", Deadline: new(fixtures.Now().Add(job.StopGrace))}, j.CurrentSignal())
	_, err = j.Ack("sig_1", fixtures.Now())
	require.True(t, fault.HasCode(err, "signal"), "the signal of a pause that is over must be refused: %v", err)
	_, err = j.Ack("stop.1", fixtures.Now())
	require.NoError(t, err)
	exit := gang.Exit{}
	j.End(a, exit, job.Judge(j, a, exit), fixtures.Now())
	require.Equal(t, job.SignalStop, j.CurrentSignal().Signal, "the training of an ended job must get the signal to stop")
	changed, err := j.Ack(j.CurrentSignal().ID, later())
	require.NoError(t, err)
	require.False(t, changed)
}

// With retry.resume "none" a retry starts from scratch, but a resume after a pause still uses the checkpoint.
func TestNextAttemptResumePoint(t *testing.T) {
	t.Parallel()
	for _, from := range []string{job.ResumeLatest, job.ResumeNone} {
		j, a := jobIn(t, job.Running, 3)
		j.RetryFrom = from
		require.True(t, j.Register(saved(1, fixtures.Now())))
		lost := gang.Exit{Code: -1, Reason: gang.ExitLost}
		j.End(a, lost, job.Judge(j, a, lost), fixtures.Now())
		require.Equal(t, from == job.ResumeLatest, j.Checkpoint != nil)
		require.Equal(t, from == job.ResumeLatest, j.Register(saved(1, later())), "a checkpoint that arrives after the end must be recorded only if a retry may resume from it")
		a, _ = j.Place("att_2", "nod_1", later())
		require.Equal(t, from == job.ResumeLatest, a.ResumedFrom != "")
		_, err := j.Report(a, job.ReportRunning, "", later())
		require.NoError(t, err)
		require.True(t, j.Register(saved(2, later())))
		_, err = j.Pause(a, "sig_1", later())
		require.NoError(t, err)
		j.End(a, lost, job.Judge(j, a, lost), later())
		require.NoError(t, j.Resume(later()))
		a, _ = j.Place("att_3", "nod_1", later())
		require.Equal(t, "art_1", a.ResumedFrom)
		require.Equal(t, 1, j.Retries)
	}
}

func TestEndReasons_complete(t *testing.T) {
	t.Parallel()
	reasons := job.EndReasons()
	require.Len(t, reasons, 11, "an end reason was added or removed")
	for reason, end := range reasons {
		require.True(t, end.State.Terminal(), reason)
		require.Contains(t, []string{"", job.RetryInfra, job.RetryPreempted}, end.Class, reason)
		if end.Class != "" {
			require.Equal(t, job.Failed, end.State, "%s: a reason with a retry class must fail the job when no retries are left", reason)
		}
	}
}
