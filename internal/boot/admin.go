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
	"github.com/signalbox-dev/signalbox/platform/httpguard"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// HTTPWorker returns a worker that serves HTTP on the listener until it is stopped. Requests that are open then may
// finish until the deadline of the stop. After the deadline their connections are closed.
func HTTPWorker(name string, listener net.Listener, handler http.Handler) process.Worker {
	return serverWorker(name, listener, newServer(handler))
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		DisableGeneralOptionsHandler: true, ConnState: httpguard.State,
	}
}

// serverWorker returns the worker of HTTPWorker for a server of newServer.
func serverWorker(name string, listener net.Listener, server *http.Server) process.Worker {
	return process.Worker{
		Name: name,
		Run: func(ctx context.Context) error {
			// ctx ends only after Stop. Close the connections that are still open then.
			defer context.AfterFunc(ctx, func() { _ = server.Close() })()
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve HTTP: %w", err)
			}
			<-ctx.Done()
			_ = server.Close() // fails only if the listener is already closed
			return nil
		},
		Stop: server.Shutdown,
	}
}

// Admin is the admin listener of a process. Its /readyz reports whether all workers are ready.
type Admin struct {
	process.Worker

	admin *obs.Admin
	delay time.Duration
	clock clock.Clock
}

// OpenAdmin opens the admin listener. The parameter delay is how long Drain waits, so that load balancers notice that
// the process is draining.
func OpenAdmin(ctx context.Context, addr string, o *obs.Obs, clk clock.Clock, loaded *conf.Loaded, delay time.Duration, workers ...process.Worker) (*Admin, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("open the admin listener on %s: %w", addr, err)
	}
	admin := obs.NewAdmin(o, clk, loaded, checks(workers)...)
	return &Admin{Worker: HTTPWorker("admin", listener, admin.Handler()), admin: admin, delay: delay, clock: clk}, nil
}

// checks returns the readiness checks of the workers that have one: Serves, or else Ready.
func checks(workers []process.Worker) []obs.Check {
	var all []obs.Check
	for _, w := range workers {
		switch {
		case w.Serves != nil:
			all = append(all, obs.Check{Name: w.Name, Ready: w.Serves})
		case w.Ready != nil:
			all = append(all, obs.Check{Name: w.Name, Ready: w.Ready})
		}
	}
	return all
}

// Drain makes /readyz respond with 503 and then waits, so that load balancers stop sending requests.
func (a *Admin) Drain(ctx context.Context) {
	a.admin.Drain()
	_ = clock.Sleep(ctx, a.clock, a.delay) // fails only if ctx ends
}

// AddAdmin adds an admin listener to the host unless addr is empty. The listener starts before all other workers and
// stops after them.
func AddAdmin(ctx context.Context, host *process.Host, addr string, o *obs.Obs, clk clock.Clock, loaded *conf.Loaded, delay time.Duration) error {
	if addr == "" {
		return nil
	}
	admin, err := OpenAdmin(ctx, addr, o, clk, loaded, delay, host.Workers...)
	if err != nil {
		return err
	}
	host.Workers = append([]process.Worker{admin.Worker}, host.Workers...)
	host.Drain = admin.Drain
	return nil
}
