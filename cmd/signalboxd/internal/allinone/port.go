package allinone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/httpguard"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// listen listens on the public address. For port 0 it reuses the port of the last start on this folder if that
// port is still free, because jobs that kept running in between report to it.
func (f *folder) listen(addr string) (net.Listener, error) {
	l, err := f.listenAgain(addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return l, nil
	}
	if err := pki.WriteFile(f.in("port"), []byte(strconv.Itoa(tcp.Port)+"\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("save the port: %w", err), l.Close())
	}
	return l, nil
}

func (f *folder) listenAgain(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if n, notPort := strconv.Atoi(port); err != nil || (port != "" && (notPort != nil || n != 0)) {
		return listen(addr) // a fixed port, or an invalid one
	}
	raw, err := os.ReadFile(f.in("port"))
	if last, notPort := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 16); err == nil && notPort == nil && last != 0 {
		if l, err := listen(net.JoinHostPort(host, strconv.FormatUint(last, 10))); err == nil {
			return l, nil
		}
	}
	return listen(addr)
}

// errStopped is the error of build if a signal arrived while the process was in maintenance after a restore.
var errStopped = errors.New("stopped in maintenance, before `signalbox-setup restored` was run")

// lent is a listener that a server may close. The close only ends Accept, so that the listener can be used again.
type lent struct{ *net.TCPListener }

// Close ends a running Accept.
func (l lent) Close() error { return l.SetDeadline(time.Unix(1, 0)) }

// refuseTimeout limits each request that is refused.
const refuseTimeout = 10 * time.Second

// refuse responds to requests with 503 until ctx is done. As in a gateway in maintenance, /healthz and /api/version stay
// available. The listener stays open.
func (d *daemon) refuse(ctx context.Context) error {
	tcp, ok := d.listener.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("refuse requests: %T is not a TCP listener", d.listener)
	}
	body, err := json.Marshal(versions().Members())
	if err != nil {
		return fmt.Errorf("encode the version: %w", err)
	}
	server := &http.Server{
		ReadTimeout: refuseTimeout, WriteTimeout: refuseTimeout, MaxHeaderBytes: 64 << 10, ConnState: httpguard.State,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/healthz":
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"status":"ok"}`)) // the client may be gone
			case "/api/version":
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("X-Content-Type-Options", "nosniff")
				w.Header().Set("X-Request-Id", d.ids.New(id.Request))
				_, _ = w.Write(body) // the client may be gone
			default:
				fault.Write(w, boot.ErrMaintenance(), d.ids.New(id.Request))
			}
		}),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	guarded := httpguard.JSONErrors(lent{tcp}, func() string { return d.ids.New(id.Request) })
	if err := server.Serve(guarded); err != nil && ctx.Err() == nil {
		return fmt.Errorf("refuse requests: %w", err)
	}
	return tcp.SetDeadline(time.Time{})
}
