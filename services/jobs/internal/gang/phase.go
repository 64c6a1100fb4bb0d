package gang

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
