package allinone

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
)

// output is a buffer that is safe for concurrent use.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// runningServer is signalboxd with all its parts, running in the test's process.
type runningServer struct {
	t        *testing.T
	ready    ready
	out, log *output
	stop     func() error
}

// serve runs signalboxd on the folder until the function stop of the result is called.
func serve(t *testing.T, dir string, flags map[string]string) *runningServer {
	t.Helper()
	all := map[string]string{"SERVICE_DATA": filepath.Join(dir, "data"), "SERVICE_LISTEN": "127.0.0.1:0", "SERVICE_POSTGRES_CACHE": postgresCache(t)}
	maps.Copy(all, flags)
	w := &runningServer{t: t, out: &output{}, log: &output{}}
	readyFile := filepath.Join(dir, "ready.json")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		// Exec is the command that starts the shim of a work. This test starts no work, so the command never runs.
		done <- Run(ctx, Options{ReadyFile: readyFile, Flags: all, Out: w.out, Log: w.log, Exec: []string{"/bin/false"}})
	}()
	var once sync.Once
	var ended error
	w.stop = func() error {
		cancel()
		once.Do(func() { ended = <-done })
		return ended
	}
	t.Cleanup(func() { _ = w.stop() })
	require.Eventually(t, func() bool {
		select {
		case err := <-done:
			done <- err
			return true
		default:
		}
		raw, err := os.ReadFile(readyFile)
		return err == nil && json.Unmarshal(raw, &w.ready) == nil
	}, 90*time.Second, 20*time.Millisecond, "signalboxd must become ready")
	select {
	case err := <-done:
		done <- err // stop waits for this value
		require.FailNow(t, "signalboxd ended during its start", "%v\n%s", err, w.log.String())
	default:
	}
	return w
}

func (w *runningServer) login(password string) (status int) {
	w.t.Helper()
	body := map[string]string{"username": "admin", "password": password}
	a, err := client.New(w.ready.Address, nil).Call(w.t.Context(), http.MethodPost, "/api/auth/login", body)
	require.NoError(w.t, err)
	return a.Status
}

func TestRun_loginSurvivesRestart(t *testing.T) {
	t.Parallel()
	dir := folderOf(t)
	first := serve(t, dir, map[string]string{"SERVICE_ADMIN_LISTEN": "127.0.0.1:0", "SERVICE_DRAIN_DELAY": "1ms"})
	shown := regexp.MustCompile(`First login \(shown once\): admin / (\S+)`).FindStringSubmatch(first.out.String())
	require.NotNil(t, shown, first.out.String())
	require.NotContains(t, first.log.String(), shown[1])
	require.Equal(t, http.StatusOK, first.login(shown[1]))
	require.Equal(t, http.StatusUnauthorized, first.login("another"))
	c := client.New(first.ready.Address, nil)
	for _, path := range []string{"/healthz", "/api/version"} {
		a, err := c.Call(t.Context(), http.MethodGet, path, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.Status, path)
	}
	for _, path := range []string{"/api/auth/me", "/api/jobs", "/api/datasets", "/api/model-deployments", "/api/fleets"} {
		a, err := c.Call(t.Context(), http.MethodGet, path, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, a.Status, path)
	}
	_, _, err := runInvalid(t, map[string]string{"SERVICE_DATA": first.ready.Data, "SERVICE_LISTEN": "127.0.0.1:0"}, Options{})
	require.ErrorContains(t, err, fmt.Sprintf("is in use by another signalboxd, process %d, serving on %s", os.Getpid(), first.ready.Address))
	require.NoError(t, first.stop(), first.log.String())

	again := serve(t, dir, map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD": "ignored password"})
	require.Empty(t, again.out.String(), "the first login must be shown only once")
	require.Equal(t, http.StatusOK, again.login(shown[1]), "the password must still work")
	require.Equal(t, http.StatusUnauthorized, again.login("ignored password"))
	require.NoError(t, again.stop(), again.log.String())
	require.FileExists(t, filepath.Join(first.ready.Data, "audit", "auth.jsonl"), "sign-ins must be recorded in the sealed audit")
}
