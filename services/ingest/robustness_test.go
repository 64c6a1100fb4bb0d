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

// After the end of its run, an attempt may only repeat what is stored: a request with its number, or equal metrics and
// hyperparameters. The same holds for an attempt that another one has replaced, and before ingest has learned from jobs
// that the run has ended.
func TestEndedRun_acceptsOnlyRepeats(t *testing.T) {
	t.Parallel()
	h := open(t)
	for name, end := range map[string]func(run *training){
		"closed": func(run *training) { run.close() },
		"ended in jobs": func(run *training) {
			h.jobs.mu.Lock()
			run.grant.EndedAt = timestamppb.New(h.clock.Now())
			h.jobs.mu.Unlock()
			run.again()
		},
		"replaced": func(run *training) {
			next := *run
			next.attempt(2)
			next.post("logs", "v:1", `"chunks":["newer\n"]`)
		},
	} {
		run := h.replica(ingest.Config{}).train()
		for path, bodies := range bodyPairs() {
			run.post(path, "w:1", bodies[0])
		}
		run.post("metrics", "", points(point("b", 5, `"NaN"`), point("c", 6, 2.5)))
		run.post("hparams", "", `"params":{"lr":0.5,"name":"x"}`)
		before := len(run.lines())
		end(run)
		again := func(path, key, body string, status int, why string) {
			a := run.call(http.MethodPost, path, key, run.body(body))
			require.Equal(t, status, a.status, "%s: %s %s: %s", name, path, why, a.body)
		}
		for path, bodies := range bodyPairs() {
			again(path, "w:1", bodies[0], http.StatusOK, "repeated")
			if path != "lifecycle" {
				again(path, "w:2", bodies[1], http.StatusConflict, "new")
				again(path, "", bodies[1], http.StatusConflict, "new without a number")
			}
		}
		again("metrics", "", points(point("b", 5, `"NaN"`)), http.StatusOK, "equal")
		again("metrics", "v:9", points(point("c", 6, 2.5), point("b", 5, `"NaN"`)), http.StatusOK, "equal with another number")
		again("metrics", "", points(point("b", 5, 1), point("c", 6, 2.5)), http.StatusConflict, "with another value")
		again("metrics", "", points(point("c", 7, 2.5)), http.StatusConflict, "at another step")
		again("metrics", "", points(point("d", 6, 2.5)), http.StatusConflict, "of another key")
		again("hparams", "", `"params":{"name":"x"}`, http.StatusOK, "equal")
		again("hparams", "", `"params":{"name":"x","new":1}`, http.StatusConflict, "with a new name")
		again("hparams", "", `"params":{"lr":0.25}`, http.StatusConflict, "with another value")
		added := map[string]int{"closed": 1, "replaced": 2}[name] // the open line was finished, and the newer attempt has one
		require.Len(t, run.lines(), before+added, name)
		require.EqualValues(t, 1, run.watermark()["logs"]["w"], name)
	}
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
