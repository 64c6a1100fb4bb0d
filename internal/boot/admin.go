package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

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

// admin is the worker of the admin listener, where one is set.
func (p *Process) admin(checks ...obs.Check) ([]run.Worker, error) {
	if p.Settings.Obs.AdminListen == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", p.Settings.Obs.AdminListen)
	if err != nil {
		return nil, fmt.Errorf("listen for admins on %s: %w", p.Settings.Obs.AdminListen, err)
	}
	return []run.Worker{HTTPWorker("admin", listener, obs.NewAdmin(p.Obs, p.Clock, p.Loaded, checks...).Handler())}, nil
}
