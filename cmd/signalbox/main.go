// Command signalbox is the client of an installation. For now it holds the demo, which walks the whole
// loop, and the verification of the audit; the other commands come with the areas that they steer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/audit"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := realMain(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "signalbox:", err)
		os.Exit(1)
	}
}

func realMain(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) error {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "demo":
		o, err := demo.Parse(args[1:], out, errOut)
		if err != nil {
			return err
		}
		return demo.Run(ctx, o)
	case "audit":
		o, err := audit.Parse(args[1:], in, out, errOut)
		if err != nil {
			return err
		}
		return audit.Verify(ctx, o)
	default:
		fmt.Fprint(errOut, demo.Usage, "\n", audit.Usage)
		return flag.ErrHelp
	}
}
