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
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/run"
)

const readHeaderTimeout = 10 * time.Second

// HTTPWorker serves HTTP on a listener until its process drains; requests that run have until the
// stop's deadline to finish.
func HTTPWorker(name string, listener net.Listener, handler http.Handler) run.Worker {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout}
	return run.Worker{
		Name: name,
		Run: func(ctx context.Context) error {
			// The context ends only after Stop, so what is still open then is cut.
			defer context.AfterFunc(ctx, func() { _ = server.Close() })()
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve HTTP: %w", err)
			}
			<-ctx.Done()
			return nil
		},
		Stop: server.Shutdown,
	}
}

// Admin is the worker of the admin listener.
func Admin(ctx context.Context, addr string, o *obs.Obs, clk clock.Clock, loaded *conf.Loaded, checks ...obs.Check) (run.Worker, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return run.Worker{}, fmt.Errorf("listen for admins on %s: %w", addr, err)
	}
	return HTTPWorker("admin", listener, obs.NewAdmin(o, clk, loaded, checks...).Handler()), nil
}

// admin is Admin where the process has one set.
func (p *Process) admin(ctx context.Context) ([]run.Worker, error) {
	if p.Settings.Obs.AdminListen == "" {
		return nil, nil
	}
	w, err := Admin(ctx, p.Settings.Obs.AdminListen, p.Obs, p.Clock, p.Loaded)
	return []run.Worker{w}, err
}
