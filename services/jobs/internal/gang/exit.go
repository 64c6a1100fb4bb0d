package gang

// Exit describes how the processes of an attempt ended, as reported by the executor.
type Exit struct {
	Code    int // -1 if a signal ended the process or no process was started
	Signal  int
	Reason  string
	Message string
}

// The reasons of an Exit. The executor contract allows no others.
const (
	ExitEnvBuild = "env_build"
	ExitFetch    = "fetch"
	ExitOOMHost  = "oom_host"
	ExitLost     = "lost"
	ExitStopped  = "stopped"
	ExitStart    = "start"
	ExitDeadline = "deadline"
)

func worse(a, b Exit) bool { return badness(a) > badness(b) }

// badness orders exits by how well they explain why the gang ended: a higher value explains it better. A success has
// the lowest value. A node that was stopped, usually because another node failed, has the second lowest.
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
