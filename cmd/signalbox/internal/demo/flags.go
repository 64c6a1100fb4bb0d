package demo

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Usage tells what can be typed.
const Usage = `usage: signalbox demo [--once] [--data DIR] [--listen ADDR] [--server PATH]

demo   starts a server, trains a tiny chat model for real, deploys it and asks it a question;
       leaves the server up unless --once
`

// Parse reads the command line; flag.ErrHelp where it was answered already.
func Parse(args []string, out, errOut io.Writer) (Options, error) {
	o := Options{Out: out, Clock: clock.Real()}
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(errOut)
	// Who hands over nothing meant something that is not there, a variable that is not set most likely.
	given := func(to *string, name, otherwise, usage string) {
		*to = otherwise
		f.Func(name, fmt.Sprintf("%s (default %q)", usage, otherwise), func(value string) error {
			if *to = value; strings.TrimSpace(value) == "" {
				return errors.New("got nothing")
			}
			return nil
		})
	}
	f.BoolVar(&o.Once, "once", false, "end with the loop's status and leave no process behind")
	given(&o.Data, "data", ".signalbox/demo", "folder that keeps everything")
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
