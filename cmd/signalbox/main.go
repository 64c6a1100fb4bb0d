// Command signalbox is the command line of an installation.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first Ctrl-C ends the command in an orderly way, a second one at once.
	context.AfterFunc(ctx, stop)
	code := command.Execute(ctx, session.Process(version.Server()), os.Args[1:])
	stop()
	os.Exit(code)
}
