package ingest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// point returns the JSON of a metric point.
func point(key string, step int, value any) string {
	return fmt.Sprintf(`{"key":%q,"step":%d,"value":%v,"ts":%s}`, key, step, value, ts)
}

func points(list ...string) string { return `"points":[` + strings.Join(list, ",") + `]` }

// parallel runs fn(0) to fn(n-1) concurrently and waits for all of them.
func parallel(n int, fn func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { fn(i) })
	}
	all.Wait()
}

func TestRepeatedRequestIsStoredOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	replicas := []*replica{h.replica(ingest.Config{}), h.replica(ingest.Config{})}
	run := replicas[0].train()
	const requests, copies = 20, 4
	parallel(requests*copies, func(i int) {
		mine := *run
		mine.r = replicas[i%2]
		n := i/copies + 1
		a := mine.call(http.MethodPost, "metrics", fmt.Sprintf("w:%d", n), run.body(points(point("a", n, 1), point("b", n, 2))))
		if a.status != http.StatusOK || !strings.Contains(string(a.body), `"inserted":2`) {
			t.Errorf("%d: %d %s", n, a.status, a.body)
		}
		a = mine.call(http.MethodPost, "logs", fmt.Sprintf("w:%d", n), run.body(fmt.Sprintf(`"chunks":["line %d\n"]`, n)))
		if a.status != http.StatusOK {
			t.Errorf("%d: %d %s", n, a.status, a.body)
		}
	})
	require.Equal(t, requests, count(t, h, "metric_batch"))
	require.Len(t, run.lines(), requests)
	require.Equal(t, map[string]map[string]int64{"metrics": {"w": requests}, "logs": {"w": requests}}, run.watermark())
	require.Zero(t, count(t, h, "ahead"))
	require.Equal(t, 2, count(t, h, "metric_key"))
}

func TestReplacedAttempt_rejectedOnceNewAttemptReports(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	one := run.body(points(point("a", 1, 1)))
	require.Equal(t, http.StatusOK, run.call(http.MethodPost, "metrics", "", one).status)
	old := *run // the grant of the old token remains cached for a while
	run.attempt(2)
	run.post("lifecycle", "", `"event":"running","ts":`+ts)
	require.Equal(t, http.StatusOK, old.call(http.MethodPost, "metrics", "", one).status, "the points are stored already")
	a := old.call(http.MethodPost, "metrics", "", run.body(points(point("a", 2, 1))))
	require.Equal(t, http.StatusConflict, a.status, "%s", a.body)
	require.Equal(t, "attempt_replaced", a.json(t)["code"])
	require.Equal(t, 1, count(t, h, "metric_batch"))
}

func TestWatermarkStopsBeforeGaps(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	post := func(seq int) { run.post("benchmark", fmt.Sprintf("w:%d", seq), `"name":"n","metric":"m","value":1`) }
	for _, step := range []struct{ seq, mark int }{{1, 1}, {3, 1}, {5, 1}, {3, 1}, {2, 3}, {7, 3}, {6, 3}, {4, 7}, {8, 8}} {
		post(step.seq)
		require.EqualValues(t, step.mark, run.watermark()["benchmark"]["w"], "after %d", step.seq)
	}
	require.Equal(t, 8, count(t, r.h, "benchmark_score"))
	require.Zero(t, count(t, r.h, "ahead"))
	post(4)
	require.Equal(t, 8, count(t, r.h, "benchmark_score"), "a number below the watermark is a repeat")

	run.post("benchmark", "other:2", `"name":"n","metric":"m","value":1`)
	require.NotContains(t, run.watermark()["benchmark"], "other")
	run.post("benchmark", "w:1:1", `"name":"n","metric":"m","value":1`)
	require.EqualValues(t, 1, run.watermark()["benchmark"]["w:1"])
}

// callAndDisconnect sends a request whose client disconnects without waiting for the response.
func (t *training) callAndDisconnect(path, key, body string) {
	ctx, cut := context.WithCancel(t.r.h.t.Context())
	req := httptest.NewRequest(http.MethodPost, "/api/ingest/"+path, strings.NewReader(body)).WithContext(ctx)
	req.Header.Set("Authorization", "Bearer "+t.token)
	req.Header.Set("Idempotency-Key", key)
	go cut()
	t.r.serve(req)
}

func TestRetryAfterLostResponse(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	for n := 1; n <= 40; n++ {
		key, body := fmt.Sprintf("w:%d", n), run.body(points(point("a", n, n), point("a", n, n)))
		run.callAndDisconnect("metrics", key, body)
		if n%10 == 0 { // the process also restarts
			run.r.stop()
			run.r = h.replica(ingest.Config{})
		}
		a := run.call(http.MethodPost, "metrics", key, body)
		require.Equal(t, http.StatusOK, a.status, string(a.body))
		require.InDelta(t, 2, a.json(t)["inserted"], 0)
	}
	require.Equal(t, 40, count(t, h, "metric_batch"))
	require.EqualValues(t, 40, run.watermark()["metrics"]["w"])
}

