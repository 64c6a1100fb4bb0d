package revision

import (
	"bytes"
	"encoding/json"
	"time"
)

// Phase is the phase of a work on its node.
type Phase string

// The phases of works.
const (
	PhaseNone       Phase = ""
	PhasePending    Phase = "pending"
	PhasePreparing  Phase = "preparing"
	PhaseRunning    Phase = "running"
	PhaseCollecting Phase = "collecting"
	PhaseExited     Phase = "exited"
	PhaseGone       Phase = "gone"
)

// The exit reasons after which the jobs service places a work again, because the engine did not cause them.
const (
	exitStopped = "stopped"
	exitLost    = "lost"
	// exitDeadline is the reason of an exit at the deadline of a work. The engine did not cause such an exit, but the work
	// is not placed again.
	exitDeadline = "deadline"
)

// Observation is what the jobs service reports about the engine of a revision.
type Observation struct {
	WorkID     string
	Generation int64
	Fence      int64
	NodeID     string
	Waiting    string
	Phase      Phase
	Detail     string
	RunningAt  *time.Time
	Exit       *Exit
	Report     *Report
}

// Exit describes how a work ended.
type Exit struct {
	Code, Signal    int32
	Reason, Message string
}

// Report is the agent's report on the engine.
type Report struct {
	Phase, Code, Message, Log string
	Ready                     bool
	ReadyAt                   *time.Time
	Engine                    Engine
	Probes                    json.RawMessage
}

// Verdict is the effect of an observation on a revision.
type Verdict struct {
	State  State
	Reason *Reason
	// Again is true if the engine must be ordered again: it had been ready and exited by itself.
	Again bool
}

// Evaluate maps an observation to the state of the revision. A revision that was ready before is not_ready while its
// engine does not run, and ready again as soon as the engine is ready.
func Evaluate(r *Revision, o Observation) Verdict {
	if r.Plan.Protected {
		o = o.withheld()
	}
	v := judge(r, o)
	if r.served() && v.State != Ready {
		v.State = NotReady
	}
	return v
}

func judge(r *Revision, o Observation) Verdict {
	switch {
	case o.Phase == PhaseExited || o.Phase == PhaseGone:
		return ended(r, o)
	case o.NodeID == "":
		return Verdict{State: Pending, Reason: waiting(r, o)}
	case o.Phase == PhasePreparing:
		return Verdict{State: Preparing, Reason: reported(o, string(Preparing), "preparing", o.Detail)}
	case o.Phase == PhaseRunning || o.Phase == PhaseCollecting:
		return running(o)
	}
	return Verdict{State: Pending, Reason: &Reason{Phase: string(Pending), Code: "placed", Message: "the node has not started preparing yet"}}
}

// waiting returns the reason why an engine is not placed on a node yet.
func waiting(r *Revision, o Observation) *Reason {
	code := o.Waiting
	switch code {
	case waitStart:
		return Placing(r.Serving.Pool)
	case waitQuota:
		return &Reason{Phase: string(Pending), Code: waitQuota, Message: "the GPU quota of the deployment's owner does not allow the engine"}
	case waitTeamQuota:
		return &Reason{Phase: string(Pending), Code: waitTeamQuota, Message: "the GPU quota of the project's team does not allow the engine"}
	case waitIsolation:
		return &Reason{Phase: string(Pending), Code: waitIsolation, Message: "no node of pool " + r.Serving.Pool + " with room for the engine isolates works"}
	case "":
		code = "waiting"
	}
	return &Reason{Phase: string(Pending), Code: code, Message: "waiting for a node of pool " + r.Serving.Pool + " with free capacity"}
}

// running returns the verdict on a running work, based on the agent's report.
func running(o Observation) Verdict {
	if o.Report == nil {
		return Verdict{State: Starting, Reason: &Reason{Phase: string(Starting), Code: "starting", Message: "the engine is starting"}}
	}
	if o.Report.Ready {
		return Verdict{State: Ready}
	}
	switch State(o.Report.Phase) {
	case Probing:
		return Verdict{State: Probing, Reason: reported(o, string(Probing), "probing", "the engine is being probed")}
	case Failed:
		return Verdict{State: Failed, Reason: reported(o, string(Probing), "failed", "the engine failed to become ready")}
	default:
		return Verdict{State: Starting, Reason: reported(o, string(Starting), "starting", "the engine is starting")}
	}
}

