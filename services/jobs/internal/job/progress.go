package job

import "time"

// Phases of an executor, in their order.
const (
	PhaseNone       = ""
	PhasePending    = "pending"
	PhasePreparing  = "preparing"
	PhaseRunning    = "running"
	PhaseCollecting = "collecting"
	PhaseExited     = "exited"
	PhaseGone       = "gone"
)

// PhaseRank orders the phases; an execution never goes back.
func PhaseRank(phase string) int {
	switch phase {
	case PhasePending:
		return 1
	case PhasePreparing:
		return 2
	case PhaseRunning:
		return 3
	case PhaseCollecting:
		return 4
	case PhaseExited:
		return 5
	case PhaseGone:
		return 6
	}
	return 0
}

// Seen is what one node of the gang was last seen doing.
type Seen struct {
	Phase       string
	PreparingAt *time.Time
	RunningAt   *time.Time
	Exit        *Exit // set from exited on
}

// Gang is an attempt seen as one: it is as far as its slowest node, its process runs when all run,
// and its exit is the one that explains the end.
type Gang struct {
	Phase string
	Begun bool // some node has begun
	Runs  bool // every node's process was started
	Exit  *Exit
	Broke bool // a node ended badly while others go on: they are to be ended too
}

// Combine sees the nodes of an attempt as one.
func Combine(nodes []Seen) Gang {
	if len(nodes) == 0 {
		return Gang{}
	}
	g := Gang{Phase: nodes[0].Phase, Runs: true}
	ended := 0
	for _, n := range nodes {
		if PhaseRank(n.Phase) < PhaseRank(g.Phase) {
			g.Phase = n.Phase
		}
		g.Begun = g.Begun || PhaseRank(n.Phase) >= PhaseRank(PhasePreparing)
		g.Runs = g.Runs && n.RunningAt != nil
		if n.Exit == nil {
			continue
		}
		ended++
		if g.Exit == nil || worse(*n.Exit, *g.Exit) {
			e := *n.Exit
			g.Exit = &e
		}
	}
	if ended < len(nodes) {
		g.Broke = g.Exit != nil && badness(*g.Exit) > 0
		g.Exit = nil
	}
	return g
}

func worse(a, b Exit) bool { return badness(a) > badness(b) }

// badness ranks exits by how much they explain: a node that was merely ended with the rest, least.
func badness(e Exit) int {
	switch {
	case e.Reason == ExitStopped:
		return 1
	case e.Reason == ExitLost:
		return 2
	case e.Reason != "":
		return 4
	case e.Code != 0 || e.Signal != 0:
		return 3
	}
	return 0
}

// Observe applies what the executor was seen doing. It answers what changed, in words of the event
// list, or nothing.
func (j *Job) Observe(a *Attempt, g Gang, now time.Time) (event string) {
	if a.Over() {
		return ""
	}
	changed := ""
	if g.Phase != a.Phase {
		a.Phase = g.Phase
	}
	if g.Begun && j.State == Scheduled {
		j.start(a, now)
		changed = "job.starting"
	}
	if g.Runs && a.ExecutorRunningAt == nil {
		a.ExecutorRunningAt = &now
		j.ExecutorRunningAt = &now
		if changed == "" {
			changed = "job.executor_running"
		}
	}
	return changed
}
