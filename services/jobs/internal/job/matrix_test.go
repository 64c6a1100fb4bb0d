package job_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// matrix is the complete state machine: the state that each event (row) leads to from each state (column). `.` means
// no change, `!` means a conflict, and `-` means that the case cannot occur because no attempt is active. An exit event
// can have prefixes. With last_, no retries are left. With never_, the spec does not retry the reason. With code_, the
// spec retries exit code 1. With sent_x_, the training has reported x. With heard_, the training has received the current
// signal. With saved_, it has received the signal and registered a checkpoint; with alone_saved_, only the latter. With
// acked_, the checkpoint was also acknowledged. With ended_, the processes had ended before the event.
const matrix = `
                            queued     scheduled  starting   running    pausing    paused     stopping   succeeded  failed     stopped
place                       scheduled  .          .          .          .          .          .          .          .          .
stop                        stopped    stopping   stopping   stopping   stopping   stopped    .          !          !          !
pause                       !          !          !          pausing    .          !          !          !          !          !
resume                      !          !          !          !          !          queued     !          !          !          !
checkpoint                  .          .          .          .          .          .          .          .          .          .
ack                         !          !          !          !          .          !          !          !          !          !
grace_over                  .          .          .          .          running    .          .          .          .          .
grace_over_with_one         .          .          .          .          .          .          .          .          .          .
expire                      failed     .          .          .          .          .          .          .          .          .
overdue                     .          stopping   stopping   stopping   .          .          .          .          .          .
report_starting             -          starting   .          !          !          !          .          !          !          !
report_running              -          running    running    .          .          !          .          !          !          !
report_succeeded            -          .          .          .          .          !          .          !          !          !
report_failed               -          .          .          .          .          !          .          !          !          !
seen_pending                -          .          .          .          .          .          .          .          .          .
seen_preparing              -          starting   .          .          .          .          .          .          .          .
seen_running                -          starting   .          .          .          .          .          .          .          .
exit_0                      -          succeeded  succeeded  succeeded  succeeded  -          succeeded  -          -          -
exit_1                      -          failed     failed     failed     failed     -          failed     -          -          -
exit_signal                 -          failed     failed     failed     failed     -          failed     -          -          -
exit_lost                   -          queued     queued     queued     paused     -          stopped    -          -          -
exit_stopped                -          queued     queued     queued     paused     -          stopped    -          -          -
exit_fetch                  -          queued     queued     queued     queued     -          stopped    -          -          -
exit_env_build              -          failed     failed     failed     failed     -          failed     -          -          -
exit_oom_host               -          failed     failed     failed     failed     -          failed     -          -          -
exit_start                  -          failed     failed     failed     failed     -          failed     -          -          -
saved_exit_0                -          succeeded  succeeded  succeeded  paused     -          succeeded  -          -          -
saved_exit_1                -          failed     failed     failed     failed     -          failed     -          -          -
alone_saved_exit_0          -          succeeded  succeeded  succeeded  succeeded  -          succeeded  -          -          -
heard_exit_0                -          succeeded  succeeded  succeeded  succeeded  -          stopped    -          -          -
heard_exit_1                -          failed     failed     failed     failed     -          stopped    -          -          -
heard_sent_succeeded_exit_0 -          succeeded  succeeded  succeeded  succeeded  -          stopped    -          -          -
ended_pause                 -          !          !          !          .          -          !          -          -          -
acked_exit_0                -          -          -          -          paused     -          -          -          -          -
acked_exit_1                -          -          -          -          paused     -          -          -          -          -
acked_exit_signal           -          -          -          -          paused     -          -          -          -          -
acked_exit_oom_host         -          -          -          -          paused     -          -          -          -          -
acked_sent_failed_exit_1    -          -          -          -          paused     -          -          -          -          -
acked_sent_succeeded_exit_0 -          -          -          -          succeeded  -          -          -          -          -
last_exit_lost              -          failed     failed     failed     paused     -          stopped    -          -          -
last_exit_fetch             -          failed     failed     failed     failed     -          failed     -          -          -
last_exit_stopped           -          queued     queued     queued     paused     -          stopped    -          -          -
never_exit_lost             -          failed     failed     failed     paused     -          stopped    -          -          -
code_exit_1                 -          queued     queued     queued     queued     -          stopped    -          -          -
code_last_exit_1            -          failed     failed     failed     failed     -          failed     -          -          -
code_sent_failed_exit_1     -          failed     failed     failed     failed     -          failed     -          -          -
sent_succeeded_exit_1       -          succeeded  succeeded  succeeded  succeeded  -          succeeded  -          -          -
sent_succeeded_exit_lost    -          succeeded  succeeded  succeeded  succeeded  -          stopped    -          -          -
sent_failed_exit_0          -          failed     failed     failed     failed     -          failed     -          -          -
sent_failed_exit_stopped    -          queued     queued     queued     paused     -          stopped    -          -          -
`

