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

// resumed mints a token for attempt n, which the platform started with the checkpoint of a step.
func (t *training) resumed(n int32, step int64) {
	t.attempt(n)
	t.grant.ResumeStep = &step
}

// steps returns the steps of a key that a request for metrics returns, each with the attempt of its point.
func (t *training) steps(key string, attempt *string) (seen []string) {
	t.r.h.t.Helper()
	out, err := t.r.public.ListMetrics(t.r.h.t.Context(), &ingestv1.ListMetricsRequest{Id: t.run, Keys: []string{key}, Attempt: attempt})
	require.NoError(t.r.h.t, err)
	for _, s := range out.GetSeries() {
		for _, p := range s.GetPoints() {
			seen = append(seen, fmt.Sprintf("%d/%d", p.GetStep(), p.GetAttempt()))
		}
	}
	return seen
}

// report reports a key at steps.
func (t *training) report(key string, steps ...int) {
	t.r.h.t.Helper()
	var list []string
	for _, step := range steps {
		list = append(list, point(key, step, step))
	}
	t.post("metrics", "", points(list...))
}

// A newer attempt hides what older attempts reported beyond its checkpoint, of every key, and nothing before it.
func TestAttempt_resumesAtCheckpoint(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.report("sanity", 0, 5, 10)
	run.report("loss", 6, 8, 12)
	run.resumed(2, 10)
	require.Equal(t, []string{"6/1", "8/1", "12/1"}, run.steps("loss", nil), "an attempt that has reported nothing hides nothing")
	run.report("other", 0)
	require.Equal(t, []string{"0/1", "5/1", "10/1"}, run.steps("sanity", nil), "a step before the checkpoint hides nothing of other keys")
	require.Equal(t, []string{"6/1", "8/1"}, run.steps("loss", nil), "the attempt has not reported this key")
	run.report("sanity", 11, 5)
	require.Equal(t, []string{"0/1", "5/2", "10/1", "11/2"}, run.steps("sanity", nil), "up to the checkpoint the newer point of a step counts")
	require.Equal(t, []string{"6/1", "8/1", "12/1"}, run.steps("loss", new("1")))
	require.Equal(t, []string{"0/1", "5/1", "10/1", "5/2", "11/2"}, run.steps("sanity", new("all")))
}

// Without a checkpoint, an attempt resumes before the lowest step that it has reported under any key.
func TestAttempt_resumesBeforeItsLowestStep(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.report("eval/acc", 2, 6, 10)
	run.attempt(2)
	run.report("loss", 9, 7)
	require.Equal(t, []string{"2/1", "6/1"}, run.steps("eval/acc", nil))
	run.post("validation", "", `"step":6,"samples":[]`)
	require.Equal(t, []string{"2/1"}, run.steps("eval/acc", nil), "a validation round is a step too")
	run.resumed(3, 1)
	run.post("logs", "", `"chunks":["x\n"]`)
	run.post("hparams", "", `"params":{"lr":1}`)
	require.Equal(t, []string{"2/1"}, run.steps("eval/acc", nil), "a report without a step hides nothing")
	run.report("loss", 4)
	require.Empty(t, run.steps("eval/acc", nil))
	require.Equal(t, []string{"4/3"}, run.steps("loss", nil))
}

// Summaries, charts, comparisons, exports and the copies for lists of runs show the same points.
func TestAttempt_sameInAllReaders(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.report("acc", 0, 6, 10)
	before, err := r.peer.SummarizeRun(t.Context(), &ingestpeerv1.SummarizeRunRequest{RunId: run.run})
	require.NoError(t, err)
	run.resumed(2, 6)
	run.post("validation", "", `"step":7,"samples":[]`)
	after, err := r.peer.SummarizeRun(t.Context(), &ingestpeerv1.SummarizeRunRequest{RunId: run.run, Position: before.GetPosition()})
	require.NoError(t, err)
	require.Len(t, after.GetMetrics(), 1, "a round of a newer attempt changes the summary")
	require.InDelta(t, 6, after.GetMetrics()[0].GetLast(), 0)
	summary, err := r.public.ListMetricSummaries(t.Context(), &ingestv1.ListMetricSummariesRequest{Id: run.run})
	require.NoError(t, err)
	require.EqualValues(t, []int64{2, 6}, []int64{summary.GetSummaries()[0].GetCount(), summary.GetSummaries()[0].GetLatest().GetStep()})
	summary, err = r.public.ListMetricSummaries(t.Context(), &ingestv1.ListMetricSummariesRequest{Id: run.run, Attempt: new("all")})
	require.NoError(t, err)
	require.Len(t, summary.GetSummaries(), 1, "an attempt without points has no summary")
	require.EqualValues(t, []int64{3, 1}, []int64{summary.GetSummaries()[0].GetCount(), int64(summary.GetSummaries()[0].GetAttempt())})
	chart, err := r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run, Points: new(int32(5))})
	require.NoError(t, err)
	require.EqualValues(t, 2, chart.GetSeries()[0].GetCount())
	chart, err = r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run, Points: new(int32(5)), Attempt: new("1")})
	require.NoError(t, err)
	require.EqualValues(t, []int64{3, 1}, []int64{chart.GetSeries()[0].GetCount(), int64(chart.GetSeries()[0].GetAttempt())})
}

