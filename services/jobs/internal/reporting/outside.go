package reporting

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

const (
	// DefaultSilence is after how many seconds without a request a run without a job fails.
	DefaultSilence = 24 * 60 * 60
	// maxOutside is the maximum number of unfinished runs without a job that a user has.
	maxOutside = 1000
	// outsideAttempt is the number of the only attempt of a run without a job.
	outsideAttempt = 1
)

// outside is the part of a run without a job that changes until the run ends. Such a run is running from the start:
// its process runs already.
type outside struct {
	ID, State string
	// Reported is the last lifecycle event, empty if there was none.
	Reported  string
	EndReason string
	EndedAt   *time.Time
	SilenceS  int32
	HeardAt   time.Time
	// Closing is the decided end of the run, until its streams are closed. It is nil before the decision.
	Closing *job.Closing
}

// report applies a lifecycle event by the rules for attempts of jobs: events may be skipped, a repeated event changes
// nothing, and only the same event may follow the one that ended the run. As processes may continue the run of an earlier
// one, starting changes nothing after running. An event that ends the run decides its end.
func (o *outside) report(event, message string, now time.Time) (applied bool, err error) {
	ends := map[string]string{job.ReportSucceeded: job.ReasonCompleted, job.ReportFailed: job.ReasonUserError}
	if event != job.ReportStarting && event != job.ReportRunning && ends[event] == "" {
		return false, fault.InvalidFields(fault.At(fault.TypeEnum, "Input should be 'starting', 'running', 'succeeded' or 'failed'", "event"))
	}
	switch {
	case o.Reported == event:
		return false, nil
	case o.Reported == job.ReportRunning && event == job.ReportStarting: // of a process that continues the run of another
		return false, nil
	case ends[o.Reported] != "":
		return false, fault.New(fault.Conflict, "lifecycle", "lifecycle: %s was already reported; %s cannot follow", o.Reported, event)
	case o.EndedAt != nil || o.Closing != nil:
		return false, fault.New(fault.Conflict, "lifecycle", "lifecycle: the run has ended; %s cannot follow", event)
	}
	if o.Reported = event; ends[event] != "" {
		o.decide(job.Outcome{State: job.State(event), Reason: ends[event], Message: message}, now)
		o.Closing.ActorKind, o.Closing.ActorID = "run", o.ID
	}
	return true, nil
}

func (o *outside) decide(out job.Outcome, now time.Time) {
	o.Closing = &job.Closing{Outcome: out, At: now, Until: job.CloseUntil(&now, now), Collected: true}
}

// conclude ends the run as decided, and returns the reason for the event.
func (o *outside) conclude() (reason string) {
	out := o.Closing.Outcome
	o.State, o.EndReason, o.EndedAt = string(out.State), out.Reason, &o.Closing.At
	if o.Reported == o.State {
		return "reported_" + o.State
	}
	return out.Reason
}

// silent reports whether no request with the run's token has arrived for too long. The time before since does not count,
// because this service may have been away. A request is noticed late, by at most noticed.
func (o *outside) silent(now, since time.Time) bool {
	heard := o.HeardAt
	if heard.Before(since) {
		heard = since
	}
	return o.EndedAt == nil && o.Closing == nil && now.Sub(heard) > time.Duration(o.SilenceS)*time.Second+noticed
}

// fall decides the end of a silent run.
func (o *outside) fall(now time.Time) {
	o.decide(job.Outcome{State: job.Failed, Reason: job.ReasonSilent, Message: "the run has reported nothing for too long"}, now)
}
