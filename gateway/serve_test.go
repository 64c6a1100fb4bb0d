package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
	"github.com/signalbox-dev/signalbox/gen/route"
)

// variables matches each variable, such as {job_id}, in the pattern of a route.
var variables = regexp.MustCompile(`\{[^}]*\}`)

func TestDrainRefusesNewRequests(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.gw.Drain()
	targets := []string{"GET /nope"}
	for _, row := range route.Table() {
		if row.Handler != "health" && row.Handler != "version" {
			targets = append(targets, strings.Replace(row.Method, "*", "POST", 1)+" "+variables.ReplaceAllString(row.Pattern, "x"))
		}
	}
	for _, target := range targets {
		method, path, _ := strings.Cut(target, " ")
		got := r.do(method, path, "", as(userToken)...)
		require.Equal(t, http.StatusServiceUnavailable, got.status, target)
		if method != http.MethodHead {
			require.Equal(t, "draining", got.json(t)["code"], target)
			form := strings.HasPrefix(path, "/api/oauth/") && path != "/api/oauth/authorize"
			require.Equal(t, form, got.json(t)["error"] == "temporarily_unavailable", "%s: forms have the RFC's error code", target)
		}
		require.NotEmpty(t, got.header.Get("Retry-After"), target)
		require.True(t, strings.HasPrefix(got.header.Get("X-Request-Id"), "req_"), target)
	}
	for _, path := range []string{"/healthz", "/api/version"} {
		require.Equal(t, http.StatusOK, r.do("GET", path, "").status, path)
	}
	require.Empty(t, r.all())
}

func TestStopEndsStreamsAndFinishesCalls(t *testing.T) {
	t.Parallel()
	release, entered := make(chan struct{}), make(chan struct{}, 1)
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		d.Ingest = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			entered <- struct{}{}
			<-release
			_, _ = io.WriteString(w, "finished")
		})
	})
	_, read := r.follow(t.Context(), userToken)
	held := make(chan response, 1)
	go func() { held <- r.do("POST", "/api/ingest/logs", "x") }()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- r.stopServing() }()

	rest, err := io.ReadAll(read)
	require.NoError(t, err, "the stream is closed, not cut")
	require.NotContains(t, string(rest), "eof")
	// Each request uses its own connection: the listener stays open while any request runs.
	require.Equal(t, http.StatusOK, r.do("GET", "/healthz", "").status)
	require.Equal(t, http.StatusOK, r.do("GET", "/api/version", "").status)
	late := r.do("POST", "/inference/dep_1/v1/chat/completions", "{}")
	require.Equal(t, http.StatusServiceUnavailable, late.status)
	require.Equal(t, "draining", late.json(t)["code"])
	require.Equal(t, "draining", r.do("GET", "/api/jobs", "", as(userToken)...).json(t)["code"])
	select {
	case err := <-stopped:
		require.Fail(t, "the gateway stopped before the call had finished", "%v", err)
	default:
	}
	close(release)
	require.Equal(t, "finished", (<-held).body)
	require.NoError(t, <-stopped)
}

// runAndDial runs the gateway with the given grace period and connects to it. The function stop ends the gateway and
// returns its error.
func (r *harness) runAndDial(grace time.Duration) (conn net.Conn, stop func() error) {
	r.t.Helper()
	l, err := r.gw.Listen(r.t.Context())
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.gw.Run(ctx, l, grace) }()
	conn, err = (&net.Dialer{}).DialContext(r.t.Context(), "tcp", l.Addr().String())
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn, func() error { cancel(); return <-done }
}

func TestStopCutsUnfinishedCalls(t *testing.T) {
	t.Parallel()
	entered, ended := make(chan struct{}), make(chan struct{})
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		d.Ingest = http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			close(entered)
			<-req.Context().Done()
			close(ended)
		})
	})
	conn, stop := r.runAndDial(50 * time.Millisecond)
	_, err := io.WriteString(conn, "POST /api/ingest/logs HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	require.NoError(t, err)
	<-entered
	require.ErrorIs(t, stop(), context.DeadlineExceeded)
	<-ended
}

func TestGatewayWorkerCancelledWithoutStop(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	l, err := r.gw.Listen(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.gw.Worker(l).Run(ctx) }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestListenErrorNamesUsedPort(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	cfg := gateway.Config{RequestTimeout: time.Second}
	cfg.Listen.Addr = l.Addr().String()
	gw, err := gateway.New(t.Context(), cfg, gateway.Deps{Ingest: echo(""), Inference: echo("")})
	require.NoError(t, err)
	_, err = gw.Listen(t.Context())
	require.ErrorContains(t, err, l.Addr().String())
	require.True(t, errors.Is(err, syscall.EADDRINUSE))
}

func TestUnusualRequestTargets(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for target, want := range map[string]int{
		"OPTIONS * HTTP/1.1": 404, "CONNECT evil.example:443 HTTP/1.1": 405, "GET http://evil.example/api/jobs HTTP/1.1": 400,
	} {
		conn := r.dial()
		_, err := io.WriteString(conn, target+"\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, target)
		require.Equal(t, want, resp.StatusCode, target)
		require.NoError(t, resp.Body.Close())
	}
}

func TestOneLogLinePerRequest(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	got := r.do("GET", "/api/jobs/job_9", "", as(userToken)...)
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), `"msg":"request"`) }, time.Minute, time.Millisecond)
	var line string
	for l := range strings.Lines(r.log.String()) {
		if strings.Contains(l, `"msg":"request"`) {
			require.Empty(t, line, "one line per request")
			line = l
		}
	}
	for _, want := range []string{
		`"route":"/api/jobs/{job_id}"`, `"status":404`, `"client":"127.0.0.1"`, `"request_id":"` + got.header.Get("X-Request-Id") + `"`, `"bytes":`,
	} {
		require.Contains(t, line, want)
	}
	require.NotContains(t, r.log.String(), userToken)
}