func TestCommitGroup_invalidRequestFailsAlone(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("validation", "", `"step":1,"samples":[],"chunk_index":0,"total_chunks":3`)
	var mu sync.Mutex
	statuses := map[int]int{}
	parallel(60, func(i int) {
		a := run.call(http.MethodPost, "logs", fmt.Sprintf("l%d:1", i), run.body(`"chunks":["x\n"]`))
		b := run.call(http.MethodPost, "validation", fmt.Sprintf("v%d:1", i), run.body(`"step":1,"samples":[],"chunk_index":0,"total_chunks":2`))
		mu.Lock()
		defer mu.Unlock()
		statuses[a.status]++
		statuses[b.status]++
	})
	require.Equal(t, map[int]int{200: 60, 409: 60}, statuses)
	require.Len(t, run.lines(), 60)
	require.Len(t, run.watermark()["logs"], 60)
	require.Empty(t, run.watermark()["validation"])
}

func TestValidationChunks_anyOrder(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	const chunks, each = 16, 3
	order := append(rand.Perm(chunks), rand.Perm(chunks)...)
	for i, c := range order {
		var samples []string
		for s := range each {
			samples = append(samples, fmt.Sprintf(`{"user":"%d","reward":0.5}`, c*each+s))
		}
		run.post("validation", "", fmt.Sprintf(`"step":7,"samples":[%s],"chunk_index":%d,"total_chunks":%d,"avg_reward":0.5`, strings.Join(samples, ","), c, chunks))
		rounds, err := r.public.ListValidations(t.Context(), &ingestv1.ListValidationsRequest{Id: run.run})
		require.NoError(t, err)
		require.Equal(t, i >= chunks-1, rounds.GetRounds()[0].GetComplete(), "after %d chunks", i+1)
	}
	out, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run})
	require.NoError(t, err)
	require.Len(t, out.GetSamples(), chunks*each)
	for i, s := range out.GetSamples() {
		require.EqualValues(t, i, s.GetIndex())
		require.Equal(t, fmt.Sprintf("%q", fmt.Sprint(i)), string(s.GetUser()))
	}
	a := run.call(http.MethodPost, "validation", "", run.body(`"step":7,"samples":[],"chunk_index":0,"total_chunks":9`))
	require.Equal(t, http.StatusConflict, a.status)
}

func TestNewerAttemptsHideOlderRounds(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	round := func(step int) {
		run.post("validation", "", fmt.Sprintf(`"step":%d,"samples":[{"user":%d}]`, step, step))
	}
	round(10)
	round(20)
	round(30)
	run.attempt(2)
	round(20)
	out, err := r.public.ListValidations(t.Context(), &ingestv1.ListValidationsRequest{Id: run.run})
	require.NoError(t, err)
	var seen [][2]int64
	for _, round := range out.GetRounds() {
		seen = append(seen, [2]int64{round.GetStep(), int64(round.GetAttempt())})
	}
	require.Equal(t, [][2]int64{{10, 1}, {20, 2}}, seen)
	last, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run})
	require.NoError(t, err)
	require.EqualValues(t, 20, last.GetSamples()[0].GetStep())
}

func TestListMetrics_mergesAttempts(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("metrics", "", points(point("loss", 1, 1), point("loss", 3, 3), point("loss", 2, 2), point("lr", 1, 9)))
	run.post("metrics", "", points(point("loss", 2, 2.5)))
	run.attempt(2)
	run.post("metrics", "", points(point("loss", 3, `"Infinity"`)))
	out, err := r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run})
	require.NoError(t, err)
	var seen []string
	for _, s := range out.GetSeries() {
		for _, p := range s.GetPoints() {
			seen = append(seen, fmt.Sprint(s.GetKey(), " ", p.GetStep(), " ", p.GetValue(), " ", p.GetAttempt()))
		}
	}
	require.Equal(t, []string{"loss 1 1 1", "loss 2 2.5 1", "loss 3 +Inf 2", "lr 1 9 1"}, seen)
	out, err = r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run, Keys: []string{"lr", "none"}})
	require.NoError(t, err)
	require.Len(t, out.GetSeries(), 1)
}

func TestMetricKeys_limitPerRun(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	var list []string
	for i := range 10_000 {
		list = append(list, point(fmt.Sprintf("k%05d", i), 1, i))
	}
	require.InDelta(t, 10_000, run.post("metrics", "w:1", points(list...))["inserted"], 0)
	a := run.call(http.MethodPost, "metrics", "w:2", run.body(points(point("k1", 1, 1), point("new", 1, 1))))
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Contains(t, a.json(t)["detail"], "metrics: a run has at most 10000 keys")
	run.post("metrics", "w:2", points(point("k00001", 2, 1)))
	limit := int32(500)
	out, err := r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run, Limit: &limit})
	require.NoError(t, err)
	require.Len(t, out.GetSeries(), 500)
}
