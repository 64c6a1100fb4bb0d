package ingest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// values returns the values of a key that a request for a rank returns, each with the rank of its series.
func (t *training) values(key string, rank *int32) (seen []string) {
	t.r.h.t.Helper()
	out, err := t.r.public.ListMetrics(t.r.h.t.Context(), &ingestv1.ListMetricsRequest{Id: t.run, Keys: []string{key}, Rank: rank})
	require.NoError(t.r.h.t, err)
	for _, s := range out.GetSeries() {
		for _, p := range s.GetPoints() {
			seen = append(seen, fmt.Sprintf("%d=%v/%d", p.GetStep(), p.GetValue(), s.GetRank()))
		}
	}
	return seen
}

func TestRank_metricsOfRanksAreApart(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("metrics", "", `"rank":1,`+points(point("loss", 1, 11), point("only1", 1, 21)))
	run.post("metrics", "", points(point("loss", 1, 10)))
	run.post("metrics", "", `"rank":2,`+points(point("loss", 1, 12), point("only1", 1, 22)))
	require.Equal(t, []string{"1=10/0"}, run.values("loss", nil), "lists show rank 0")
	require.Equal(t, []string{"1=21/1"}, run.values("only1", nil), "a key that rank 0 never reported is that of the lowest rank")
	require.Equal(t, []string{"1=12/2"}, run.values("loss", new(int32(2))))
	require.Empty(t, run.values("only1", new(int32(0))))
	require.Empty(t, run.values("loss", new(int32(3))))
	for rank, want := range map[*int32]float64{nil: 10, new(int32(0)): 10, new(int32(1)): 11, new(int32(2)): 12} {
		summary, err := r.public.ListMetricSummaries(t.Context(), &ingestv1.ListMetricSummariesRequest{Id: run.run, Keys: []string{"loss"}, Rank: rank})
		require.NoError(t, err)
		require.EqualValues(t, 1, summary.GetSummaries()[0].GetCount())
		require.InDelta(t, want, summary.GetSummaries()[0].GetLatest().GetValue(), 0)
		chart, err := r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run, Keys: []string{"loss"}, Points: new(int32(5)), Rank: rank})
		require.NoError(t, err)
		require.InDelta(t, want, chart.GetSeries()[0].GetLast().GetValue(), 0)
	}
	exported := func(query string) string {
		return string(r.serve(run.requestAs("usr_owner", run.run+"/metrics/export"+query)).body)
	}
	require.Equal(t, 3, strings.Count(exported(""), "\n"), "the header, loss and only1")
	require.Contains(t, exported("?rank=2&keys=loss"), "loss,1,12,")
	require.Contains(t, exported("?rank=2"), "only1,1,22,")
	for _, bad := range []string{"-1", "x", "1.0"} {
		require.Equal(t, http.StatusUnprocessableEntity, r.serve(run.requestAs("usr_owner", run.run+"/metrics/export?rank="+bad)).status, bad)
	}
	var followed []string
	_, err := r.peer.CloseRun(t.Context(), &ingestpeerv1.CloseRunRequest{RunId: run.run, State: "succeeded"})
	require.NoError(t, err)
	stream, err := r.public.FollowMetrics(t.Context(), &ingestv1.FollowMetricsRequest{Id: run.run})
	require.NoError(t, err)
	for {
		event, err := stream.Recv()
		require.NoError(t, err)
		if event.GetEof() != nil {
			break
		}
		for _, p := range event.GetBatch().GetPoints() {
			followed = append(followed, fmt.Sprintf("%s=%v", p.GetKey(), p.GetValue()))
		}
	}
	require.Equal(t, []string{"only1=21", "loss=10"}, followed, "streams show the same points as lists")
}

