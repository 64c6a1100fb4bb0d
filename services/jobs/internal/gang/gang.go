// Package gang is what the nodes of an attempt were seen doing: the phases of an execution, how its
// processes ended, and all nodes of a gang seen as one.
//
// It promises that the phases have one order, that a gang is as far as its slowest node, and that of many
// exits the one is told which explains the end. It is pure and knows no job: what an end means for one is
// package job's to judge.
package gang

import "time"

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
