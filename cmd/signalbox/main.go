// Command signalbox is the client of an installation. For now it holds the demo, which walks the whole
// loop; the other commands come with the areas that they steer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/demo"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

const usage = `usage: signalbox demo [--once] [--data DIR] [--listen ADDR] [--server PATH]

demo   starts a server, trains a tiny chat model for real, deploys it and asks it a question;
       leaves the server up unless --once
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := realMain(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "signalbox:", err)
		os.Exit(1)
	}
}

func realMain(ctx context.Context, args []string, out, errOut io.Writer) error {
	if len(args) == 0 || args[0] != "demo" {
		fmt.Fprint(errOut, usage)
		return flag.ErrHelp
	}
	o := demo.Options{Out: out, Clock: clock.Real()}
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
	if err := f.Parse(args[1:]); err != nil {
		return flag.ErrHelp
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	return demo.Run(ctx, o)
}
