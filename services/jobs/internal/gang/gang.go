// Package gang combines the observed states of an attempt's nodes: the phases of an execution, the exits of its
// processes, and the gang of nodes as a whole.
//
// Phases have a fixed order, and a gang is in the phase of its slowest node. The exit of a gang is the exit of the node
// that best explains why the gang ended. The package is pure; package job decides what an end means for a job.
package gang

import "time"

// Observed is the last observed state of one node of the gang.
type Observed struct {
	Phase       string
	PreparingAt *time.Time
	RunningAt   *time.Time
	Exit        *Exit // set once the phase is exited
}

// Gang is the combined state of all nodes of an attempt.
type Gang struct {
	Phase string // of the slowest node
	Begun bool   // at least one node is preparing or in a later phase
	Runs  bool   // the process of every node was started
	Ended bool   // no node has a process left; nodes may still be delivering output
	Exit  *Exit  // the exit that best explains why the gang ended; nil until every node has ended
	Broke bool   // a node failed while others still run; those must be stopped
}

// Combine returns the combined state of the nodes of an attempt.
func Combine(nodes []Observed) Gang {
	if len(nodes) == 0 {
		return Gang{}
	}
	g := Gang{Phase: nodes[0].Phase, Runs: true, Ended: true}
	ended := 0
	for _, n := range nodes {
		if PhaseRank(n.Phase) < PhaseRank(g.Phase) {
			g.Phase = n.Phase
		}
		g.Ended = g.Ended && PhaseRank(n.Phase) >= PhaseRank(PhaseCollecting)
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
