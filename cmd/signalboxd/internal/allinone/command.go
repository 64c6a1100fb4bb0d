package allinone

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// Main runs the command with the given arguments and returns its exit status. It writes an error to errOut.
func Main(args []string, out, errOut io.Writer) int {
	return status(run(args, out, errOut), errOut)
}

func run(args []string, out, errOut io.Writer) error {
	o, done, err := Parse(args, out, errOut)
	if err != nil || done {
		return err
	}
	if o.Exec, err = shim.Self(); err != nil {
		return err
	}
	return Run(context.Background(), o)
}

// status writes err to errOut and returns the exit status. A request for help is not an error.
func status(err error, errOut io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if !errors.Is(err, process.ErrKilled) { // a killed process must not block on writing to a full pipe
		_, _ = fmt.Fprintln(errOut, "signalboxd:", err)
	}
	return 1
}
