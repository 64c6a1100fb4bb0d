package load

import (
	"bufio"
	"bytes"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// usualPoints is the usual number of points of a report.
	usualPoints = 20
	// runsOfProject is the number of runs of a project.
	runsOfProject = 16
)

// reporter reports points of a run, one report after the other.
type reporter struct {
	run, token string
	points     int // of a report
	// body and request are those of the last report. Their memory is used again.
	body, request []byte
	// acknowledged has the last steps of the reports of a load that were acknowledged.
	acknowledged []int
}

// ingest returns the measurement of ingest. Each caller reports for a run of its own, as trainings do. Only one group of
// reports at a time can write the rows of a run, so two replicas that get reports of the same run wait for each other: a
// replica whose quota is used up in the middle of a transaction keeps the run locked until its next period.
func (r *replicaBench) ingest() *scaled {
	s := &scaled{replicaBench: r, service: "ingest", load: &balancer{}, settings: func(string) map[string]string { return nil }}
	var all []*reporter // the runs are created with the first load, because inference is measured before
	loads := 0
	s.begin = func() (func(), func() int) {
		if all == nil {
			all = r.reporters()
		}
		loads++
		key := fmt.Sprint("load", loads)
		for _, one := range all {
			one.acknowledged = nil
		}
		s.load.sent = func(caller, number int) {
			all[caller].acknowledged = append(all[caller].acknowledged, number*all[caller].points)
		}
		end := s.load.start(r.b.Context(), len(all), func(caller, number int) []byte { return all[caller].report(key, number) })
		return end, func() (lost int) {
			for _, one := range all {
				lost += r.lost(one, key)
			}
			return lost
		}
	}
	return s
}

// reporters creates runs without a job, one for each caller, in several projects.
func (r *replicaBench) reporters() (all []*reporter) {
	r.b.Helper()
	ctx := r.b.Context()
	var project struct {
		ID string `json:"id"`
	}
	for n := range 2 * r.callers {
		if n%runsOfProject == 0 {
			key := fmt.Sprint("load", n/runsOfProject)
			require.NoError(r.b, r.loop.Client.Post(ctx, "/api/projects", map[string]string{"key": key, "name": key}, &project))
		}
		var made struct {
			Run struct {
				ID string `json:"id"`
			} `json:"run"`
			Token string `json:"token"`
		}
		body := map[string]string{"name": fmt.Sprint("reports-", n), "project": project.ID}
		require.NoError(r.b, r.loop.Client.Post(ctx, "/api/runs", body, &made))
		all = append(all, &reporter{run: made.Run.ID, token: made.Token, points: size(r.b, "BENCH_POINTS", usualPoints)})
	}
	return all
}

// report returns the call that sends a report of the run. The last point has the step number*points. It is valid until the
// next call of report. It is built without fmt, because the load generator shares the cores with what it measures.
func (p *reporter) report(key string, number int) []byte {
	out := p.body[:0]
	out = append(out, `{"run_id":"`...)
	out = append(out, p.run...)
	out = append(out, `","points":[`...)
	for step := (number-1)*p.points + 1; step <= number*p.points; step++ {
		out = append(out, `{"key":"`...)
		out = append(out, key...)
		out = append(out, `","step":`...)
		out = strconv.AppendInt(out, int64(step), 10)
		out = append(out, `,"value":`...)
		out = strconv.AppendInt(out, int64(step), 10)
		out = append(out, `.5,"ts":"2026-11-21T03:00:00+00:00"},`...)
	}
	out = append(out[:len(out)-1], "]}"...)
	p.body = out
	p.request = append(append(p.request[:0], headTo("/api/ingest/metrics", p.token, len(p.body))...), p.body...)
	return p.request
}

// lost returns how many reports were acknowledged although a point of them is not stored, or is stored twice.
func (r *replicaBench) lost(p *reporter, key string) (n int) {
	r.b.Helper()
	var csv bytes.Buffer
	require.NoError(r.b, r.loop.Client.Stream(r.b.Context(), "/api/runs/"+p.run+"/metrics/export", url.Values{"keys": {key}}, &csv))
	stored := map[int]int{}
	for lines := bufio.NewScanner(&csv); lines.Scan(); {
		fields := strings.SplitN(lines.Text(), ",", 3)
		if step, err := strconv.Atoi(fields[1]); err == nil { // the first line has the names of the columns
			stored[step]++
		}
	}
	for _, last := range p.acknowledged {
		for step := last - p.points + 1; step <= last; step++ {
			if stored[step] != 1 {
				n++
				break
			}
		}
	}
	return n
}

func TestReporter_report(t *testing.T) {
	t.Parallel()
	p := &reporter{run: "run_1", token: "token", points: 2}
	p.report("loss", 1)
	const body = `{"run_id":"run_1","points":[{"key":"loss","step":3,"value":3.5,"ts":"2026-11-21T03:00:00+00:00"},` +
		`{"key":"loss","step":4,"value":4.5,"ts":"2026-11-21T03:00:00+00:00"}]}`
	require.Equal(t, string(requestTo("/api/ingest/metrics", "token", body)), string(p.report("loss", 2)))
}
