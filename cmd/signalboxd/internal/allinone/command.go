package allinone

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// Main runs the command with the given arguments and returns its exit status. It writes an error to errOut.
func Main(args []string, out, errOut io.Writer) int {
	return status(run(args, out, errOut), errOut)
}

func run(args []string, out, errOut io.Writer) error {
	if len(args) > 0 && args[0] == "stop" {
		return stop(context.Background(), args[1:], errOut)
	}
	o, done, err := Parse(args, out, errOut)
	if err != nil || done {
		return err
	}
	if o.Exec, err = shim.Self(); err != nil {
		return err
	}
	return Run(context.Background(), o)
}

// stopWait is how long stop waits for the end of the process.
const stopWait = 2 * time.Minute

// stop stops the signalboxd that uses the data folder, and returns when that process has ended. With --works it also ends
// attempts and engines.
func stop(ctx context.Context, args []string, errOut io.Writer) error {
	set, signal := map[string]string{}, syscall.SIGTERM
	f := flag.NewFlagSet("signalboxd stop", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.Func("data", "data folder of the signalboxd to stop (SERVICE_DATA)", nonEmpty("a folder", func(v string) { set["SERVICE_DATA"] = v }))
	f.BoolFunc("works", "end jobs and engines too; otherwise they continue, and the next start takes them over", func(value string) error {
		on, err := strconv.ParseBool(value)
		if on {
			signal = syscall.SIGINT
		}
		return err
	})
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("parse the flags: %w", err)
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	var s struct {
		Data string `env:"SERVICE_DATA, default=.signalbox/data"`
	}
	if _, err := conf.Load(ctx, conf.OS().With("flag", set), &s); err != nil {
		return err
	}
	return end(ctx, s.Data, signal)
}

// end sends the signal to the process that holds the data folder, and waits until the process has ended.
func end(ctx context.Context, data string, signal syscall.Signal) error {
	taken, running := errors.AsType[*localfile.FolderLockedError](localfile.CheckFolderFree(filepath.Join(data, "lock")))
	if !running {
		return fmt.Errorf("no signalboxd is running on the data folder %s; name the folder with --data", data)
	}
	holder, err := shim.Lookup(taken.Holder.PID)
	if err != nil {
		return fmt.Errorf("find the process of the data folder %s: %w", data, err)
	}
	if !holder.Signal(signal) && holder.Alive() {
		return fmt.Errorf("process %d may not be stopped by this user; use the user that started it, or root", holder.PID)
	}
	ctx, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	if err := holder.Wait(ctx); err != nil {
		return fmt.Errorf("process %d has not ended after %v: %w", holder.PID, stopWait, err)
	}
	return nil
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