// jobIn returns a job in the given state and its attempt. It applies the events that lead to the state.
func jobIn(t *testing.T, state job.State, retryMax int) (*job.Job, *job.Attempt) {
	t.Helper()
	j := &job.Job{
		ID: "job_1", RetryMax: retryMax, RunningS: 100, StartingS: 100, QueueS: 100, Resumable: true,
		CheckpointGraceS: 60, CheckpointNeeded: true, Status: job.Status{
			State: job.Queued, Queue: job.Queue{Since: fixtures.Now(), Reason: job.WaitNew},
		},
	}
	if state == job.Queued {
		return j, nil
	}
	a, ok := j.Place("att_1", "nod_1", fixtures.Now())
	require.True(t, ok)
	if state == job.Starting {
		j.Observe(a, gang.Gang{Phase: gang.PhasePreparing, Begun: true}, fixtures.Now())
	}
	if state == job.Running || state == job.Pausing || state == job.Paused {
		_, err := j.Report(a, job.ReportRunning, "", fixtures.Now())
		require.NoError(t, err)
	}
	if state == job.Pausing || state == job.Paused {
		_, err := j.Pause(a, "sig_1", fixtures.Now())
		require.NoError(t, err)
	}
	if state == job.Paused {
		exit := gang.Exit{Code: -1, Reason: gang.ExitStopped}
		j.End(a, exit, job.Judge(j, a, exit), fixtures.Now())
	}
	if state == job.Stopping || state == job.Stopped {
		_, err := j.Stop(a, job.ReasonUserStop, fixtures.Now())
		require.NoError(t, err)
	}
	if state.Terminal() {
		exit := gang.Exit{}
		if state == job.Failed {
			exit.Code = 1
		}
		if state == job.Stopped {
			exit = gang.Exit{Code: -1, Reason: gang.ExitStopped}
		}
		j.End(a, exit, job.Judge(j, a, exit), fixtures.Now())
	}
	require.Equal(t, state, j.State)
	return j, a
}

// saved returns a checkpoint of an attempt.
func saved(number int, when time.Time) job.Checkpoint {
	return job.Checkpoint{ArtifactID: "art_1", Attempt: number, Format: "npz", CreatedAt: when}
}

// later returns a time at which every limit has passed.
func later() time.Time { return fixtures.Now().Add(200 * time.Second) }

