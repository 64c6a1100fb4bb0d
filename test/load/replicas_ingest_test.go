package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// reportPoints is the number of points of a report.
const reportPoints = 20

// acknowledged has the last steps of the reports that were acknowledged, by metric.
type acknowledged struct {
	mu    sync.Mutex
	steps map[string][]int
}

// ingest returns the measurement of ingest. Each caller reports points of a metric of its own.
func (r *replicaBench) ingest() *scaled {
	s := &scaled{replicaBench: r, service: "ingest", load: &balancer{}, settings: func(string) map[string]string { return nil }}
	run, token := r.runToken()
	loads := 0
	s.begin = func() (func(), func() int) {
		loads++
		load, acked := loads, &acknowledged{steps: map[string][]int{}}
		key := func(caller int) string { return fmt.Sprintf("load%d/%d", load, caller) }
		s.load.sent = func(caller, number int) {
			acked.mu.Lock()
			defer acked.mu.Unlock()
			acked.steps[key(caller)] = append(acked.steps[key(caller)], number*reportPoints)
		}
		end := s.load.start(r.b.Context(), replicaCallers, func(caller, number int) []byte {
			return requestTo("/api/ingest/metrics", token, report(run, key(caller), number))
		})
		return end, func() int { return r.lost(run, acked) }
	}
	return s
}

// report returns a report with reportPoints points. The last one has the step number*reportPoints.
func report(run, key string, number int) string {
	var out strings.Builder
	fmt.Fprintf(&out, `{"run_id":%q,"points":[`, run)
	for step := (number-1)*reportPoints + 1; step <= number*reportPoints; step++ {
		fmt.Fprintf(&out, `{"key":%q,"step":%d,"value":%d.5,"ts":"2026-11-21T03:00:00+00:00"},`, key, step, step)
	}
	return strings.TrimSuffix(out.String(), ",") + "]}"
}

// runToken starts a job that does nothing, and returns its run and the token of its reports.
func (r *replicaBench) runToken() (run, token string) {
	r.b.Helper()
	ctx := r.b.Context()
	l := &e2eflow.Loop{Client: r.loop.Client, Clock: r.loop.Clock, Timeout: r.loop.Timeout, Name: "reports"}
	require.NoError(r.b, l.Submit(ctx, testenv.Command(ctx, r.Installation, l, "sleep", "3600")))
	r.Until(ctx, "the job has an ingest token", func() bool {
		r.Find("assignment.json", func(path string) bool {
			var assignment struct{ Token string }
			raw, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(raw, []byte(l.Job.ID)) || json.Unmarshal(raw, &assignment) != nil {
				return false
			}
			token = assignment.Token
			return token != ""
		})
		return token != ""
	})
	return l.Job.RunID, token
}

// lost returns how many reports were acknowledged although a point of them is not stored, or is stored twice.
func (r *replicaBench) lost(run string, acked *acknowledged) (n int) {
	r.b.Helper()
	var csv bytes.Buffer
	require.NoError(r.b, r.loop.Client.Stream(r.b.Context(), "/api/runs/"+run+"/metrics/export", nil, &csv))
	stored := map[string]map[int]int{}
	for lines := bufio.NewScanner(&csv); lines.Scan(); {
		fields := strings.Split(lines.Text(), ",")
		step, err := strconv.Atoi(fields[1])
		if err != nil {
			continue // the first line has the names of the columns
		}
		if stored[fields[0]] == nil {
			stored[fields[0]] = map[int]int{}
		}
		stored[fields[0]][step]++
	}
	for key, lasts := range acked.steps {
		for _, last := range lasts {
			for step := last - reportPoints + 1; step <= last; step++ {
				if stored[key][step] != 1 {
					n++
					break
				}
			}
		}
	}
	return n
}
