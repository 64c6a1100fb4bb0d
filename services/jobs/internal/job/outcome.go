package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// What a finished run is warned of.
const (
	WarnExitAfterSuccess = "nonzero_exit_after_success"
	WarnNoReport         = "no_terminal_report"
)

// Outcome is the judgement of an ended attempt.
type Outcome struct {
	State   State // terminal, or Queued for another attempt
	Reason  string
	Message string
	Warning string
}

// Judge decides what an ended attempt means for its job. The reported end is the training's word,
// the exit the executor's; neither alone is the truth:
//   - a stop that was asked for ends as stopped, whatever the process said on its way out;
//   - a pause that was asked for ends as paused, unless the training reached its goal or broke first;
//   - reported success stands, since a crash in the teardown takes nothing back;
//   - a process that was taken away is tried again, also when it reported its own death;
//   - then a reported failure wins over any exit code, and without a report the exit code decides.
func Judge(j *Job, a *Attempt, exit gang.Exit) Outcome {
	switch {
	case j.State == Stopping:
		return Outcome{State: Stopped, Reason: j.StopReason, Message: stopWords(j)}
	case j.State == Pausing:
		return judgePause(j, a, exit)
	case a.ReportedEnd == string(Succeeded):
		return succeeded(exit)
	case exit.Reason == gang.ExitStopped:
		return again(j, ReasonExecutorLost, words(exit, "the agent that ran it was stopped"))
	case a.ReportedEnd == string(Failed):
		return reportedFailure(a, exit)
	}
	return judgeExit(j, a, exit)
}

func succeeded(exit gang.Exit) Outcome {
	out := Outcome{State: Succeeded, Reason: ReasonCompleted}
	if exit.Code != 0 || exit.Signal != 0 {
		out.Warning = WarnExitAfterSuccess
	}
	return out
}

func reportedFailure(a *Attempt, exit gang.Exit) Outcome {
	return Outcome{State: Failed, Reason: ReasonUserError, Message: failureWords(a, exit)}
}

func judgeExit(j *Job, a *Attempt, exit gang.Exit) Outcome {
	switch exit.Reason {
	case gang.ExitLost:
		return again(j, ReasonExecutorLost, words(exit, "its processes went away with their machine"))
	case gang.ExitFetch:
		return again(j, ReasonEnvBuild, words(exit, "its files could not be fetched"))
	case gang.ExitEnvBuild:
		return Outcome{State: Failed, Reason: ReasonEnvBuild, Message: words(exit, "its environment could not be built")}
	case gang.ExitOOMHost:
		return Outcome{State: Failed, Reason: ReasonOOMHost, Message: words(exit, "it used more memory than its limit")}
	case gang.ExitStart:
		return Outcome{State: Failed, Reason: ReasonUserError, Message: words(exit, "its command could not be started")}
	}
	if exit.Code == 0 && exit.Signal == 0 {
		return Outcome{State: Succeeded, Reason: ReasonCompleted, Warning: WarnNoReport}
	}
	out := Outcome{State: Failed, Reason: ReasonUserError, Message: words(exit, exitWords(exit))}
	if exit.Signal == 0 && slices.Contains(j.RetryCodes, int32(exit.Code)) && j.Retries < j.RetryMax && a.ReportedEnd == "" {
		out.State = Queued // the spec names this code
	}
	return out
}

// again tries once more where the spec has that reason tried again, and tries are left.
func again(j *Job, reason, message string) Outcome {
	if j.retries(reason) {
		return Outcome{State: Queued, Reason: reason, Message: message}
	}
	return Outcome{State: Failed, Reason: reason, Message: message}
}

const (
	firstBackoff = time.Second
	lastBackoff  = time.Minute
)

// Backoff is the pause before the retry n of a job, the first of which waits this many seconds, or one.
func Backoff(n, first int) time.Duration {
	d := max(firstBackoff, seconds(first))
	last := max(lastBackoff, d)
	for range n - 1 {
		if d *= 2; d >= last {
			return last
		}
	}
	return d
}

// End applies an outcome: the attempt is over, the job ends or waits for its next attempt.
func (j *Job) End(a *Attempt, exit gang.Exit, out Outcome, now time.Time) {
	a.EndedAt, a.EndReason, a.Message = &now, out.Reason, out.Message
	code := exit.Code
	a.ExitCode = &code
	if out.Warning != "" {
		j.Warnings = append(j.Warnings, out.Warning)
	}
	j.Signal = Signal{}
	switch out.State {
	case Paused:
		a.State, j.State, j.PausedAt = Paused, Paused, &now
	case Queued:
		a.State = Failed
		j.Retries++
		if j.RetryFrom == ResumeNone {
			j.Checkpoint = nil
		}
		resume := now.Add(Backoff(j.Retries, j.BackoffS))
		j.State, j.NotBefore = Queued, &resume
		j.Queue = Queue{Reason: WaitBackoff, Detail: fmt.Sprintf("attempt %d ended: %s", a.Number, out.Reason), Since: now}
		j.forgetAttempt()
	default:
		a.State = out.State
		j.finish(out.State, out.Reason, out.Message, now)
	}
}

// finish sets a terminal state.
func (j *Job) finish(to State, reason, message string, now time.Time) {
	j.State, j.EndReason, j.Message, j.EndedAt, j.NotBefore, j.PausedAt = to, reason, message, &now, nil, nil
	j.Queue = Queue{Since: j.Queue.Since}
}

func words(exit gang.Exit, otherwise string) string {
	if exit.Message != "" {
		return exit.Message
	}
	return otherwise
}

func exitWords(exit gang.Exit) string {
	if exit.Signal != 0 {
		return fmt.Sprintf("the command was ended by signal %d", exit.Signal)
	}
	return fmt.Sprintf("the command ended with exit code %d", exit.Code)
}

func failureWords(a *Attempt, exit gang.Exit) string {
	if a.ReportedMessage != "" {
		return a.ReportedMessage
	}
	if exit.Code == 0 && exit.Signal == 0 {
		return "the training reported that it failed"
	}
	return words(exit, exitWords(exit))
}

// Words makes text of an agent or a training storable: valid UTF-8 without NUL, its last limit bytes.
func Words(s string, limit int) string {
	if len(s) > limit {
		s = s[len(s)-limit:]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}