// applyEvent applies an event of the matrix to a job.
func applyEvent(t *testing.T, event string, j *job.Job, a *job.Attempt) error {
	t.Helper()
	event = strings.TrimPrefix(event, "never_") // checkCell has removed the reason from the spec's retries
	if rest, ok := strings.CutPrefix(event, "code_"); ok {
		j.RetryCodes, event = []int32{1}, rest
	}
	if rest, ok := strings.CutPrefix(event, "ended_"); ok {
		a.Phase, event = gang.PhaseCollecting, rest
	}
	if rest, ok := strings.CutPrefix(event, "heard_"); ok {
		a.HeardSignal, event = j.CurrentSignal().ID, rest
	}
	if rest, ok := strings.CutPrefix(event, "alone_saved_"); ok {
		require.True(t, j.Register(saved(a.Number, fixtures.Now().Add(time.Second))))
		event = rest
	}
	for _, saves := range []string{"saved_", "acked_"} {
		rest, ok := strings.CutPrefix(event, saves)
		if !ok {
			continue
		}
		require.Equal(t, !j.State.Terminal(), j.Register(saved(a.Number, fixtures.Now().Add(time.Second))))
		if j.State == job.Pausing {
			a.HeardSignal = j.CurrentSignal().ID
		}
		if saves == "acked_" {
			_, err := j.Ack("sig_1", fixtures.Now().Add(time.Second))
			require.NoError(t, err)
		}
		event = rest
	}
	if sent, rest, ok := strings.Cut(strings.TrimPrefix(event, "sent_"), "_exit"); ok && strings.HasPrefix(event, "sent_") {
		_, err := j.Report(a, sent, "", later())
		require.NoError(t, err)
		event = "exit" + rest
	}
	kind, what, _ := strings.Cut(strings.TrimPrefix(event, "last_"), "_")
	switch kind {
	case "pause":
		_, err := j.Pause(a, "sig_2", later())
		return err
	case "resume":
		return j.Resume(later())
	case "checkpoint":
		number := j.Attempt
		require.Equal(t, !j.State.Terminal(), j.Register(saved(number, later())))
		require.False(t, j.Register(saved(number, later())), "a repeated checkpoint must not count as newer")
	case "ack":
		if j.State == job.Pausing {
			_, err := j.Ack("sig_1", later())
			require.True(t, fault.HasCode(err, "checkpoint"), "the acknowledgement must be refused before a checkpoint is registered: %v", err)
			j.Register(saved(a.Number, later()))
		}
		_, err := j.Ack("sig_1", later())
		return err
	case "grace":
		if what == "over_with_one" {
			j.Register(saved(j.Attempt, fixtures.Now()))
		}
		switch j.GraceOver(later()) {
		case job.GraceAbandoned:
			j.KeepRunning(a)
		case job.GraceForced:
			require.Equal(t, "over_with_one", what)
		case job.GraceActive:
			require.NotEqual(t, job.Pausing, j.State)
		}
	case "place":
		_, ok := j.Place("att_2", "nod_2", later())
		require.Equal(t, j.State == job.Scheduled && j.Attempt == 1 && a == nil, ok)
	case "stop":
		_, err := j.Stop(a, job.ReasonUserStop, later())
		return err
	case "expire":
		j.ExpireQueue(later())
	case "overdue":
		if reason := j.Overdue(later()); reason != "" {
			_, err := j.Stop(a, reason, later())
			return err
		}
	case "report":
		_, err := j.Report(a, what, "", later())
		return err
	case "seen":
		rank := gang.PhaseRank(what)
		j.Observe(a, gang.Gang{Phase: what, Begun: rank >= gang.PhaseRank(gang.PhasePreparing), Runs: rank >= gang.PhaseRank(gang.PhaseRunning)}, later())
	case "exit":
		exit, ok := map[string]gang.Exit{"0": {}, "1": {Code: 1}, "signal": {Code: -1, Signal: 9}}[what]
		if !ok {
			exit = gang.Exit{Code: -1, Reason: what}
		}
		j.End(a, exit, job.Judge(j, a, exit), later())
	default:
		require.FailNow(t, "unknown event", event)
	}
	return nil
}

func TestStateMachineMatrix(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(matrix), "\n")
	states := strings.Fields(lines[0])
	require.Len(t, states, len(job.States()), "every state must have a column")
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		require.Len(t, cells, len(states)+1, line)
		for i, cell := range cells[1:] {
			if cell == "-" {
				continue
			}
			t.Run(cells[0]+"/"+states[i], func(t *testing.T) {
				t.Parallel()
				checkCell(t, job.State(states[i]), cells[0], cell)
			})
		}
	}
}

