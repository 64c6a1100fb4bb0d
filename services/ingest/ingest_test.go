package ingest_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

const ts = `"2026-11-21T09:33:00.123456+00:00"`

func TestReports_readableAfterClose(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("lifecycle", "w:1", `"event":"starting","ts":`+ts)
	run.post("hparams", "w:1", `"params":{"lr":0.1,"a/b":[NaN,1]}`)
	run.post("hparams", "w:2", `"params":{"lr":0.2,"note":"\u0000"}`)
	got := run.post("metrics", "w:1", `"points":[{"key":"loss","step":1,"value":2.5,"ts":`+ts+`},{"key":"loss","step":2,"value":"NaN","ts":`+ts+`}]`)
	require.InDelta(t, 2, got["inserted"], 0)
	run.post("logs", "w:1", `"chunks":["one\ntw","o\nthr"]`)
	run.post("logs", "w:2", `"chunks":["ee\n10%\r20%\n","open"],"eof":true`)
	run.post("validation", "w:1", `"step":5,"samples":[{"user":"1+1","assistant":{"t":"2\u0000"},"reward":1}],"avg_reward":1,"accuracy":"NaN"`)
	run.post("lifecycle", "w:2", `"event":"failed","ts":`+ts+`,"message":"why"`)
	require.Equal(t, []string{"starting:", "failed:why"}, r.h.jobs.reported)

	closed, err := r.peer.CloseRun(t.Context(), &ingestpeerv1.CloseRunRequest{RunId: run.run, State: "failed"})
	require.NoError(t, err)
	require.True(t, closed.GetClosed())
	closed, err = r.peer.CloseRun(t.Context(), &ingestpeerv1.CloseRunRequest{RunId: run.run, State: "failed"})
	require.NoError(t, err)
	require.False(t, closed.GetClosed())

	for _, id := range []string{run.run, run.job} {
		logs, err := r.public.ListLogs(t.Context(), &ingestv1.ListLogsRequest{Id: id})
		require.NoError(t, err)
		var lines []string
		for i, l := range logs.GetLines() {
			require.EqualValues(t, i+1, l.GetSeq())
			lines = append(lines, l.GetText())
		}
		require.Equal(t, []string{"one", "two", "three", "20%", "open"}, lines)
	}
	series, err := r.public.ListMetrics(t.Context(), &ingestv1.ListMetricsRequest{Id: run.run})
	require.NoError(t, err)
	require.Len(t, series.GetSeries(), 1)
	require.Len(t, series.GetSeries()[0].GetPoints(), 2)
	require.True(t, math.IsNaN(series.GetSeries()[0].GetPoints()[1].GetValue()))
	params, err := r.public.GetHparams(t.Context(), &ingestv1.GetHparamsRequest{Id: run.run})
	require.NoError(t, err)
	require.JSONEq(t, `{"a/b":["NaN",1],"lr":0.2,"note":"\u0000"}`, string(params.GetParams()))
	rounds, err := r.public.ListValidations(t.Context(), &ingestv1.ListValidationsRequest{Id: run.run})
	require.NoError(t, err)
	require.Len(t, rounds.GetRounds(), 1)
	require.True(t, rounds.GetRounds()[0].GetComplete())
	samples, err := r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run})
	require.NoError(t, err)
	require.Equal(t, `{"t":"2\u0000"}`, string(samples.GetSamples()[0].GetAssistant()))
	require.Nil(t, samples.GetSamples()[0].GetEnv())
	require.Equal(t, []string{"1", "2", "3", "4", "5", "eof 5 failed"}, follow(t, r, run.run, 0))
	require.Equal(t, []string{"4", "5", "eof 5 failed"}, follow(t, r, run.job, 3))
}

// follow reads the events of a log until eof. It returns the number of each line, and the eof.
func follow(t *testing.T, r *replica, id string, after int64) []string {
	t.Helper()
	stream, err := r.public.FollowLogs(t.Context(), &ingestv1.FollowLogsRequest{Id: id, After: after})
	require.NoError(t, err)
	var events []string
	for {
		e, err := stream.Recv()
		require.NoError(t, err)
		if eof := e.GetEof(); eof != nil {
			return append(events, fmt.Sprintf("eof %d %s", eof.GetSeq(), eof.GetState()))
		}
		events = append(events, fmt.Sprint(e.GetLine().GetSeq()))
	}
}
