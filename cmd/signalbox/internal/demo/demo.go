// Package demo owns the commands that start a server on this machine. Dev gives the server sample data and leaves it to a
// developer. Run uses it as a user would, with real parts only: it trains a small model, deploys it and sends it a question
// that was not in its training data. Run fails if the model has not learned, if its response is wrong, or if the untrained
// weights give the right response in the same engine.
package demo

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Options are the settings of the demo.
type Options struct {
	Once   bool
	Data   string
	Listen string
	Server string
	Out    io.Writer
	// Program is how the user has called signalbox.
	Program string
	Clock   clock.Clock
}

// barMetric and barChat are the target times that the demo prints beside the measured times. demoPatience is the time
// limit of each stage.
const (
	barMetric    = 30 * time.Second
	barChat      = 120 * time.Second
	demoPatience = 5 * time.Minute
)

// Run trains, deploys and calls a model. It then serves until ctx is done, unless Once is set. If another demo or
// server uses the data folder, Run returns an error at once and starts nothing.
func Run(ctx context.Context, o Options) (err error) {
	d := &demo{Options: o, began: o.Clock.Now()}
	held, err := occupy(o.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	password, err := keepPassword(o.Data)
	if err != nil {
		return err
	}
	server, err := start(ctx, o, password.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := held.SetAddress(server.Address); err != nil {
		return err
	}
	d.say("server", "%s, data in %s", server.Address, o.Data)

	name, err := freshName()
	if err != nil {
		return err
	}
	d.loop = &e2eflow.Loop{Client: client.New(server.Address, nil), Clock: o.Clock, Name: name, Timeout: demoPatience}
	defer func() { d.loop.Client.CloseIdle() }() // before the server stops
	if err := d.loop.Login(ctx, "admin", password.text); err != nil {
		return err
	}
	if err := d.walk(ctx); err != nil {
		return server.explain(err)
	}
	if o.Once {
		return nil
	}
	d.next(server.Address, password, signInLink(ctx, o, server.Address, "/jobs/"+d.loop.Job.ID))
	return server.wait(ctx)
}

type demo struct {
	Options

	loop        *e2eflow.Loop
	began       time.Time
	firstMetric time.Duration
	firstChat   time.Duration
}

// walk trains a model on a new dataset, deploys it, calls it, and compares its response with that of the untrained
// model.
func (d *demo) walk(ctx context.Context) error {
	if err := d.train(ctx); err != nil {
		return err
	}
	question, err := d.judge(ctx)
	if err != nil {
		return err
	}
	if err := d.serve(ctx, question); err != nil {
		return err
	}
	if err := d.contrast(ctx, question); err != nil {
		return err
	}
	d.say("times", "first metric %s (target %s), first chat %s (target %s)", seconds(d.firstMetric), seconds(barMetric),
		seconds(d.firstChat), seconds(barChat))
	return nil
}

func (d *demo) say(what, format string, args ...any) {
	fmt.Fprintf(d.Out, "  %7s  %-9s %s\n", seconds(clock.Since(d.Clock, d.began)), what, fmt.Sprintf(format, args...))
}

func seconds(t time.Duration) string { return fmt.Sprintf("%.1f s", t.Seconds()) }

// freshName returns a random name, so that the resources of this run do not clash with those of earlier runs.
func freshName() (string, error) {
	var raw [5]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", fmt.Errorf("generate a name: %w", err)
	}
	return "chat-tiny-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[:])), nil
}

// draw returns a random number below n.
func draw(n int) (int, error) {
	var raw [8]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return 0, fmt.Errorf("choose a random number: %w", err)
	}
	return int(binary.LittleEndian.Uint64(raw[:]) % uint64(n)), nil
}
