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
	"syscall"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/demo"
)

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
		fmt.Fprint(errOut, demo.Usage)
		return flag.ErrHelp
	}
	o, err := demo.Parse(args[1:], out, errOut)
	if err != nil {
		return err
	}
	return demo.Run(ctx, o)
}
