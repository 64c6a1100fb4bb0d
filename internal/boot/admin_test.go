package boot

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/platform/process"
)

func telemetry(t *testing.T, out io.Writer) *obs.Obs {
	t.Helper()
	o, err := obs.Setup(t.Context(), obs.Config{Service: "test", LogLevel: "info", LogFormat: "json"}, out)
	require.NoError(t, err)
	return o
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

// get sends one GET request over its own connection and returns the status and the body.
func get(ctx context.Context, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// started runs a worker in a host until the function stop is called.
func started(t *testing.T, w process.Worker, stopTimeout time.Duration) (stop func() error) {
	t.Helper()
	ready := make(chan struct{}) // a host that is stopped before it is ready may never start the worker
	host := &process.Host{
		Log: slog.New(slog.DiscardHandler), Workers: []process.Worker{w}, StopTimeout: stopTimeout,
		Ready: func(context.Context) error { close(ready); return nil },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- host.Run(ctx) }()
	<-ready
	return func() error { cancel(); return <-done }
}

// slow is a handler that closes the channel entered and blocks until the channel release is closed.
type slow struct{ entered, release chan struct{} }

func (s slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	close(s.entered)
	select {
	case <-s.release:
		_, _ = io.WriteString(w, "finished")
	case <-r.Context().Done():
	}
}

func TestHTTPWorker_Stop_finishesOpenRequests(t *testing.T) {
	t.Parallel()
	l := listener(t)
	s := slow{make(chan struct{}), make(chan struct{})}
	stop := started(t, HTTPWorker("http", l, s), patience)
	bodies := make(chan string, 1)
	go func() { _, body, _ := get(t.Context(), "http://"+l.Addr().String()); bodies <- body }()
	<-s.entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	require.Eventually(t, func() bool { _, _, err := get(t.Context(), "http://"+l.Addr().String()); return err != nil },
		patience, time.Millisecond, "new connections are refused")
	close(s.release)
	require.Equal(t, "finished", <-bodies)
	require.NoError(t, <-stopped)
}

func TestHTTPWorker_Stop_cutsRequestsAtDeadline(t *testing.T) {
	t.Parallel()
	for name, worker := range map[string]func(net.Listener, http.Handler) process.Worker{
		"HTTPWorker": func(l net.Listener, h http.Handler) process.Worker { return HTTPWorker("http", l, h) },
		"holding": func(l net.Listener, h http.Handler) process.Worker {
			return envWithoutDatabase(t).holding(&plainService{newKeys(t)}, h).worker("http", l, nil)
		},
	} {
		l := listener(t)
		s := slow{make(chan struct{}), make(chan struct{})}
		w := worker(l, s)
		running, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(running) }()
		failed := make(chan error, 1)
		go func() {
			_, _, err := get(context.WithoutCancel(t.Context()), "http://"+l.Addr().String())
			failed <- err
		}()
		<-s.entered
		late, over := context.WithCancel(t.Context())
		over()
		require.ErrorIs(t, w.Stop(late), context.Canceled, "%s: Stop reports that a request was not finished", name)
		end()
		require.NoError(t, <-ended, name)
		require.Error(t, <-failed, name)
	}
}

func TestHTTPWorker_Run_closedListener(t *testing.T) {
	t.Parallel()
	l := listener(t)
	require.NoError(t, l.Close())
	err := HTTPWorker("http", l, http.NotFoundHandler()).Run(t.Context())
	require.ErrorContains(t, err, "serve HTTP")
}

func TestHTTPWorker_Run_cancelledContext(t *testing.T) {
	t.Parallel()
	l := listener(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- HTTPWorker("http", l, http.NotFoundHandler()).Run(ctx) }()
	require.Eventually(t, func() bool {
		status, _, err := get(t.Context(), "http://"+l.Addr().String())
		return err == nil && status == 404
	},
		patience, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	_, _, err := get(t.Context(), "http://"+l.Addr().String())
	require.Error(t, err)
}

func TestAdmin_readyz(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	workers := []process.Worker{
		{Name: "mute"},
		{Name: "auth.grpc", Ready: func(context.Context) error {
			if broken.Load() {
				return errors.New("no database")
			}
			return nil
		}},
	}
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	held := listener(t)
	addr := held.Addr().String()
	require.NoError(t, held.Close())
	admin, err := OpenAdmin(t.Context(), addr, telemetry(t, io.Discard), clk, nil, 5*time.Second, workers...)
	require.NoError(t, err)
	stop := started(t, admin.Worker, time.Second)
	status, body, err := get(t.Context(), "http://"+addr+"/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"status":"ready","checks":{"auth.grpc":"ok"}}`, body)
	broken.Store(true)
	status, body, err = get(t.Context(), "http://"+addr+"/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "no database")
	broken.Store(false)

	drained := make(chan struct{})
	go func() { admin.Drain(t.Context()); close(drained) }()
	require.NoError(t, clk.Await(t.Context(), 1))
	status, body, err = get(t.Context(), "http://"+addr+"/readyz")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "draining")
	select {
	case <-drained:
		require.Fail(t, "Drain returned without waiting for the load balancer")
	default:
	}
	clk.Advance(5 * time.Second)
	<-drained
	require.NoError(t, stop())
}

func TestAddAdmin_addressInUse(t *testing.T) {
	t.Parallel()
	l := listener(t)
	t.Cleanup(func() { _ = l.Close() })
	host := &process.Host{Workers: []process.Worker{{Name: "one"}}}
	err := AddAdmin(t.Context(), host, l.Addr().String(), telemetry(t, io.Discard), clock.Real(), nil, 0)
	require.ErrorContains(t, err, l.Addr().String())
	require.Len(t, host.Workers, 1)
	require.NoError(t, AddAdmin(t.Context(), host, "", nil, nil, nil, 0), "an empty address means no admin listener")
	require.Len(t, host.Workers, 1)
	require.Nil(t, host.Drain)
}
