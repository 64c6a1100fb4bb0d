package ingest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// bodyPairs returns, for every route that stores data, two different valid bodies without run_id.
func bodyPairs() map[string][2]string {
	sample := `{"ts":` + ts + `,"key":"util","value":%d}`
	return map[string][2]string{
		"lifecycle":         {`"event":"starting","ts":` + ts, `"event":"running","ts":` + ts},
		"metrics":           {points(point("a", 1, 1), point("b", 1, 2)), points(point("a", 1, 9), point("c", 1, 9), point("d", 1, 9))},
		"hparams":           {`"params":{"lr":1}`, `"params":{"lr":2,"new":3}`},
		"validation":        {`"step":1,"samples":[{"user":"q"}]`, `"step":1,"samples":[{"user":"other"}],"accuracy":1`},
		"logs":              {`"chunks":["a line\nopen"]`, `"chunks":["another\n"]`},
		"artifact":          {`"kind":"checkpoint","path":"/a","format":"gguf"`, `"kind":"checkpoint","path":"/b","format":"gguf"`},
		"hardware":          {`"points":[` + fmt.Sprintf(sample, 1) + `]`, `"points":[` + fmt.Sprintf(sample, 2) + `]`},
		"environment":       {`"python":"3.12"`, `"python":"3.13"`},
		"environment/nodes": {`"nodes":[{"rank":0,"host":"a"}]`, `"nodes":[{"rank":0,"host":"b"},{"rank":1,"host":"c"}]`},
		"benchmark":         {`"name":"n","metric":"m","value":1`, `"name":"n","metric":"m","value":2`},
	}
}

// stored returns the rows of all tables to which reports write, and the lifecycle events that the fake jobs service
// received.
func (h *harness) stored() string {
	h.t.Helper()
	var all strings.Builder
	for _, table := range []string{
		"run", "mark", "ahead", "request_digest", "metric_key", "metric_batch", "log_chunk", "log_tail", "hparam", "hparam_history",
		"validation_round", "validation_chunk", "sample", "rank_validation_round", "rank_validation_chunk", "rank_sample", "rank_hparam", "attempt_step", "artifact", "record", "hardware_series", "hardware_batch", "benchmark_score", "evaluation", "rollout",
	} {
		var rows string
		err := h.db.Pool(ingest.Name).QueryRow(h.t.Context(), `SELECT coalesce(string_agg(t::text, E'\n' ORDER BY t::text), '') FROM `+table+` t`).Scan(&rows)
		require.NoError(h.t, err)
		fmt.Fprintf(&all, "%s\n%s\n", table, rows)
	}
	h.jobs.mu.Lock()
	defer h.jobs.mu.Unlock()
	fmt.Fprintln(&all, h.jobs.reported)
	return all.String()
}

// refused requires status 409 and an error which states that the key was already used with a different body.
func refused(t *testing.T, a response) {
	t.Helper()
	require.Equal(t, http.StatusConflict, a.status, string(a.body))
	var body map[string]any
	require.NoError(t, json.Unmarshal(a.body, &body))
	require.Equal(t, map[string]any{"code": "idempotency_key", "detail": "this Idempotency-Key was already used with a different request"}, body)
}

func TestIdempotencyKey_reusedWithOtherBodyRejected(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	first := map[string]response{}
	for path, bodies := range bodyPairs() { // each route has its own sequence of numbers
		first[path] = run.call(http.MethodPost, path, "w:1", run.body(bodies[0]))
		require.Equal(t, http.StatusOK, first[path].status, "%s %s", path, first[path].body)
	}
	before := h.stored()
	for path, bodies := range bodyPairs() {
		for range 2 {
			refused(t, run.call(http.MethodPost, path, "w:1", run.body(bodies[1])))
			again := run.call(http.MethodPost, path, "w:1", run.body(bodies[0]))
			require.Equal(t, http.StatusOK, again.status, "%s %s", path, again.body)
			require.JSONEq(t, string(first[path].body), string(again.body), path)
		}
	}
	require.Equal(t, before, h.stored())
	require.JSONEq(t, `{"ok":true,"inserted":2}`, string(first["metrics"].body))
	for stream, writers := range run.watermark() {
		require.Equal(t, map[string]int64{"w": 1}, writers, stream)
	}
	for path, bodies := range bodyPairs() {
		require.Equal(t, http.StatusOK, run.call(http.MethodPost, path, "w:2", run.body(bodies[1])).status, "the other body is stored under a new number")
	}
}

