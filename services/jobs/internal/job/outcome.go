package job

import (
	"fmt"
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
//   - reported success stands, since a crash in the teardown takes nothing back;
//   - a process that was taken away is tried again, also when it reported its own death;
//   - then a reported failure wins over any exit code, and without a report the exit code decides.
func Judge(j *Job, a *Attempt, exit gang.Exit) Outcome {
	switch {
	case j.State == Stopping:
		return Outcome{State: Stopped, Reason: j.StopReason, Message: stopWords(j)}
	case a.ReportedEnd == string(Succeeded):
		out := Outcome{State: Succeeded, Reason: ReasonCompleted}
		if exit.Code != 0 || exit.Signal != 0 {
			out.Warning = WarnExitAfterSuccess
		}
		return out
	case exit.Reason == gang.ExitStopped:
		return again(j, a, ReasonExecutorLost, words(exit, "the agent that ran it was stopped"))
	case a.ReportedEnd == string(Failed):
		return Outcome{State: Failed, Reason: ReasonUserError, Message: failureWords(a, exit)}
	}
	return judgeExit(j, a, exit)
}

func judgeExit(j *Job, a *Attempt, exit gang.Exit) Outcome {
	switch exit.Reason {
	case gang.ExitLost:
		return again(j, a, ReasonExecutorLost, words(exit, "its processes went away with their machine"))
	case gang.ExitFetch:
		return again(j, a, ReasonEnvBuild, words(exit, "its files could not be fetched"))
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
	return Outcome{State: Failed, Reason: ReasonUserError, Message: words(exit, exitWords(exit))}
}

// again tries once more while attempts are left.
func again(j *Job, a *Attempt, reason, message string) Outcome {
	if a.Number <= j.RetryMax {
		return Outcome{State: Queued, Reason: reason, Message: message}
	}
	return Outcome{State: Failed, Reason: reason, Message: message}
}

const (
	firstBackoff = time.Second
	lastBackoff  = time.Minute
)

// Backoff is the pause before the attempt that follows attempt n.
func Backoff(n int) time.Duration {
	d := firstBackoff
	for range n - 1 {
		if d *= 2; d >= lastBackoff {
			return lastBackoff
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
	if out.State != Queued {
		a.State = out.State
		j.finish(out.State, out.Reason, out.Message, now)
		return
	}
	a.State = Failed
	resume := now.Add(Backoff(a.Number))
	j.State, j.NotBefore = Queued, &resume
	j.Queue = Queue{Reason: WaitBackoff, Detail: fmt.Sprintf("attempt %d ended: %s", a.Number, out.Reason), Since: now}
	j.ScheduledAt, j.StartingAt, j.ExecutorRunningAt, j.RunningAt = nil, nil, nil, nil
}

// finish sets a terminal state.
func (j *Job) finish(to State, reason, message string, now time.Time) {
	j.State, j.EndReason, j.Message, j.EndedAt, j.NotBefore = to, reason, message, &now, nil
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