// The rank is a field of the body or a header. If both are present, they must be the same.
func TestRank_headerAndField(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	send := func(header, body string) response {
		req := run.request(http.MethodPost, "metrics", "", run.body(body+points(point("loss", 1, 5))))
		if header != "" {
			req.Header.Set("X-Service-Rank", header)
		}
		return r.serve(req)
	}
	for name, c := range map[string]struct {
		header, body string
		status       int
	}{
		"header":        {"3", "", http.StatusOK},
		"field":         {"", `"rank":4,`, http.StatusOK},
		"both":          {"5", `"rank":5,`, http.StatusOK},
		"null field":    {"6", `"rank":null,`, http.StatusOK},
		"both differ":   {"7", `"rank":8,`, http.StatusUnprocessableEntity},
		"zero differs":  {"7", `"rank":0,`, http.StatusUnprocessableEntity},
		"not a number":  {"x", "", http.StatusUnprocessableEntity},
		"negative":      {"-1", "", http.StatusUnprocessableEntity},
		"padded":        {"01", "", http.StatusUnprocessableEntity},
		"out of range":  {"16777217", "", http.StatusUnprocessableEntity},
		"negative body": {"", `"rank":-1,`, http.StatusUnprocessableEntity},
	} {
		require.Equal(t, c.status, send(c.header, c.body).status, name)
	}
	for rank, want := range map[int32]int{3: 1, 4: 1, 5: 1, 6: 1, 7: 0, 8: 0, 0: 0} {
		require.Len(t, run.values("loss", &rank), want, rank)
	}
	req := run.request(http.MethodPost, "metrics", "", run.body(points(point("loss", 1, 5))))
	req.Header["X-Service-Rank"] = []string{"1", "1"}
	require.Equal(t, http.StatusUnprocessableEntity, r.serve(req).status)
}

func TestRank_validationOfRanksIsApart(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	round := func(rank, step, chunk int) {
		run.post("validation", "", fmt.Sprintf(`"rank":%d,"step":%d,"total_chunks":2,"chunk_index":%d,"avg_reward":%d,"samples":[{"user":"%d/%d","reward":1}]`,
			rank, step, chunk, rank, rank, chunk))
	}
	seen := func(rank *int32) (out []string) {
		rounds, err := r.public.ListValidations(t.Context(), &ingestv1.ListValidationsRequest{Id: run.run, Rank: rank})
		require.NoError(t, err)
		for _, v := range rounds.GetRounds() {
			out = append(out, fmt.Sprintf("%d:%v %d/%d of %d", v.GetStep(), v.GetAvgReward(), v.GetRank(), v.GetChunks(), v.GetSamples()))
		}
		samples, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run, Rank: rank})
		require.NoError(t, err)
		for _, s := range samples.GetSamples() {
			out = append(out, string(s.GetUser()))
		}
		return out
	}
	round(2, 5, 0)
	round(1, 5, 0)
	round(1, 5, 1)
	require.Equal(t, []string{"5:1 1/2 of 2", `"1/0"`, `"1/1"`}, seen(nil), "without rounds of rank 0, those of the lowest rank")
	round(0, 5, 0)
	round(0, 5, 0)
	require.Equal(t, []string{"5:0 0/1 of 1", `"0/0"`}, seen(nil))
	require.Equal(t, []string{"5:2 2/1 of 1", `"2/0"`}, seen(new(int32(2))))
	require.Empty(t, seen(new(int32(3))))
	found, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run, Rank: new(int32(1)), Text: new("1/1")})
	require.NoError(t, err)
	require.Len(t, found.GetSamples(), 1)
	a := run.call(http.MethodPost, "validation", "", run.body(`"rank":1,"step":5,"total_chunks":3,"chunk_index":0,"samples":[]`))
	require.Equal(t, http.StatusConflict, a.status)
	require.Contains(t, string(a.body), "has 2 chunks, not 3")
	run.attempt(2)
	round(1, 5, 1)
	require.Equal(t, []string{"5:1 1/1 of 1", `"1/1"`}, seen(new(int32(1))), "of a step, the round of the newer attempt")
	require.Empty(t, seen(nil), "the newer attempt resumed before step 5")
}

