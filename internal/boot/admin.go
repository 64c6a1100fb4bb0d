package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/listen"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/run"
)

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// HTTPWorker serves HTTP on a listener until its process drains; requests that run have until the
// stop's deadline to finish, then they are cut.
func HTTPWorker(name string, listener net.Listener, handler http.Handler) run.Worker {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		DisableGeneralOptionsHandler: true, ConnState: listen.State,
	}
	return run.Worker{
		Name: name,
		Run: func(ctx context.Context) error {
			// The context ends only after Stop, so what is still open then is cut.
			defer context.AfterFunc(ctx, func() { _ = server.Close() })()
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve HTTP: %w", err)
			}
			<-ctx.Done()
			_ = server.Close() // its errors are those of listeners that are closed already
			return nil
		},
		Stop: server.Shutdown,
	}
}

// Admin is the admin listener of a process: it says on /readyz whether all workers are ready.
type Admin struct {
	run.Worker

	answers *obs.Admin
	delay   time.Duration
	clock   clock.Clock
}

// OpenAdmin listens for admins; delay is how long a balancer has to see that the process drains.
func OpenAdmin(ctx context.Context, addr string, o *obs.Obs, clk clock.Clock, loaded *conf.Loaded, delay time.Duration, workers ...run.Worker) (*Admin, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for admins on %s: %w", addr, err)
	}
	answers := obs.NewAdmin(o, clk, loaded, checks(workers)...)
	return &Admin{Worker: HTTPWorker("admin", listener, answers.Handler()), answers: answers, delay: delay, clock: clk}, nil
}

// checks ask the workers that can say whether they serve.
func checks(workers []run.Worker) []obs.Check {
	var all []obs.Check
	for _, w := range workers {
		if w.Ready != nil {
			all = append(all, obs.Check{Name: w.Name, Ready: w.Ready})
		}
	}
	return all
}

// Drain says 503 on /readyz and waits until that is known.
func (a *Admin) Drain(ctx context.Context) {
	a.answers.Drain()
	_ = clock.Sleep(ctx, a.clock, a.delay) // its error is the end of ctx
}

// Attend lets the host have an admin listener where addr names one: it is started first and stopped last.
func Attend(ctx context.Context, host *run.Host, addr string, o *obs.Obs, clk clock.Clock, loaded *conf.Loaded, delay time.Duration) error {
	if addr == "" {
		return nil
	}
	admin, err := OpenAdmin(ctx, addr, o, clk, loaded, delay, host.Workers...)
	if err != nil {
		return err
	}
	host.Workers = append([]run.Worker{admin.Worker}, host.Workers...)
	host.Drain = admin.Drain
	return nil
}
