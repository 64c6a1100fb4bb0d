// Command signalbox is the command line of an installation.
package main

import (
	"context"
	cryptorand "crypto/rand"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cli/browser"
	"golang.org/x/term"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/internal/version"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first Ctrl-C ends the command in an orderly way, a second one at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx)
	stop()
	os.Exit(code)
}

func run(ctx context.Context) int {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	isTerminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0
	}
	return command.Execute(ctx, &session.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal: isTerminal(os.Stdin), OutTerminal: isTerminal(os.Stdout), ErrTerminal: isTerminal(os.Stderr), Width: width,
		Getenv: os.Getenv, Dir: dir, Clock: clock.Real(), Jitter: rand.Float64, NewKey: cryptorand.Text, Zone: time.Local,
		ReadHidden:  func() ([]byte, error) { return term.ReadPassword(int(os.Stdin.Fd())) },
		OpenBrowser: browser.OpenURL, Transport: http.DefaultTransport, Version: version.Server(),
	}, os.Args[1:])
}