func TestRank_hparamsOfRanksAreApart(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("hparams", "", `"rank":2,"params":{"lr":3,"shard":2,"more":true}`)
	run.post("hparams", "", `"rank":1,"params":{"lr":2,"shard":1}`)
	run.post("hparams", "", `"params":{"lr":1}`)
	run.post("hparams", "", `"rank":1,"params":{"lr":2.5}`)
	for rank, want := range map[*int32]string{
		nil: `{"lr":1,"more":true,"shard":1}`, new(int32(0)): `{"lr":1}`, new(int32(1)): `{"lr":2.5,"shard":1}`, new(int32(7)): `{}`,
	} {
		out, err := r.public.GetHparams(t.Context(), &ingestv1.GetHparamsRequest{Id: run.run, Rank: rank})
		require.NoError(t, err)
		require.JSONEq(t, want, string(out.GetParams()))
	}
	var large strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&large, `,"p%d":%d`, i, i)
	}
	run.post("hparams", "", `"rank":3,"params":{"lr":1`+large.String()+`}`)
	a := run.call(http.MethodPost, "hparams", "", run.body(`"rank":4,"params":{"lr":1`+strings.ReplaceAll(large.String(), `"p`, `"q`)+`}`))
	require.Equal(t, http.StatusBadRequest, a.status, "readers see the parameters of all ranks together")
}

func TestRank_numbersOfWritersAreApart(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("metrics", "w:1", points(point("loss", 1, 1)))
	run.post("metrics", "w:1", `"rank":1,`+points(point("loss", 1, 2)))
	run.post("metrics", "w:1", `"rank":1,`+points(point("loss", 1, 2)))
	run.post("metrics", "w:2", `"rank":1,`+points(point("loss", 2, 2)))
	run.post("metrics", "v:1", `"rank":1,`+points(point("loss", 3, 2)))
	a := run.call(http.MethodPost, "metrics", "w:1", run.body(`"rank":1,`+points(point("loss", 1, 3))))
	require.Equal(t, http.StatusConflict, a.status)
	require.Equal(t, []string{"1=1/0"}, run.values("loss", nil))
	require.Equal(t, map[string]int64{"w": 1, "v": 1}, run.watermark()["metrics"], "of two writers with the same name, that of the lowest rank")
	req := run.request(http.MethodGet, "watermark?run_id="+run.run, "", "")
	req.Header.Set("X-Service-Rank", "1")
	require.JSONEq(t, `{"metrics":{"w":2,"v":1}}`, string(r.serve(req).body))
}

// Earlier versions stored numbered requests of all ranks under the name that the writer gave itself.
func TestRank_requestsOfEarlierVersionsStayKnown(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	run.post("logs", "w:1", `"rank":1,"chunks":["a\n"]`)
	run.post("logs", "w:3", `"rank":1,"chunks":["c\n"]`)
	for _, table := range []string{"mark", "ahead", "request_digest"} {
		_, err := h.db.Pool(ingest.Name).Exec(t.Context(), `UPDATE `+table+` SET writer = 'w'`)
		require.NoError(t, err)
	}
	run.post("logs", "w:1", `"rank":1,"chunks":["a\n"]`)
	run.post("logs", "w:3", `"rank":1,"chunks":["c\n"]`)
	require.Equal(t, []string{"1 a", "1 c"}, run.lines(), "a repeat is not stored again")
	run.post("logs", "w:1", `"rank":2,"chunks":["of another rank\n"]`)
	run.post("logs", "w:2", `"rank":1,"chunks":["b\n"]`)
	run.post("logs", "w:2", `"chunks":["of rank 0\n"]`)
	require.Equal(t, []string{"1 a", "1 c", "1 of another rank", "1 b", "1 of rank 0"}, run.lines())
}

