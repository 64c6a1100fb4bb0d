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

// desk takes every report, or none, and keeps what was said on each route but that of the log.
type desk struct {
	*httptest.Server
	mu   sync.Mutex
	away bool
	said map[string][]string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{said: map[string][]string{}}
	d.Server = httptest.NewServer(http.HandlerFunc(d.take))
	t.Cleanup(d.Close)
	return d
}

func (d *desk) take(w http.ResponseWriter, r *http.Request) {
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
		d.said[route] = append(d.said[route], string(raw))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}"))
}

func (d *desk) have(route string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.said[route], "\n")
}

func (d *desk) be(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// killedReporter reports and is killed before anything is delivered.
const killedReporter = `
import os, signalbox
run = signalbox.init()
run.log({"mine/value": 2.5}, step=7)
os.kill(os.getpid(), 9)
`

// reporter is an attempt whose process is killed with reports in its spool, while nobody takes them.
func reporter(t *testing.T) (*attempt, *desk) {
	t.Helper()
	d := newDesk(t)
	d.be(true)
	a := newAttempt(t, "", nil)
	a.work.Attempt.Command = []string{"python", "-c", killedReporter}
	a.work.Attempt.Environment.SDK = true
	a.work.Attempt.IngestEndpoint = d.URL + "/api/ingest"
	a.apply()
	require.Equal(t, 9, a.reach(executor.PhaseCollecting).Exit.Signal)
	return a, d
}

func TestWhatAKilledProcessLeftInItsSpoolIsDelivered(t *testing.T) {
	t.Parallel()
	a, d := reporter(t)
	d.be(false)
	require.Equal(t, 9, a.reach(executor.PhaseExited).Exit.Signal, "its end is its own")
	require.Contains(t, d.have("metrics"), `"value":2.5`)
	require.Contains(t, d.have("logs"), "1 of 1 report(s) delivered")
	left, err := os.ReadDir(a.path("spool"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTheNextExecutorDeliversTheSpoolToWhereTheRoutesAreThen(t *testing.T) {
	t.Parallel()
	a, d := reporter(t)
	a.stop()
	d.Close()
	next := newDesk(t)
	a.host, a.stop = open(t, a.dir, a.plane, nil)
	a.work.Attempt.IngestEndpoint = next.URL + "/api/ingest"
	a.apply()
	a.reach(executor.PhaseExited)
	require.Equal(t, 1, strings.Count(next.have("metrics"), `"value":2.5`))
	require.Empty(t, d.have("metrics"))
}

func TestAWorkThatIsForgottenDoesNotWaitForItsSpool(t *testing.T) {
	t.Parallel()
	a, d := reporter(t)
	require.NoError(t, a.host.Apply(t.Context(), nil))
	require.Eventually(t, func() bool { return len(a.host.Observed()) == 0 }, time.Minute, 5*time.Millisecond)
	require.Empty(t, d.have("metrics"))
}
