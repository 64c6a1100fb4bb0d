package scale

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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// points returns a report with n points for each key, beginning at the given step.
func points(runID string, keys []string, step, n int) map[string]any {
	list := make([]any, 0, len(keys)*n)
	for s := step; s < step+n; s++ {
		for _, key := range keys {
			list = append(list, map[string]any{"key": key, "step": s, "value": float64(s) / 7, "ts": "2026-11-21T03:00:00+00:00"})
		}
	}
	return map[string]any{"run_id": runID, "points": list}
}

// fill reports the given number of steps, each with 100 keys.
func (r run) fill(ctx context.Context, t *testing.T, steps int) {
	t.Helper()
	const count, atOnce = 100, 50
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	for step := 0; step < steps; step += atOnce {
		require.NoError(t, r.reports.Post(ctx, "/api/ingest/metrics", points(r.id, keys, step, min(atOnce, steps-step)), nil))
	}
}

// peakMemory returns the maximum memory that a process uses while f runs, in MiB.
func peakMemory(t *testing.T, pid int, f func()) float64 {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	require.NoError(t, os.WriteFile(proc+"clear_refs", []byte("5"), 0)) // resets the peak, see proc(5)
	f()
	raw, err := os.ReadFile(proc + "status")
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.Atoi(fields[1])
			require.NoError(t, err)
			return float64(kib) / 1024
		}
	}
	require.FailNow(t, "no peak memory in "+proc+"status")
	return 0
}

// chartMemory reads the points and the chart of one series of a run with 100 keys, and compares the memory of ingest for a short run and
// for one ten times as long.
func (h *harness) chartMemory(ctx context.Context, t *testing.T) {
	t.Helper()
	long := size(2000, 200_000)
	read := func(name string, steps int) float64 {
		r := h.start(ctx, t, name)
		r.fill(ctx, t, steps)
		p := h.Processes["ingest"] // a new process, without the memory that the reports took
		p.Stop(testenv.StageTimeout)
		p.Start()
		h.AwaitServing()
		h.Until(ctx, "ingest serves", func() bool {
			a, err := h.loop.Client.Call(ctx, http.MethodGet, "/api/runs/"+r.id+"/metrics?keys=none", nil)
			return err == nil && a.Status == http.StatusOK
		})
		return peakMemory(t, p.PID(), func() {
			for _, list := range []string{"metrics", "series"} {
				a, err := h.loop.Client.Call(ctx, http.MethodGet, "/api/runs/"+r.id+"/"+list+"?keys=key7", nil)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, a.Status, "%.200s", a.Body)
				var series []struct{ Key string }
				require.NoError(t, json.Unmarshal(a.Body, &series))
				require.Len(t, series, 1)
			}
		})
	}
	short, all := read("short", long/10), read("long", long)
	const goal = 1.3
	report(t, all/short <= goal, "memory of ingest while one series of 100 is read: %.0f MiB with %d steps, %.0f MiB with %d steps, ratio %.2f (at most %.1f)",
		short, long/10, all, long, all/short, goal)
}

// rate returns the reports per second of all runs together. Each run sends one report after another.
func rate(ctx context.Context, t *testing.T, runs []run) float64 {
	t.Helper()
	period := time.Duration(size(300, 3000)) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, period)
	defer cancel()
	var sent atomic.Int64
	var wg sync.WaitGroup
	for _, r := range runs {
		wg.Go(func() {
			body := points(r.id, []string{"loss", "lr"}, 1, 5)
			for ctx.Err() == nil {
				a, err := r.reports.Call(ctx, http.MethodPost, "/api/ingest/metrics", body)
				if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
					return
				}
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("a report was refused: %v %v", err, a)
					return
				}
				sent.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(sent.Load()) / period.Seconds()
}

// keepSending sends reports of a run until the function stop is called, and requires the given status.
func keepSending(ctx context.Context, t *testing.T, r run, status int, body func() map[string]any) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			a, err := r.reports.Call(ctx, http.MethodPost, "/api/ingest/metrics", body())
			if ctx.Err() == nil && (err != nil || a.Status != status) {
				t.Errorf("want status %d, got %v %v", status, err, a)
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// reportsBesideOthers measures the rate of the reports of eight runs in three cases: while another training breaks
// its key limit with every report, while another training sends as many valid reports, and while 16 uploads stall.
func (h *harness) reportsBesideOthers(ctx context.Context, t *testing.T) {
	t.Helper()
	var runs []run
	for i := range 8 {
		runs = append(runs, h.start(ctx, t, fmt.Sprint("run", i)))
	}
	extra, stalling := h.start(ctx, t, "extra"), h.start(ctx, t, "stalling")
	const maxKeys = 10_000
	for from := 0; from < maxKeys; from += 1000 {
		var keys []string
		for i := range 1000 {
			keys = append(keys, fmt.Sprint("full", from+i))
		}
		require.NoError(t, extra.reports.Post(ctx, "/api/ingest/metrics", points(extra.id, keys, 1, 1), nil))
	}
	well := func() map[string]any { return points(extra.id, []string{"full1", "full2"}, 1, 5) }
	broken := func() map[string]any { return points(extra.id, []string{"one more", "and another"}, 1, 5) }
	var healthy, refused, plain, stalled []float64
	for range rounds {
		plain = append(plain, rate(ctx, t, runs))
		stop := stall(ctx, t, h, stalling)
		stalled = append(stalled, rate(ctx, t, runs))
		stop()
		stop = keepSending(ctx, t, extra, http.StatusOK, well)
		healthy = append(healthy, rate(ctx, t, runs))
		stop()
		stop = keepSending(ctx, t, extra, http.StatusBadRequest, broken)
		refused = append(refused, rate(ctx, t, runs))
		stop()
	}
	const goal = 0.9
	ratio := median(refused) / median(healthy)
	report(t, ratio >= goal, "reports of 8 runs: %.0f/s beside a good training, %.0f/s beside one that breaks its key limit, ratio %.2f (at least %.1f)",
		median(healthy), median(refused), ratio, goal)
	ratio = median(stalled) / median(plain)
	report(t, ratio >= goal, "reports of 8 runs: %.0f/s alone, %.0f/s beside 16 stalled uploads, ratio %.2f (at least %.1f)", median(plain), median(stalled), ratio, goal)
}

// stall begins 16 reports of 8 MiB and sends only their first bytes. The function stop ends them.
func stall(ctx context.Context, t *testing.T, h *harness, r run) (stop func()) {
	t.Helper()
	var open []net.Conn
	for range 16 {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(h.URL, "http://"))
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST /api/ingest/metrics HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"run_id\":",
			strings.TrimPrefix(h.URL, "http://"), r.token.Reveal(), 8<<20)
		require.NoError(t, err)
		open = append(open, conn)
	}
	return func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}
}
