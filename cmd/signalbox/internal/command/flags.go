package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Usage is the help text of the command `demo`.
const Usage = `usage: signalbox demo [--once] [--data DIR] [--listen ADDR] [--server PATH]

demo   Starts a server, trains a tiny chat model for real, deploys it and sends it a question.
       Leaves the server running unless --once is set.
`

// Parse reads the arguments after `demo`. It returns flag.ErrHelp if it has already printed the usage or the error of a
// flag.
func Parse(args []string, out, errOut io.Writer) (Options, error) {
	o := Options{Out: out, Clock: clock.Real()}
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(errOut)
	// Reject empty flag values: they usually come from an unset shell variable.
	given := func(to *string, name, otherwise, usage string) {
		*to = otherwise
		f.Func(name, fmt.Sprintf("%s (default %q)", usage, otherwise), func(value string) error {
			if *to = value; strings.TrimSpace(value) == "" {
				return errors.New("must not be empty")
			}
			return nil
		})
	}
	f.BoolVar(&o.Once, "once", false, "exit when the demo has finished and leave no process behind; status 0 if every step succeeded")
	given(&o.Data, "data", ".signalbox/demo", "folder for all data")
	given(&o.Listen, "listen", "127.0.0.1:8080", "address to serve on")
	given(&o.Server, "server", "bin/signalboxd", "path of signalboxd")
	if err := f.Parse(args); err != nil {
		return o, flag.ErrHelp
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	return o, nil
}