// ended returns the verdict on a work that ended. If the jobs service will place the work again, the revision is
// pending.
func ended(r *Revision, o Observation) Verdict {
	if o.Phase == PhaseGone || o.Exit == nil || o.Exit.Reason == exitStopped || o.Exit.Reason == exitLost {
		return Verdict{State: Pending, Reason: &Reason{
			Phase: string(Pending), Code: "engine_lost", Message: "the node or its agent stopped responding; the engine will be placed again",
		}}
	}
	if o.Exit.Reason == exitDeadline {
		return Verdict{State: NotReady, Reason: &Reason{Phase: string(Stopped), Code: exitDeadline, Message: "the deadline has passed"}}
	}
	code := o.Exit.Reason
	phase := string(Preparing)
	if code == "" || code == "start" {
		code, phase = "engine_exited", string(Starting)
	}
	if o.Report != nil && State(o.Report.Phase) == Failed {
		// The agent gave up probing, and its report contains the failed probe.
		phase = string(Probing)
	}
	return Verdict{State: Failed, Reason: reported(o, phase, code, o.Exit.Message), Again: r.served()}
}

// reported returns a reason with the code, the message and the log in the agent's report. The parameters code and
// message are used if the report lacks them.
func reported(o Observation, phase, code, message string) *Reason {
	out := &Reason{Phase: phase, Code: code, Message: message}
	if o.Report == nil {
		return out
	}
	if o.Report.Code != "" {
		out.Code = o.Report.Code
	}
	if o.Report.Message != "" {
		out.Message = o.Report.Message
	}
	out.Log = o.Report.Log
	return out
}

// withheld returns the observation without the texts that the engine or its files could have influenced.
func (o Observation) withheld() Observation {
	o.Detail = ""
	if o.Exit != nil {
		exit := *o.Exit
		if exit.Message != "" {
			exit.Message = "the engine ended; its messages are withheld, because the model is protected"
		}
		o.Exit = &exit
	}
	if o.Report != nil {
		report := *o.Report
		report.Message, report.Log, report.Probes = "", "", nil
		o.Report = &report
	}
	return o
}

// Note copies the reported facts about the execution into the revision.
func (r *Revision) Note(o Observation) {
	if r.Plan.Protected {
		o = o.withheld()
	}
	r.Engine.Fence, r.Engine.NodeID, r.Engine.StartedAt = o.Fence, o.NodeID, o.RunningAt
	if o.Report == nil || o.NodeID == "" {
		r.Engine = Engine{Fence: o.Fence, NodeID: o.NodeID}
		return
	}
	r.Engine.PID, r.Engine.ReadyAt = o.Report.Engine.PID, o.Report.ReadyAt
	r.Engine.Address, r.Engine.Key = o.Report.Engine.Address, o.Report.Engine.Key
	// The probe report of the first readiness is a property of the revision and is never replaced.
	if !r.served() && len(o.Report.Probes) > 0 {
		r.Probes = o.Report.Probes
	}
}

// Same reports whether the stored fields of two revisions are equal, so that nothing needs to be written.
func Same(a, b *Revision) bool {
	return a.State == b.State && a.Generation == b.Generation && sameReason(a.Reason, b.Reason) &&
		a.Engine.Fence == b.Engine.Fence && a.Engine.NodeID == b.Engine.NodeID && a.Engine.PID == b.Engine.PID &&
		a.Engine.Address == b.Engine.Address && a.Engine.Key.Equal(b.Engine.Key) &&
		sameTime(a.Engine.StartedAt, b.Engine.StartedAt) && sameTime(a.Engine.ReadyAt, b.Engine.ReadyAt) &&
		bytes.Equal(a.Probes, b.Probes)
}

func sameReason(a, b *Reason) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func sameTime(a, b *time.Time) bool { return (a == nil) == (b == nil) && (a == nil || a.Equal(*b)) }
