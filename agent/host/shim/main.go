// Package shim owns the processes of one work, independently of the agent process. It runs as a subcommand
// of the agent's binary, with one process for each start of a command. A shim leads a session, starts the
// command in its own process group under the work's limits, and appends stdout and stderr to one log file.
// When the command ends or a stop is requested, it ends all processes of the work and writes the outcome to
// a file.
//
// A command with a boundary has a parent inside that boundary (init.go): the first process there. The parent
// creates the boundary, starts and reaps the command and passes the command's status to the shim.
//
// The files of a folder are its complete state: start.json (the command to run), lock (locked while the shim runs),
// lease.json (how the lease of the work is renewed), run.json (the running processes), stop.json (the grace period of a
// requested stop) and exit.json (the outcome). If the shim has started the command and has ended without an exit.json, its
// work is lost. The files have a version, so that the next version of the agent can adopt a running shim.
//
// The shim renews the work's lease with the control plane itself (lease.go), so that a work continues while its agent
// is frozen or gone. The lease may begin while the command runs. A work continues without a lease, and while its
// control plane is unreachable. The shim stops the work only if its lease has a limit of silence and was not renewed
// for that time.
//
// Identity (procid.go) identifies a process by pid, start time and boot, so that a process with a reused
// pid is never mistaken for an earlier process.
package shim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// The first arguments of the processes that the shim starts. Without a boundary, a process with stageWord becomes the
// command. With a boundary, the process with initWord is the first one inside. It starts the process with
// commandWord, which becomes the command.
const (
	stageWord   = "--stage"
	initWord    = "--init"
	commandWord = "--command"
)

// Self returns the command line of the running program's subcommand `shim`, which calls Main.
func Self() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the path of the running program: %w", err)
	}
	return []string{self, "shim"}, nil
}

// Main runs the subcommand `shim` and returns the exit status. args is `FOLDER` for the shim itself. Other arguments
// are those of the processes that the shim starts.
func Main(args []string, clk clock.Clock, words io.Writer) int {
	var err error
	switch {
	case len(args) == 2 && args[0] == stageWord:
		err = stage(args[1])
	case len(args) == 2 && args[0] == initWord:
		err = contain(args[1])
	case len(args) == 1 && args[0] == commandWord:
		err = stageInside()
	case len(args) == 1:
		err = Own(leading(os.Args), args[0], clk)
	default:
		err = errors.New("usage: shim FOLDER")
	}
	if err != nil {
		_, _ = fmt.Fprintln(words, "shim:", err)
		return 1
	}
	return 0
}

// Own runs the command that the folder's start file describes, and returns when it has ended. The calling process becomes
// the shim of the folder. The parameter exec is the command line that runs Main in the same program.
func Own(exec []string, dir string, clk clock.Clock) error {
	// The kernel kills the command when the thread that started it ends (Pdeathsig), so this thread must run as
	// long as the shim.
	runtime.LockOSThread()
	closeOnExec()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the subreaper of descendants: %w", err)
	}
	o := &owner{
		dir: dir, exec: exec, clock: clk, signals: listen(), changes: listenForChanges(), leave: make(chan leave, 1), jitter: rand.Float64,
	}
	if err := localfile.ReadJSON(startFile(dir), &o.start); err != nil {
		return err
	}
	self, err := Lookup(os.Getpid())
	if err != nil {
		return err
	}
	o.running = Running{Version: Version, Shim: self, StartedAt: clk.Now()}
	if err := localfile.WriteJSON(runFile(dir), o.running, localfile.PrivateMode); err != nil {
		return err
	}
	return o.run()
}

// Fail records that the command in the folder could not be started, because of the given error.
func Fail(dir string, now time.Time, cause error) error {
	exit := Exit{Version: Version, Code: -1, Failure: cause.Error(), EndedAt: now}
	return localfile.WriteJSON(exitFile(dir), exit, localfile.PrivateMode)
}

// Save writes start.json.
func (s Start) Save(dir string) error {
	s.Version = Version
	return localfile.WriteJSON(startFile(dir), s, localfile.PrivateMode)
}
