package session

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Process returns what this process gives a command: its streams, environment, folder and clock. Version is the name of
// this build.
func Process(version string) *Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	isTerminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0
	}
	return &Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal: isTerminal(os.Stdin), OutTerminal: isTerminal(os.Stdout), ErrTerminal: isTerminal(os.Stderr), Width: width,
		Getenv: os.Getenv, Dir: dir, Clock: clock.Real(), Jitter: mathrand.Float64, NewKey: rand.Text, Zone: time.Local,
		ReadHidden: readHidden, OpenBrowser: openBrowser, Transport: http.DefaultTransport, Version: version, Program: os.Args[0],
	}
}
