package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Warnings on a finished job.
const (
	WarnExitAfterSuccess = "nonzero_exit_after_success"
	WarnNoReport         = "no_terminal_report"
)

// Outcome is what the end of an attempt means for its job.
type Outcome struct {
	State   State // terminal, or Queued for another attempt
	Reason  string
	Message string
	Warning string
	// Planned is true if the job is queued again because its agent stopped the attempt, for example at a shutdown or when
	// its node was drained. This is not a retry: it does not count, and the spec's rules for retries do not apply.
	Planned bool
}

// Judge decides what an ended attempt means for its job. The training reports an end and the executor reports
// an exit; neither is sufficient alone. The first rule that applies decides:
//   - judgeStop decides about a job that is stopping;
//   - judgePause decides about a job that is pausing;
//   - a reported success counts, because a crash during teardown does not undo it;
//   - an attempt that its agent stopped is queued again without counting as a retry, even if the training reported a
//     failure;
//   - an attempt that a batch system ended at its time limit is stopped, whatever its exit code;
//   - a reported failure takes precedence over any exit code;
//   - without a report the exit code decides.
func Judge(j *Job, a *Attempt, exit gang.Exit) Outcome {
	if j.State == Stopping {
		return judgeStop(j, a, exit)
	}
	if j.State == Pausing {
		return judgePause(j, a, exit)
	}
	return judgeEnd(j, a, exit)
}

// judgeEnd decides the outcome of an attempt whose job is neither stopping nor pausing.
func judgeEnd(j *Job, a *Attempt, exit gang.Exit) Outcome {
	switch {
	case a.ReportedEnd == string(Succeeded):
		return succeeded(exit)
	case exit.Reason == gang.ExitStopped:
		return Outcome{State: Queued, Reason: ReasonExecutorLost, Message: messageOr(exit, "the node's agent stopped the attempt"), Planned: true}
	case exit.Reason == gang.ExitDeadline:
		return Outcome{State: Stopped, Reason: ReasonTimeLimit, Message: messageOr(exit, "the batch system ended the attempt at its time limit")}
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
	return Outcome{State: Failed, Reason: ReasonUserError, Message: failureMessage(a, exit)}
}

func judgeExit(j *Job, a *Attempt, exit gang.Exit) Outcome {
	switch exit.Reason {
	case gang.ExitLost:
		return again(j, ReasonExecutorLost, messageOr(exit, "the node lost the job's processes"))
	case gang.ExitFetch:
		return again(j, ReasonFetch, messageOr(exit, "the job's files could not be fetched"))
	case gang.ExitEnvBuild:
		return Outcome{State: Failed, Reason: ReasonEnvBuild, Message: messageOr(exit, "the job's environment could not be built")}
	case gang.ExitOOMHost:
		return Outcome{State: Failed, Reason: ReasonOOMHost, Message: messageOr(exit, "the job exceeded its memory limit")}
	case gang.ExitStart:
		return Outcome{State: Failed, Reason: ReasonUserError, Message: messageOr(exit, "the job's command could not be started")}
	}
	if exit.Code == 0 && exit.Signal == 0 {
		return Outcome{State: Succeeded, Reason: ReasonCompleted, Warning: WarnNoReport}
	}
	out := Outcome{State: Failed, Reason: ReasonUserError, Message: messageOr(exit, exitMessage(exit))}
	if exit.Signal == 0 && slices.Contains(j.RetryCodes, int32(exit.Code)) && j.Retries < j.RetryMax && a.ReportedEnd == "" {
		out.State = Queued // the spec lists this exit code for retry
	}
	return out
}

// again requeues the job if its spec retries this reason and retries are left. Otherwise the job fails.
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

// Backoff returns the delay before the n-th retry. The first delay is the given number of seconds, at least 1. Each
// further delay is twice as long, up to a minute. If the first delay is longer than a minute, all delays are equal.
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

// End applies an outcome: it ends the attempt, and ends, pauses or requeues the job.
func (j *Job) End(a *Attempt, exit gang.Exit, out Outcome, now time.Time) {
	a.EndedAt, a.EndReason, a.Message = &now, out.Reason, out.Message
	code := exit.Code
	a.ExitCode = &code
	if out.Warning != "" {
		j.Warnings = append(j.Warnings, out.Warning)
	}
	j.Signal, j.BatchHeld = Signal{}, false
	switch out.State {
	case Paused:
		a.State, j.State, j.PausedAt = Paused, Paused, &now
	case Queued:
		a.State = Failed
		resume := now.Add(firstBackoff)
		if !out.Planned {
			j.Retries++
			if j.RetryFrom == ResumeNone {
				j.Checkpoint = nil
			}
			resume = now.Add(Backoff(j.Retries, j.BackoffS))
		}
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
	if j.Collected == nil { // the job had no attempt
		all := true
		j.Collected = &all
	}
}

func messageOr(exit gang.Exit, otherwise string) string {
	if exit.Message != "" {
		return exit.Message
	}
	return otherwise
}

func exitMessage(exit gang.Exit) string {
	if exit.Signal != 0 {
		return fmt.Sprintf("the command was killed by signal %d", exit.Signal)
	}
	return fmt.Sprintf("the command ended with exit code %d", exit.Code)
}

func failureMessage(a *Attempt, exit gang.Exit) string {
	if a.ReportedMessage != "" {
		return a.ReportedMessage
	}
	if exit.Code == 0 && exit.Signal == 0 {
		return "the training reported a failure"
	}
	return messageOr(exit, exitMessage(exit))
}

// StorableText makes text from an agent or a training process storable: it keeps the end of a text, at most limit
// bytes, after the mark … if the beginning is missing. It removes invalid UTF-8 and NUL.
func StorableText(s string, limit int) string {
	const mark = "…"
	beginning := ""
	if len(s) > limit {
		s, beginning = s[len(s)-limit+len(mark):], mark
	}
	return beginning + strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}
