package ingest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/ingest"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

// BenchmarkReports_besideCompactor compares the rate of reports over HTTP while the compactor moves rows with the rate while
// it does not: of 16 clients with 1,000 points of 10 keys each. BENCH_REPORTS sets another number of reports in a round.
func BenchmarkReports_besideCompactor(b *testing.B) {
	const clients, rounds = 16, 5
	requests := size(b, "BENCH_REPORTS", 3000)
	h := open(b)
	r := h.replica(ingest.Config{}, "ingest.compact")
	server := httptest.NewServer(r.handler)
	b.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	b.Cleanup(client.CloseIdleConnections)
	w := &reporters{b: b, address: server.URL, client: client, next: make([]int, clients)}
	for range clients {
		w.runs = append(w.runs, r.train())
	}
	b.Run("I1 reports beside the compactor", func(b *testing.B) {
		var alone, beside []float64
		for range rounds + 1 {
			alone = append(alone, w.rate(requests))
			stop := h.keepCompacting()
			beside = append(beside, w.rate(requests))
			stop()
		}
		alone, beside = alone[1:], beside[1:] // the first round warms up
		slices.Sort(alone)
		slices.Sort(beside)
		var blocks int
		require.NoError(b, h.db.Pool(ingest.Name).QueryRow(b.Context(), `SELECT count(*) FROM metric_block`).Scan(&blocks))
		require.Positive(b, blocks, "the compactor has moved rows")
		b.ReportMetric(float64(blocks), "blocks")
		b.ReportMetric(alone[rounds/2], "alone/s")
		report(b, "I1 reports over HTTP beside the compactor / without it", beside[rounds/2]/alone[rounds/2], 0.95, true)
	})
}

// reporters are clients that report metrics over HTTP, each for a run of its own.
type reporters struct {
	b       *testing.B
	address string
	client  *http.Client
	runs    []*training
	next    []int // the first step of the next report of each run
}

// rate returns the reports per second of all clients, which together send the given number.
func (w *reporters) rate(requests int) float64 {
	w.b.Helper()
	began := time.Now()
	parallel(len(w.runs), func(i int) {
		for range requests / len(w.runs) {
			if !w.send(i) {
				return
			}
		}
	})
	return float64(requests) / time.Since(began).Seconds()
}

// send sends the next report of a client, and reports whether it was accepted.
func (w *reporters) send(i int) bool {
	const keys, steps = 10, 100
	body := []byte(`{"run_id":"` + w.runs[i].run + `","points":[`)
	for n := range keys * steps {
		step := w.next[i] + n/keys
		body = append(body, `{"key":"key `...)
		body = strconv.AppendInt(body, int64(n%keys), 10)
		body = append(body, `","step":`...)
		body = strconv.AppendInt(body, int64(step), 10)
		body = append(body, `,"value":`...)
		body = strconv.AppendFloat(body, value(step), 'g', -1, 64)
		body = append(body, `,"ts":`+ts+`},`...)
	}
	body = append(body[:len(body)-1], "]}"...)
	w.next[i] += steps
	req, err := http.NewRequestWithContext(w.b.Context(), http.MethodPost, w.address+"/api/ingest/metrics", bytes.NewReader(body))
	if !assert.NoError(w.b, err) {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+w.runs[i].token)
	answer, err := w.client.Do(req)
	if !assert.NoError(w.b, err) {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return assert.NoError(w.b, err) && assert.Equal(w.b, http.StatusOK, answer.StatusCode, string(text))
}

// ahead is a clock two minutes ahead of time, so that a compactor may move what was just reported.
type ahead struct{ clock.Clock }

func (a ahead) Now() time.Time { return a.Clock.Now().Add(2 * time.Minute) }

// keepCompacting moves rows of any age, with the rests of a compactor in operation. The function stop ends that.
func (h *harness) keepCompacting() (stop func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	pool := h.db.Pool(ingest.Name)
	_, err := pool.Exec(ctx, `UPDATE metric_hot SET due = now()`)
	require.NoError(h.t, err)
	c, err := metric.NewCompactor(pool, ahead{clock.Real()}, quiet(), nil)
	require.NoError(h.t, err)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(h.t, <-done)
	}
}
