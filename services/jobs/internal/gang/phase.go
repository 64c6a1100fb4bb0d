package gang

// Phases of an execution, in order.
const (
	PhaseNone       = ""
	PhasePending    = "pending"
	PhasePreparing  = "preparing"
	PhaseRunning    = "running"
	PhaseCollecting = "collecting"
	PhaseExited     = "exited"
	PhaseGone       = "gone"
)

// PhaseRank returns the position of a phase in the order, starting at 0 for PhaseNone. An execution never returns
// to an earlier phase. The ranks equal the numbers of the proto enum.
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
