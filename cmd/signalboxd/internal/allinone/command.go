package allinone

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/internal/version"
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
	if len(args) > 0 && args[0] == "link" {
		return link(context.Background(), args[1:], out, errOut)
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

const usage = `usage: signalboxd [flags]                         serve until SIGTERM or Ctrl-C
       signalboxd stop [--works] [--data FOLDER]  stop the signalboxd that uses the folder; with --works, end jobs and engines too
       signalboxd link [--next PATH] [--data FOLDER]  show a link that signs in an admin once, within ten minutes, on this machine

Flags:
`

// nonEmpty returns a function for FlagSet.Func that calls set with the flag's value. The function rejects empty values,
// because they usually come from an unset shell variable.
func nonEmpty(what string, set func(value string)) func(string) error {
	return func(value string) error {
		if strings.TrimSpace(value) == "" {
			return errors.New("want " + what + ", got nothing")
		}
		set(value)
		return nil
	}
}

// Parse reads the command line. If the result done is true, the process must exit: the version was shown or err is set.
func Parse(args []string, out, errOut io.Writer) (o Options, done bool, err error) {
	o = Options{Out: out, Log: errOut, Flags: map[string]string{}}
	f := flag.NewFlagSet("signalboxd", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.Usage = func() {
		fmt.Fprint(errOut, usage)
		f.PrintDefaults()
	}
	f.Func("data", "folder for all data (SERVICE_DATA)", nonEmpty("a folder", func(v string) { o.Flags["SERVICE_DATA"] = v }))
	f.Func("listen", "address to serve on (SERVICE_LISTEN); port 0 picks a free port and reuses it, if possible, at each start on the same data folder", nonEmpty("host:port", func(v string) { o.Flags["SERVICE_LISTEN"] = v }))
	f.Func("ready-file", "file to write when the server is ready", nonEmpty("a file", func(v string) { o.ReadyFile = v }))
	f.BoolVar(&o.PrintConfig, "print-config", false, "show every setting, with secrets redacted, and exit")
	showVersion := f.Bool("version", false, "show the version and exit")
	if err := f.Parse(args); err != nil {
		return o, true, fmt.Errorf("parse the flags: %w", err)
	}
	if f.NArg() > 0 {
		return o, true, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if *showVersion {
		_, err := fmt.Fprintln(out, version.Server())
		return o, true, err
	}
	return o, false, nil
}

// stopWait is how long stop waits for the end of the process.
const stopWait = 2 * time.Minute

// stop stops the signalboxd that uses the data folder, and returns when that process has ended. With --works it also
// ends attempts and engines.
func stop(ctx context.Context, args []string, errOut io.Writer) error {
	set, signal := map[string]string{}, syscall.SIGTERM
	f := flag.NewFlagSet("signalboxd stop", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.Func("data", dataFlag, nonEmpty("a folder", func(v string) { set["SERVICE_DATA"] = v }))
	f.BoolFunc("works", "end jobs and engines too; otherwise they continue, and the next start takes them over", func(value string) error {
		on, err := strconv.ParseBool(value)
		if on {
			signal = syscall.SIGINT
		}
		return err
	})
	data, err := dataFolder(ctx, f, args, set)
	if err != nil {
		return err
	}
	return end(ctx, data, signal)
}

// dataFlag is the help text of the flag --data of commands for a running signalboxd.
const dataFlag = "data folder of the running signalboxd (SERVICE_DATA)"

// dataFolder parses the flags of a command for a running signalboxd and returns its data folder.
func dataFolder(ctx context.Context, f *flag.FlagSet, args []string, set map[string]string) (string, error) {
	if err := f.Parse(args); err != nil {
		return "", fmt.Errorf("parse the flags: %w", err)
	}
	if f.NArg() > 0 {
		return "", fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	var s struct {
		Data string `env:"SERVICE_DATA, default=.signalbox/data"`
	}
	_, err := conf.Load(ctx, conf.OS().With("flag", set), &s)
	return s.Data, err
}

// holderOf returns the process that holds the data folder.
func holderOf(data string) (shim.Identity, error) {
	taken, running := errors.AsType[*localfile.FolderLockedError](localfile.CheckFolderFree(filepath.Join(data, "lock")))
	if !running {
		return shim.Identity{}, fmt.Errorf("no signalboxd is running on the data folder %s; name the folder with --data", data)
	}
	holder, err := shim.Lookup(taken.Holder.PID)
	if err != nil {
		return shim.Identity{}, fmt.Errorf("find the process of the data folder %s: %w", data, err)
	}
	return holder, nil
}

// end sends the signal to the process that holds the data folder, and waits until the process has ended.
func end(ctx context.Context, data string, signal syscall.Signal) error {
	holder, err := holderOf(data)
	if err != nil {
		return err
	}
	if !holder.Signal(signal) && holder.Alive() {
		return fmt.Errorf("this user is not allowed to stop process %d; use the user who started the process, or root", holder.PID)
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