func TestIdempotencyKey_comparesBodyBytes(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	body := `{"run_id":"` + run.run + `","params":{"a":1,"b":2}}`
	require.Equal(t, http.StatusOK, run.call(http.MethodPost, "hparams", "w:1", body).status)
	require.Equal(t, http.StatusOK, run.call(http.MethodPost, "hparams", "w:1", strings.Clone(body)).status)
	for _, other := range []string{
		body + " ", strings.Replace(body, ":1", ":1.0", 1), strings.Replace(body, `"a"`, `"\u0061"`, 1),
		`{"params":{"a":1,"b":2},"run_id":"` + run.run + `"}`,
	} {
		refused(t, run.call(http.MethodPost, "hparams", "w:1", other))
	}
}

func TestIdempotencyKey_rejectedOnBothSidesOfWatermark(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	post := func(seq int, text string) response {
		return run.call(http.MethodPost, "logs", fmt.Sprintf("w:%d", seq), run.body(fmt.Sprintf(`"chunks":["%s\n"]`, text)))
	}
	for _, step := range []struct{ seq, mark int }{{3, 0}, {1, 1}, {2, 3}, {4, 4}} {
		require.Equal(t, http.StatusOK, post(step.seq, fmt.Sprint(step.seq)).status)
		for _, seq := range []int{3, step.seq} {
			refused(t, post(seq, "x"))
			require.Equal(t, http.StatusOK, post(seq, fmt.Sprint(seq)).status)
		}
		require.EqualValues(t, step.mark, run.watermark()["logs"]["w"], "after %d", step.seq)
	}
	require.Equal(t, []string{"1 3", "1 1", "1 2", "1 4"}, run.lines())
	require.Equal(t, 4, count(t, h, "request_digest"))
}

func TestIdempotencyKey_perRunAndWriter(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	for i, run := range []*training{r.train(), r.train()} {
		for j, writer := range []string{"w", "v", "w:1"} {
			run.post("logs", writer+":1", fmt.Sprintf(`"chunks":["%d %d\n"]`, i, j))
		}
		require.Len(t, run.lines(), 3)
	}
}

func TestIdempotencyKey_concurrentBodiesStoreOne(t *testing.T) {
	t.Parallel()
	h := open(t)
	replicas := []*replica{h.replica(ingest.Config{}), h.replica(ingest.Config{})}
	run := replicas[0].train()
	bodies := map[string]func(n int) string{
		"metrics":   func(n int) string { return points(point("loss", 1, n)) },
		"hparams":   func(n int) string { return fmt.Sprintf(`"params":{"n":%d}`, n) },
		"logs":      func(n int) string { return fmt.Sprintf(`"chunks":["%d\n"]`, n) },
		"benchmark": func(n int) string { return fmt.Sprintf(`"name":"n","metric":"m","value":%d`, n) },
		"lifecycle": func(n int) string { return fmt.Sprintf(`"event":"running","ts":%s,"message":"%d"`, ts, n) },
	}
	const rounds, each, copies = 6, 5, 2
	for path, body := range bodies {
		for round := 1; round <= rounds; round++ {
			var mu sync.Mutex
			taken := map[int]int{}
			parallel(each*copies, func(i int) {
				mine := *run
				mine.r = replicas[i%2]
				a := mine.call(http.MethodPost, path, fmt.Sprintf("w:%d", round), run.body(body(i%each)))
				mu.Lock()
				defer mu.Unlock()
				switch a.status {
				case http.StatusOK:
					taken[i%each]++
				case http.StatusConflict:
				default:
					t.Errorf("%s: %d %s", path, a.status, a.body)
				}
			})
			require.Len(t, taken, 1, "exactly one body of %s is stored", path)
			for n, times := range taken {
				require.Equal(t, copies, times, "both senders of body %d of %s get 200", n, path)
			}
		}
		require.EqualValues(t, rounds, run.watermark()[path]["w"])
	}
	require.Equal(t, rounds, count(t, h, "metric_batch"))
	require.Len(t, run.lines(), rounds)
	require.Equal(t, rounds, count(t, h, "benchmark_score"))
	require.Equal(t, len(bodies)*rounds, count(t, h, "request_digest"))
	// Both copies of a request may send their event to the jobs service, but different events never get the same number.
	h.jobs.mu.Lock()
	defer h.jobs.mu.Unlock()
	received := slices.Compact(slices.Clone(h.jobs.reported))
	require.LessOrEqual(t, len(received), rounds)
}

