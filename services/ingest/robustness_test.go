package ingest_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// mutate returns a damaged copy of the body, in which pieces are deleted, repeated, inserted or replaced.
func mutate(draw *rand.Rand, body string) string {
	pieces := []string{
		`\u0000`, "\x00", "\xff", `"`, `\`, "{", "}", "[", "]", ",", ":", "null", "NaN", "-Infinity", "1e999", "-1", "99999999999999999999", `"\ud800"`, `{"a":{"a":1}}`,
		"true", `""`, " ", "\n", "é", strings.Repeat("9", 300), strings.Repeat("[", 100), `"run_id":"x",`, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
	}
	for range 1 + draw.IntN(3) {
		at := draw.IntN(len(body) + 1)
		to := min(len(body), at+draw.IntN(8))
		switch draw.IntN(4) {
		case 0:
			body = body[:at] + body[to:]
		case 1:
			body = body[:at] + body[at:to] + body[at:]
		case 2:
			body = body[:at] + pieces[draw.IntN(len(pieces))] + body[at:]
		default:
			body = body[:at] + pieces[draw.IntN(len(pieces))] + body[to:]
		}
	}
	return body
}

func TestMutatedBodies_neverInternalError(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	allowed := []int{200, 400, 403, 409, 422}
	for path, bodies := range bodyPairs() {
		parallel(4, func(part int) {
			draw := rand.New(rand.NewPCG(uint64(part), uint64(len(path))))
			for i := range 60 {
				body := mutate(draw, run.body(bodies[i%2]))
				a := run.call(http.MethodPost, path, "", body)
				if !slices.Contains(allowed, a.status) || !strings.Contains(string(a.body), `"`) {
					t.Errorf("%s %q: %d %s", path, body, a.status, a.body)
				}
			}
		})
	}
	// Data that was accepted can be read.
	_, err := run.r.public.ListLogs(t.Context(), &ingestv1.ListLogsRequest{Id: run.run})
	require.NoError(t, err)
	_, err = run.r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run})
	require.NoError(t, err)
	_, err = run.r.public.GetHparams(t.Context(), &ingestv1.GetHparamsRequest{Id: run.run})
	require.NoError(t, err)
	_, err = run.r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run})
	require.NoError(t, err)
	_, err = run.r.public.ListArtifacts(t.Context(), &ingestv1.ListArtifactsRequest{Id: run.run})
	require.NoError(t, err)
}

func TestConcurrentRequests_storedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	runs := []*training{r.train(), r.train(), r.train()}
	var mu sync.Mutex
	statuses := map[int]int{}
	parallel(90, func(i int) {
		run := runs[i%3]
		key := fmt.Sprintf("w%d:1", i)
		bodies := map[string]string{
			"metrics": points(point("a", i, 1), point("b", i, 1)), "logs": fmt.Sprintf(`"chunks":["%d\n"]`, i), "hparams": fmt.Sprintf(`"params":{"k%d":1}`, i),
			"validation": fmt.Sprintf(`"step":%d,"samples":[{},{}]`, i), "benchmark": `"name":"n","metric":"m","value":1`,
			"hardware": `"points":[{}]`, // an invalid request among the valid ones
		}
		for path, body := range bodies {
			a := run.call(http.MethodPost, path, key, run.body(body))
			mu.Lock()
			statuses[a.status]++
			mu.Unlock()
		}
	})
	require.Equal(t, map[int]int{200: 90 * 5, 422: 90}, statuses)
	for table, want := range map[string]int{"metric_batch": 90, "hparam": 90, "validation_round": 90, "sample": 180, "benchmark_score": 90, "mark": 450, "request_digest": 450} {
		require.Equal(t, want, count(t, h, table), table)
	}
	for _, run := range runs {
		require.Len(t, run.lines(), 30)
		for stream, writers := range run.watermark() {
			require.Len(t, writers, 30, stream)
		}
	}
}

func TestGracePeriod_checkedPerRequest(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	run.post("metrics", "w:1", points(point("a", 1, 1)))
	h.jobs.mu.Lock()
	run.grant.EndedAt = timestamppb.New(h.clock.Now().Add(-14 * time.Minute))
	h.jobs.mu.Unlock()
	late := *run
	late.attempt(1) // another token of the same attempt, whose grant is not cached yet
	late.grant.EndedAt = timestamppb.New(h.clock.Now().Add(-14 * time.Minute))
	require.InDelta(t, 1, late.post("metrics", "w:1", points(point("a", 1, 1)))["inserted"], 0)
	late.post("logs", "w:1", `"chunks":["late\n"]`)
	over := *run
	over.attempt(1)
	over.grant.EndedAt = timestamppb.New(h.clock.Now().Add(-15*time.Minute - time.Second))
	for path, bodies := range bodyPairs() {
		if path == "lifecycle" {
			continue
		}
		a := over.call(http.MethodPost, path, "", over.body(bodies[0]))
		require.Equal(t, http.StatusConflict, a.status, path)
		require.Equal(t, "run_closed", a.json(t)["code"], path)
	}
	require.Equal(t, []string{"1 late"}, run.lines())
	require.EqualValues(t, 1, over.watermark()["logs"]["w"])
}

func TestIngestToken_expiredOrRevoked(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	for name, end := range map[string]func(run *training){
		"expired": func(run *training) { run.grant.ExpiresAt = timestamppb.New(h.clock.Now().Add(-time.Microsecond)) },
		"revoked": func(run *training) { clear(h.jobs.grants) },
	} {
		run := r.train()
		h.jobs.mu.Lock()
		end(run)
		h.jobs.mu.Unlock()
		for path, bodies := range bodyPairs() {
			a := run.call(http.MethodPost, path, "", run.body(bodies[0]))
			require.Equal(t, http.StatusUnauthorized, a.status, "%s: %s", name, path)
		}
		require.Equal(t, http.StatusUnauthorized, run.call(http.MethodGet, "watermark?run_id="+run.run, "", "").status, name)
	}
	require.Zero(t, count(t, h, "log_chunk")+count(t, h, "metric_batch")+count(t, h, "record"))
}

func TestIngestToken_jobsUnavailable(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	h.jobs.mu.Lock()
	h.jobs.away = fault.New(fault.Unavailable, "", "jobs is unavailable")
	h.jobs.mu.Unlock()
	a := run.call(http.MethodPost, "logs", "w:1", run.body(`"chunks":["a\n"]`))
	require.Equal(t, http.StatusServiceUnavailable, a.status, "503 lets the client retry; 401 would not")
	require.NotEmpty(t, a.header.Get("Retry-After"))
	h.jobs.mu.Lock()
	h.jobs.away = nil
	h.jobs.mu.Unlock()
	run.post("logs", "w:1", `"chunks":["a\n"]`)
	require.Equal(t, []string{"1 a"}, run.lines())
}
