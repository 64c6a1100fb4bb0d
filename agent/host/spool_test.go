package host_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// fakeIngest is a fake ingest service that records the request bodies of each route. If away is set, it
// accepts only logs.
type fakeIngest struct {
	*httptest.Server
	mu     sync.Mutex
	away   bool
	bodies map[string][]string
}

func newFakeIngest(t *testing.T) *fakeIngest {
	t.Helper()
	d := &fakeIngest{bodies: map[string][]string{}}
	d.Server = httptest.NewServer(http.HandlerFunc(d.take))
	t.Cleanup(d.Close)
	return d
}

func (d *fakeIngest) take(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var body any
	route := strings.TrimPrefix(r.URL.Path, "/api/ingest/")
	if d.away && route != "logs" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if json.NewDecoder(r.Body).Decode(&body) == nil {
		raw, _ := json.Marshal(body)
		d.bodies[route] = append(d.bodies[route], string(raw))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}"))
}

func (d *fakeIngest) received(route string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.bodies[route], "\n")
}

func (d *fakeIngest) setUnavailable(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// killedReporter is a training that reports a metric and is killed before the metric is delivered.
const killedReporter = `
import os, signalbox
run = signalbox.init()
run.log({"mine/value": 2.5}, step=7)
os.kill(os.getpid(), 9)
`

// startReporter starts an attempt whose process is killed while the ingest service is unavailable. Its reports
// therefore stay in the spool.
func startReporter(t *testing.T) (*attempt, *fakeIngest) {
	t.Helper()
	d := newFakeIngest(t)
	d.setUnavailable(true)
	a := newAttempt(t, "", nil)
	a.work.Attempt.Command = []string{"python", "-c", killedReporter}
	a.work.Attempt.Environment.SDK = true
	a.work.Attempt.IngestEndpoint = d.URL + "/api/ingest"
	a.apply()
	require.Equal(t, 9, a.reach(executor.PhaseCollecting).Exit.Signal)
	return a, d
}

func TestSpool_deliveredAfterKill(t *testing.T) {
	t.Parallel()
	a, d := startReporter(t)
	d.setUnavailable(false)
	require.Equal(t, 9, a.reach(executor.PhaseExited).Exit.Signal, "the delivery must not change the exit")
	require.Contains(t, d.received("metrics"), `"value":2.5`)
	require.Contains(t, d.received("logs"), "1 of 1 report(s) delivered")
	left, err := os.ReadDir(a.path("spool"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestSpool_deliveredToNewEndpointAfterRestart(t *testing.T) {
	t.Parallel()
	a, d := startReporter(t)
	a.stop()
	d.Close()
	next := newFakeIngest(t)
	a.host, a.stop = open(t, a.dir, a.plane, isolate(nil))
	a.work.Attempt.IngestEndpoint = next.URL + "/api/ingest"
	a.apply()
	a.reach(executor.PhaseExited)
	require.Equal(t, 1, strings.Count(next.received("metrics"), `"value":2.5`))
	require.Empty(t, d.received("metrics"))
}

func TestSpool_goneWorkSkipsDelivery(t *testing.T) {
	t.Parallel()
	a, d := startReporter(t)
	require.NoError(t, a.host.Apply(t.Context(), nil))
	require.Eventually(t, func() bool { return len(a.host.Observed()) == 0 }, time.Minute, 5*time.Millisecond)
	require.Empty(t, d.received("metrics"))
}