// checkCell applies one event in one state and checks the resulting job against the matrix and against
// job.Edges.
func checkCell(t *testing.T, from job.State, event, want string) {
	t.Helper()
	retries := 3
	if strings.Contains(event, "last_") {
		retries = 0
	}
	j, a := jobIn(t, from, retries)
	if strings.HasPrefix(event, "never_") {
		j.RetryOn = []string{job.RetryPreempted}
	}
	before := *j
	err := applyEvent(t, event, j, a)
	switch want {
	case "!":
		require.True(t, fault.Is(err, fault.Conflict), "%v", err)
		require.Equal(t, before.Status, j.Status, "a conflict must change nothing")
		return
	case ".":
		want = string(from)
	}
	require.NoError(t, err)
	require.Equal(t, job.State(want), j.State)
	require.True(t, j.State == from || job.CanMove(from, j.State), "the state change is not in Edges")
	require.Equal(t, j.State.Terminal(), j.EndedAt != nil)
	require.Equal(t, j.State.Terminal(), j.EndReason != "")
	require.Equal(t, j.State == job.Paused, j.PausedAt != nil)
	if j.State == job.Queued && from == job.Paused {
		require.Equal(t, job.WaitNew, j.Queue.Reason)
		require.Equal(t, later(), j.Queue.Since)
		require.Nil(t, j.NotBefore)
		require.Nil(t, j.RunningAt, "the running time must be cleared for the next attempt")
		return
	}
	if j.State == job.Queued && from != job.Queued {
		require.Equal(t, job.WaitBackoff, j.Queue.Reason)
		require.True(t, later().Before(*j.NotBefore))
		require.Nil(t, j.RunningAt, "the running time must be cleared for the next attempt")
		require.Equal(t, 1, j.Attempt, "the attempt number must not grow before the next placement")
	}
	if from.Terminal() {
		require.Equal(t, before.Status, j.Status, "an ended job must not change")
	}
}

// A client that lost the response repeats its terminal event, possibly after the job has ended.
func TestJob_Report_repeatedTerminalEventAccepted(t *testing.T) {
	t.Parallel()
	for _, reported := range []string{job.ReportSucceeded, job.ReportFailed} {
		for _, exit := range []gang.Exit{{}, {Code: 1}, {Code: -1, Reason: gang.ExitLost}} {
			t.Run(fmt.Sprintf("%s, exit %d %s", reported, exit.Code, exit.Reason), func(t *testing.T) {
				t.Parallel()
				j, a := jobIn(t, job.Running, 0)
				applied, err := j.Report(a, reported, "first message", fixtures.Now())
				require.NoError(t, err)
				require.True(t, applied)
				j.End(a, exit, job.Judge(j, a, exit), fixtures.Now())
				ended := *j
				applied, err = j.Report(a, reported, "second message", later())
				require.NoError(t, err)
				require.False(t, applied)
				require.Equal(t, "first message", a.ReportedMessage)
				for _, other := range []string{job.ReportStarting, job.ReportRunning, job.ReportSucceeded, job.ReportFailed} {
					if other != reported {
						_, err = j.Report(a, other, "", later())
						require.True(t, fault.HasCode(err, "lifecycle"), "%s: %v", other, err)
					}
				}
				require.Equal(t, ended.Status, j.Status)
			})
		}
	}
}

// The billing of an attempt starts with its own running event, not with the executor's report nor with the
// running event of another attempt.
func TestBillingStartsPerAttempt(t *testing.T) {
	t.Parallel()
	j, first := jobIn(t, job.Running, 1)
	lost := gang.Exit{Code: -1, Reason: gang.ExitLost}
	j.End(first, lost, job.Judge(j, first, lost), fixtures.Now().Add(time.Minute))
	second, ok := j.Place("att_2", "nod_2", fixtures.Now().Add(2*time.Minute))
	require.True(t, ok)
	j.Observe(second, gang.Gang{Phase: gang.PhaseRunning, Begun: true, Runs: true}, fixtures.Now().Add(3*time.Minute))
	require.Nil(t, second.RunningAt)
	_, err := j.Report(first, job.ReportRunning, "", fixtures.Now().Add(4*time.Minute))
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	require.Nil(t, j.RunningAt)
	_, err = j.Report(second, job.ReportRunning, "", fixtures.Now().Add(5*time.Minute))
	require.NoError(t, err)
	require.Equal(t, fixtures.Now(), *first.RunningAt)
	require.Equal(t, fixtures.Now().Add(5*time.Minute), *second.RunningAt)
	require.Equal(t, fixtures.Now().Add(3*time.Minute), *second.ExecutorRunningAt)
	require.Equal(t, *second.RunningAt, *j.RunningAt)
}