func TestAttempt_samplesOfHiddenRounds(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	round := func(step int) {
		run.post("validation", "", fmt.Sprintf(`"step":%d,"samples":[{"user":%d}]`, step, step))
	}
	round(5)
	round(10)
	run.resumed(2, 6)
	samples := func(attempt *string) (seen []string) {
		out, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run, FromStep: new(int64(0)), Attempt: attempt})
		require.NoError(t, err)
		for _, s := range out.GetSamples() {
			seen = append(seen, fmt.Sprintf("%d/%d", s.GetStep(), s.GetAttempt()))
		}
		return seen
	}
	rounds := func(attempt *string) int {
		out, err := r.public.ListValidations(t.Context(), &ingestv1.ListValidationsRequest{Id: run.run, Attempt: attempt})
		require.NoError(t, err)
		return len(out.GetRounds())
	}
	require.Equal(t, []string{"5/1", "10/1"}, samples(nil))
	run.report("loss", 7)
	require.Equal(t, []string{"5/1"}, samples(nil), "the newer attempt has reported no round, but is past its checkpoint")
	require.Equal(t, 1, rounds(nil))
	round(5)
	require.Equal(t, []string{"5/2"}, samples(nil))
	require.Equal(t, []string{"5/1", "5/2", "10/1"}, samples(new("all")))
	require.Equal(t, []string{"5/1", "10/1"}, samples(new("1")))
	require.Equal(t, []int{1, 3, 2}, []int{rounds(nil), rounds(new("all")), rounds(new("1"))})
}

// A round with a lower step hides points, but does not change the position. The last summary of a run has the metrics
// nevertheless, so that the copy for lists of runs ends as readers see them.
func TestSummarizeRun_closedHasMetricsOfSamePosition(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.report("acc", 5)
	run.attempt(2)
	run.report("acc", 10)
	before, err := r.peer.SummarizeRun(t.Context(), &ingestpeerv1.SummarizeRunRequest{RunId: run.run})
	require.NoError(t, err)
	require.InDelta(t, 5, before.GetMetrics()[0].GetMin(), 0)
	run.post("validation", "", `"step":0,"samples":[]`)
	run.close()
	after, err := r.peer.SummarizeRun(t.Context(), &ingestpeerv1.SummarizeRunRequest{RunId: run.run, Position: before.GetPosition()})
	require.NoError(t, err)
	require.Equal(t, before.GetPosition(), after.GetPosition())
	require.Len(t, after.GetMetrics(), 1)
	require.InDelta(t, 10, after.GetMetrics()[0].GetMin(), 0)
}

func TestAttempt_exportsHiddenPoints(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.report("loss", 1, 9)
	run.resumed(2, 4)
	run.report("loss", 5)
	for query, want := range map[string][]string{
		"": {"1", "5"}, "?attempt=1": {"1", "9"}, "?attempt=all": {"1", "9", "5"}, "?attempt=3": nil,
	} {
		a := r.serve(run.requestAs("usr_owner", run.run+"/metrics/export"+query))
		require.Equal(t, http.StatusOK, a.status, query)
		var steps []string
		for line := range strings.Lines(string(a.body)) {
			if step := strings.Split(line, ",")[1]; step != "step" {
				steps = append(steps, step)
			}
		}
		require.Equal(t, want, steps, query)
	}
	for _, bad := range []string{"0", "-1", "x", "1.5", "99999999999"} {
		require.Equal(t, http.StatusUnprocessableEntity, r.serve(run.requestAs("usr_owner", run.run+"/metrics/export?attempt="+bad)).status, bad)
	}
}
