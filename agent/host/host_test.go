package host_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	pysdk "github.com/signalbox-dev/signalbox/sdk/python"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

// TestMain runs the shim instead of the tests if the first argument is `shim`.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:], clock.Real(), os.Stderr))
	}
	os.Exit(m.Run())
}

func TestExecutorConformance(t *testing.T) {
	t.Parallel()
	executortest.Run(t, func(t *testing.T, dir string, p *executortest.ControlPlane) executortest.Opened {
		t.Helper()
		h, stop := open(t, dir, p, nil)
		return executortest.Opened{Executor: h, Close: stop}
	})
}

// open starts a host executor with the given data folder. Its works are not isolated unless the function change
// requests isolation, because works of most tests write files outside of their folders. The returned function ends the
// executor as if its agent had been killed.
func open(t *testing.T, dir string, p *executortest.ControlPlane, change func(*host.Config)) (*host.Host, func()) {
	t.Helper()
	return openRandom(t, dir, p, change, rand.Reader)
}

// openRandom is like open, with the given source of random numbers.
func openRandom(t *testing.T, dir string, p *executortest.ControlPlane, change func(*host.Config), random io.Reader) (*host.Host, func()) {
	t.Helper()
	cfg := host.Config{
		Data: dir, Environments: envCache(t), Exec: []string{os.Args[0], "shim"},
		WorkUsers: boundary.Users{First: 200_000, Last: 265_535},
		Environ:   append(os.Environ(), "PIP_RETRIES=0", "PIP_INDEX_URL=http://127.0.0.1:9/simple", "PIP_FIND_LINKS="),
	}
	if change != nil {
		change(&cfg)
	}
	sdk, err := pysdk.Files()
	require.NoError(t, err)
	h, err := host.New(cfg, host.Deps{
		Downloader: p, Tokens: p, HTTP: &http.Client{}, Clock: clock.Real(), Rand: random,
		SDK:    sdk,
		Jitter: func() float64 { return 0 }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	return h, func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			t.Error("the executor did not end")
		}
	}
}

// envCache returns a folder for environments that all tests and later runs share. Git ignores the folder.
func envCache(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../.cache/agent-envs")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(root, 0o700))
	return root
}

// isolate returns a function that changes the config so that works run inside a boundary.
func isolate(change func(*host.Config)) func(*host.Config) {
	return func(c *host.Config) {
		c.Isolate = true
		if change != nil {
			change(c)
		}
	}
}
