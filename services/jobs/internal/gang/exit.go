package gang

// Exit is how the processes of an attempt ended, as the executor tells it.
type Exit struct {
	Code    int // -1 where a signal ended it or nothing was started
	Signal  int
	Reason  string
	Message string
}

// Reasons of an Exit, a closed list of the executor contract.
const (
	ExitEnvBuild = "env_build"
	ExitFetch    = "fetch"
	ExitOOMHost  = "oom_host"
	ExitLost     = "lost"
	ExitStopped  = "stopped"
	ExitStart    = "start"
)

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
