package slurm_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/test/slurmtest"
)

// killedReporter is a training whose ranks report a metric each and are killed before it is delivered, when all of them
// have reported.
const killedReporter = `
import os, pathlib, signalbox, time
run = signalbox.init()
rank = int(os.environ["SERVICE_JOB_NODE_RANK"])
run.log({"mine/value": 40 + rank}, step=7)
reported = pathlib.Path(os.environ["REPORTED"])
(reported / str(rank)).touch()
while len(os.listdir(reported)) < 2:
    time.sleep(0.05)
os.kill(os.getpid(), 9)
`

// The reports that killed ranks have left in their spools are delivered.
func TestRanks_spoolsAreDelivered(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 2})
	var away atomic.Bool
	away.Store(true)
	var mu sync.Mutex
	var metrics strings.Builder
	ingest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		route := strings.TrimPrefix(r.URL.Path, "/api/ingest/")
		if away.Load() && route != "logs" && route != "/api/cluster/leases/renew" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if route == "metrics" {
			mu.Lock()
			metrics.Write(body)
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(ingest.Close)
	w := b.attempt("wrk_a", "", 2)
	w.Attempt.Command, w.Attempt.Environment.SDK = []string{"python", "-c", killedReporter}, true
	w.Attempt.IngestEndpoint, w.Attempt.Env = ingest.URL+"/api/ingest", map[string]string{"REPORTED": t.TempDir()}
	b.apply(w)
	require.Equal(t, 9, b.reach(w.Key, executor.PhaseCollecting).Exit.Signal)
	away.Store(false)
	o := b.reach(w.Key, executor.PhaseExited)
	require.False(t, o.Uncollected)
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, metrics.String(), "40")
	require.Contains(t, metrics.String(), "41")
}
