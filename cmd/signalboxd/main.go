// Command signalboxd runs all of Signalbox in one process, for one machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/cmd/signalboxd/internal/allinone"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:], clock.Real(), os.Stderr))
	}
	os.Exit(status(realMain(os.Args[1:]), os.Stderr))
}

// status prints err and returns the exit status. A request for help is not an error.
func status(err error, errOut io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if !errors.Is(err, process.ErrKilled) { // a killed process must not block on writing to a full pipe
		fmt.Fprintln(errOut, "signalboxd:", err)
	}
	return 1
}

func realMain(args []string) error {
	o, done, err := allinone.Parse(args, os.Stdout, os.Stderr)
	if err != nil || done {
		return err
	}
	if o.Exec, err = shim.Self(); err != nil {
		return err
	}
	return allinone.Run(context.Background(), o)
}