// Only the process of rank 0 changes the state of a job. The others may report the same events at any time.
func TestRank_lifecycleOfOthersIsRecordedOnly(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run := r.train()
	event := func(rank int, event, key string) {
		run.post("lifecycle", key, fmt.Sprintf(`"rank":%d,"event":"%s","ts":"2026-11-21T03:00:00Z"`, rank, event))
	}
	event(1, "succeeded", "")
	event(1, "failed", "w:1")
	event(1, "failed", "w:1")
	event(0, "starting", "")
	h.jobs.mu.Lock()
	reported := h.jobs.reported
	h.jobs.mu.Unlock()
	require.Equal(t, []string{"starting:"}, reported)
	require.Equal(t, 2, count(t, h, "record"))
	stored := func() (bodies string) {
		require.NoError(t, h.db.Pool(ingest.Name).QueryRow(t.Context(), `SELECT coalesce(string_agg(body, ' '), '') FROM record WHERE stream = 'lifecycle'`).Scan(&bodies))
		return bodies
	}
	run.post("lifecycle", "", `"rank":3,"event":"failed","ts":"2026-11-21T03:00:00Z","message":"planted in the open"`)
	require.Contains(t, stored(), "planted in the open")
	run = r.train()
	run.protect()
	run.post("lifecycle", "", `"rank":1,"event":"failed","ts":"2026-11-21T03:00:00Z","message":"planted in a protected run"`)
	require.NotContains(t, stored(), "protected run", "the message of a protected run is not stored")
}

// The processes of a training end one after another, so those of other ranks may report their end after rank 0 has closed
// the run, or while the next attempt is already reporting.
func TestRank_lifecycleOfOthersAfterTheEnd(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run := r.train()
	event := func(of *training, rank int, event, key string) {
		of.post("lifecycle", key, fmt.Sprintf(`"rank":%d,"event":"%s","ts":"2026-11-21T03:00:00Z"`, rank, event))
	}
	first := *run
	run.attempt(2)
	run.post("metrics", "", points(point("loss", 1, 1)))
	event(&first, 1, "failed", "u:1")
	event(run, 0, "succeeded", "v:1")
	_, err := r.peer.CloseRun(t.Context(), &ingestpeerv1.CloseRunRequest{RunId: run.run, State: "succeeded"})
	require.NoError(t, err)
	event(run, 1, "succeeded", "w:1")
	event(run, 1, "succeeded", "w:1")
	event(run, 2, "failed", "")
	var items string
	require.NoError(t, h.db.Pool(ingest.Name).QueryRow(t.Context(), `SELECT string_agg(attempt || ':' || item, ' ' ORDER BY attempt, item)
		FROM record WHERE stream = 'lifecycle'`).Scan(&items))
	require.Equal(t, "1:00000001/failed 2:00000001/succeeded 2:00000002/failed", items)
	require.Equal(t, http.StatusConflict, run.call(http.MethodPost, "metrics", "", run.body(`"rank":1,`+points(point("loss", 2, 1)))).status)
}

func TestRank_environmentOfLowestRank(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	python := func() string {
		e, err := r.public.GetEnvironment(t.Context(), &ingestv1.GetEnvironmentRequest{Id: run.run})
		require.NoError(t, err)
		return e.GetPython()
	}
	run.post("environment", "", `"rank":10,"python":"ten"`)
	run.post("environment", "", `"rank":2,"python":"two"`)
	require.Equal(t, "two", python())
	run.post("environment", "", `"python":"zero"`)
	run.post("environment", "", `"rank":1,"python":"one"`)
	require.Equal(t, "zero", python())
}

func TestRank_rolloutOfLowestRankStays(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	rollout := func(rank, number int, reward float64) {
		run.post("benchmark", "", fmt.Sprintf(`"rank":%d,"name":"b","rollouts":[{"task":"0123456789abcdef","rollout":%d,"reward":%v}]`, rank, number, reward))
	}
	rollout(1, 0, 0.25)
	rollout(0, 0, 0.5)
	rollout(1, 0, 0.75)
	rollout(2, 1, 1)
	out, err := r.evaluations.ListAgentEvaluationItems(t.Context(), &ingestv1.ListAgentEvaluationItemsRequest{RunId: run.run})
	require.NoError(t, err)
	require.Len(t, out.GetItems(), 2, "the ranks divide the rollouts among themselves")
	require.InDelta(t, 0.5, out.GetItems()[0].GetReward(), 0)
}