func TestIdempotencyKey_withoutDigestIsRepeat(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	for path, bodies := range bodyPairs() {
		require.Equal(t, http.StatusOK, run.call(http.MethodPost, path, "w:1", run.body(bodies[0])).status, path)
		require.Equal(t, http.StatusOK, run.call(http.MethodPost, path, "w:3", run.body(bodies[0])).status, path)
	}
	_, err := h.db.Pool(ingest.Name).Exec(t.Context(), `DELETE FROM request_digest`)
	require.NoError(t, err)
	before := h.stored()
	for path, bodies := range bodyPairs() {
		if path == "artifact" {
			continue // the response contains the registered artifact, but the artifact in the other body was never registered
		}
		for _, key := range []string{"w:1", "w:3"} {
			for _, body := range bodies {
				a := run.call(http.MethodPost, path, key, run.body(body))
				require.Equal(t, http.StatusOK, a.status, "%s %s", path, a.body)
			}
		}
	}
	require.Equal(t, before, h.stored())
}

func TestIdempotencyKey_freeAfterFailedRequest(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	run.post("validation", "", `"step":1,"samples":[],"chunk_index":0,"total_chunks":3`)
	a := run.call(http.MethodPost, "validation", "w:1", run.body(`"step":1,"samples":[],"chunk_index":0,"total_chunks":2`))
	require.Equal(t, "total_chunks", a.json(t)["code"])
	problems(t, run.call(http.MethodPost, "validation", "w:1", run.body(`"step":1`)))
	run.post("validation", "w:1", `"step":1,"samples":[],"chunk_index":1,"total_chunks":3`)
}

func TestIdempotencyKey_heldWhenJobsFails(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	fail := func(err error) {
		h.jobs.mu.Lock()
		defer h.jobs.mu.Unlock()
		h.jobs.lifecycle = err
	}
	event := func(name string) response {
		return run.call(http.MethodPost, "lifecycle", "w:1", run.body(`"event":"`+name+`","ts":`+ts))
	}
	fail(fault.New(fault.Unavailable, "", "jobs is unavailable"))
	require.Equal(t, http.StatusServiceUnavailable, event("running").status)
	require.Empty(t, run.watermark()["lifecycle"], "an event that the jobs service did not receive is not stored")
	fail(nil)
	refused(t, event("failed"))
	require.Equal(t, http.StatusOK, event("running").status, "the same event can be retried")
	require.Equal(t, http.StatusOK, event("running").status)
	require.Equal(t, []string{"running:"}, h.jobs.reported, "a stored event is not forwarded again")
}

func TestIdempotencyKey_digestSurvivesRestart(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	run.post("metrics", "w:1", points(point("a", 1, 1)))
	run.r.stop()
	run.r = h.replica(ingest.Config{})
	refused(t, run.call(http.MethodPost, "metrics", "w:1", run.body(points(point("a", 1, 2)))))
	require.InDelta(t, 1, run.post("metrics", "w:1", points(point("a", 1, 1)))["inserted"], 0)
}
