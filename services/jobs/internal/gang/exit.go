package gang

// Exit is how the processes of an attempt ended, as reported by the executor.
type Exit struct {
	Code    int // -1 if a signal ended the process or none was started
	Signal  int
	Reason  string
	Message string
}

// Reasons of an Exit. The executor contract closes this list.
const (
	ExitEnvBuild = "env_build"
	ExitFetch    = "fetch"
	ExitOOMHost  = "oom_host"
	ExitLost     = "lost"
	ExitStopped  = "stopped"
	ExitStart    = "start"
)

func worse(a, b Exit) bool { return badness(a) > badness(b) }

// badness ranks exits by how well they explain the end of a gang. A failed node that was only stopped along with
// the others ranks lowest.
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
