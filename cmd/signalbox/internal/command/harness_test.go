package command_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// harness runs command lines against a server of the test, in a folder of their own.
type harness struct {
	t        *testing.T
	server   *httptest.Server
	env      map[string]string
	in       string
	reader   io.Reader // standard input in place of in
	terminal bool
	opened   []string
}

// result is what a command line has printed, and its exit status.
type result struct {
	code     int
	out, err string
}

func newHarness(t *testing.T, handle http.HandlerFunc) *harness {
	t.Helper()
	h := &harness{t: t, server: httptest.NewServer(handle)}
	t.Cleanup(h.server.Close)
	h.env = map[string]string{
		"HOME": t.TempDir(), "SERVICE_SERVER": h.server.URL, "SERVICE_TOKEN": "a.b.c", "DBUS_SESSION_BUS_ADDRESS": "disabled:",
	}
	return h
}

func (h *harness) run(args ...string) result { return h.runContext(h.t.Context(), args...) }

func (h *harness) runContext(ctx context.Context, args ...string) result {
	h.t.Helper()
	var out, errOut bytes.Buffer
	var in io.Reader = strings.NewReader(h.in)
	if h.reader != nil {
		in = h.reader
	}
	code := command.Execute(ctx, &session.Env{
		In: in, Out: &out, Err: &errOut, InTerminal: h.terminal, Getenv: func(name string) string { return h.env[name] },
		Dir: h.t.TempDir(), Clock: clock.Real(), Jitter: func() float64 { return 0 }, NewKey: func() string { return "key" }, Zone: time.UTC, Version: "v1.2.3",
		OpenBrowser: func(address string) error { h.opened = append(h.opened, address); return nil },
	}, args)
	return result{code: code, out: out.String(), err: errOut.String()}
}
