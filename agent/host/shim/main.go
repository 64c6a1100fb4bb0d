package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// The first arguments of the processes that the shim starts: stageWord of a process that becomes the command without
// a boundary. With a boundary, initWord is that of the first process inside it, which starts another one with
// commandWord that becomes the command.
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

// Main runs the subcommand `shim` and returns the exit status. args is `FOLDER` for the shim itself. The other
// arguments are those of processes that the shim starts.
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
		err = own(args[0], clk)
	default:
		err = errors.New("usage: shim FOLDER")
	}
	if err != nil {
		_, _ = fmt.Fprintln(words, "shim:", err)
		return 1
	}
	return 0
}

// own runs the command that the folder's start file describes, and returns when it has ended.
func own(dir string, clk clock.Clock) error {
	// The kernel kills the command when the thread that started it ends (Pdeathsig), so this thread must run as
	// long as the shim.
	runtime.LockOSThread()
	closeOnExec()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the subreaper of descendants: %w", err)
	}
	o := &owner{dir: dir, clock: clk, signals: listen()}
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
