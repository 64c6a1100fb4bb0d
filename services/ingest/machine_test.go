package ingest_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// sampled returns a hardware point at the given number of seconds after 09:00. The node, the GPU and the value are raw
// JSON.
func sampled(at int, node, gpu, key string, value any) string {
	moment := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC).Add(time.Duration(at) * time.Second).Format(time.RFC3339)
	return fmt.Sprintf(`{"ts":%q,"node":%s,"gpu":%s,"key":%q,"value":%v}`, moment, node, gpu, key, value)
}

// hardware returns the run's series in the format "node/gpu/key: values".
func (t *training) hardware(in *ingestv1.ListHardwareRequest) []string {
	t.r.h.t.Helper()
	in.Id = t.job
	out, err := t.r.public.ListHardware(t.r.h.t.Context(), in)
	require.NoError(t.r.h.t, err)
	var all []string
	for _, s := range out.GetSeries() {
		values := make([]string, len(s.GetPoints()))
		for i, p := range s.GetPoints() {
			values[i] = fmt.Sprint(p.GetValue())
			require.True(t.r.h.t, i == 0 || !p.GetTs().AsTime().Before(s.GetPoints()[i-1].GetTs().AsTime()), "points are ordered by time")
		}
		node, gpu := "-", "-"
		if s.Node != nil {
			node = s.GetNode()
		}
		if s.Gpu != nil {
			gpu = s.GetGpu()
		}
		all = append(all, fmt.Sprintf("%s/%s/%s: %s", node, gpu, s.GetKey(), strings.Join(values, " ")))
	}
	return all
}

func TestListHardware_bySeries(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	run.post("hardware", "w:2", points(sampled(20, `"a"`, `0`, "util", 3), sampled(20, `null`, `null`, "cpu", 9)))
	run.post("hardware", "w:1", points(sampled(10, `"a"`, `0`, "util", 1), sampled(15, `"a"`, `"0"`, "util", 2), sampled(10, `"a"`, `1`, "util", `"NaN"`)))
	run.attempt(2)
	run.post("hardware", "v:1", points(sampled(30, `"b"`, `"GPU-x"`, "mem", 7)))
	run.post("hardware", "v:2", points())
	require.Equal(t, []string{"-/-/cpu: 9", "a/0/util: 1 2 3", "a/1/util: NaN", "b/GPU-x/mem: 7"}, run.hardware(&ingestv1.ListHardwareRequest{}))
	require.Equal(t, []string{"b/GPU-x/mem: 7"}, run.hardware(&ingestv1.ListHardwareRequest{Keys: []string{"mem", "none"}}))
	require.Equal(t, []string{"a/0/util: 1 2 3", "a/1/util: NaN"}, run.hardware(&ingestv1.ListHardwareRequest{Node: new("a")}))
	require.Equal(t, []string{"a/1/util: NaN"}, run.hardware(&ingestv1.ListHardwareRequest{Limit: new(int32(1)), Offset: new(int32(2))}))
	at := func(s int) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2026, 11, 21, 9, 0, s, 0, time.UTC))
	}
	require.Equal(t, []string{"-/-/cpu: ", "a/0/util: 2", "a/1/util: ", "b/GPU-x/mem: "},
		run.hardware(&ingestv1.ListHardwareRequest{Since: at(15), Until: at(20)}), "until is exclusive")
}

func TestListHardware_downsamplingKeepsExtremes(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	const each, requests = 400, 4
	for r := range requests {
		var list []string
		for i := range each {
			value := 1
			if r == 2 && i == 17 {
				value = 1000
			}
			list = append(list, sampled(r*each+i, `"a"`, `0`, "util", value))
		}
		run.post("hardware", "", points(list...))
	}
	few := int32(10)
	out, err := run.r.public.ListHardware(t.Context(), &ingestv1.ListHardwareRequest{Id: run.run, Points: &few})
	require.NoError(t, err)
	kept := out.GetSeries()[0].GetPoints()
	require.LessOrEqual(t, len(kept), 10)
	greatest := 0.0
	for _, p := range kept {
		greatest = math.Max(greatest, p.GetValue())
	}
	require.InDelta(t, 1000, greatest, 0, "the spike is kept")
	out, err = run.r.public.ListHardware(t.Context(), &ingestv1.ListHardwareRequest{Id: run.run})
	require.NoError(t, err)
	require.LessOrEqual(t, len(out.GetSeries()[0].GetPoints()), 1000)
}

func TestHardwareSeries_limitPerRun(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	many := func(from, n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = sampled(0, `"a"`, `0`, fmt.Sprint("k", from+i), 1)
		}
		return points(list...)
	}
	run.post("hardware", "", many(0, 9_999))
	run.post("hardware", "", many(9_999, 1))
	a := run.call(http.MethodPost, "hardware", "", run.body(many(10_000, 1)))
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Equal(t, "hardware: a run has at most 10000 series", a.json(t)["detail"])
	run.post("hardware", "", many(0, 1))
	require.Equal(t, 10_000, count(t, run.r.h, "hardware_series"))
}

func TestGetEnvironment_newestAttemptVerbatim(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	read := func(attempt *int32) *ingestv1.Environment {
		e, err := run.r.public.GetEnvironment(t.Context(), &ingestv1.GetEnvironmentRequest{Id: run.job, Attempt: attempt})
		require.NoError(t, err)
		require.Equal(t, run.run, e.GetRunId())
		return e
	}
	none := read(nil)
	require.Nil(t, none.Attempt)
	require.Nil(t, none.GetReportedAt())
	require.Empty(t, none.GetPackages())
	run.post("environment", "w:1", `"python":"3.11","cuda":"12.4","driver":"550","nccl":"2.21","os":"Linux","packages":{"torch":"2.5"},
		"gpus":[{"model":"H200","bytes":150754820096}],"git":{"commit":"abc","dirty":true},"rank":0`)
	run.post("environment", "w:2", `"python":"3.12"`)
	run.attempt(2)
	run.post("environment", "v:1", `"os":null,"packages":{"torch":"2.6"},"gpus":[{"bytes":12345678901234567890}]`)
	first, second := read(new(int32(1))), read(nil)
	require.Equal(t, []string{"3.12", ""}, []string{first.GetPython(), first.GetCuda()}, "the last report replaces the earlier one as a whole")
	require.EqualValues(t, 2, second.GetAttempt())
	require.Nil(t, second.Os)
	require.Nil(t, second.Python)
	require.Equal(t, []string{`{"torch":"2.6"}`, `[{"bytes":12345678901234567890}]`, ``},
		[]string{string(second.GetPackages()), string(second.GetGpus()), string(second.GetGit())})
	require.Nil(t, read(new(int32(3))).Attempt)
}

func TestListNodes_newestAttempt(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	read := func(limit, offset int32) []string {
		out, err := run.r.public.ListNodes(t.Context(), &ingestv1.ListNodesRequest{Id: run.run, Limit: &limit, Offset: &offset})
		require.NoError(t, err)
		var all []string
		for _, n := range out.GetNodes() {
			all = append(all, fmt.Sprintf("%d %s %s %s %v", n.GetRank(), n.GetHost(), n.GetGpus(), n.GetCpu(), n.MemGb != nil))
		}
		return all
	}
	require.Empty(t, read(50, 0))
	run.post("environment/nodes", "a:1", `"nodes":[{"rank":10,"host":"k","gpus":["H200"],"cpu":{"cores":16},"mem_gb":64}]`)
	run.post("environment/nodes", "b:1", `"nodes":[{"rank":2,"host":"c"},{"rank":0,"host":"a","cpu":"EPYC"}]`)
	run.post("environment/nodes", "b:2", `"nodes":[{"rank":2,"host":"d","ib":["mlx5_0"]}]`)
	require.Equal(t, []string{`0 a  "EPYC" false`, `2 d   false`, `10 k ["H200"] {"cores":16} true`}, read(50, 0), "nodes are ordered by rank")
	require.Equal(t, []string{`2 d   false`}, read(1, 1))
	run.attempt(2)
	require.Len(t, read(50, 0), 3, "the old nodes are listed until the new attempt reports its own")
	run.post("environment/nodes", "c:1", `"nodes":[{"rank":0,"host":"z"}]`)
	require.Equal(t, []string{`0 z   false`}, read(50, 0))
	require.Equal(t, []string{"body.nodes.1.rank value_error"},
		problems(t, run.call(http.MethodPost, "environment/nodes", "", run.body(`"nodes":[{"rank":1,"host":"a"},{"rank":1,"host":"b"}]`))))
}

func TestListBenchmarks_keepsEveryScore(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	run.post("benchmark", "w:1", `"name":"mmlu","version":3,"metric":"acc","value":0.5,"n":100,"stderr":0.05,"config_digest":"sha256:x","samples_uri":"s3://b/k"`)
	run.post("benchmark", "w:2", `"name":"mmlu","version":"3","metric":"acc","value":"-Infinity"`)
	run.post("benchmark", "w:2", `"name":"mmlu","version":"3","metric":"acc","value":"-Infinity"`)
	out, err := run.r.public.ListBenchmarks(t.Context(), &ingestv1.ListBenchmarksRequest{Id: run.job})
	require.NoError(t, err)
	require.Len(t, out.GetScores(), 2, "a repeated request stores one score")
	one, two := out.GetScores()[0], out.GetScores()[1]
	require.Equal(t, []any{"mmlu", "3", "acc", 0.5, int64(100), 0.05, "sha256:x", "s3://b/k", int32(1)}, []any{
		one.GetName(), one.GetVersion(), one.GetMetric(), one.GetValue(), one.GetN(), one.GetStderr(), one.GetConfigDigest(), one.GetSamplesUri(), one.GetAttempt(),
	})
	require.True(t, math.IsInf(two.GetValue(), -1))
	require.Nil(t, two.N)
	out, err = run.r.public.ListBenchmarks(t.Context(), &ingestv1.ListBenchmarksRequest{Id: run.run, Limit: new(int32(1)), Offset: new(int32(1))})
	require.NoError(t, err)
	require.Equal(t, two.GetId(), out.GetScores()[0].GetId())
}

func TestListHparamChanges_keepsReplacedValues(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	run.post("hparams", "w:1", `"params":{"lr":0.1,"layers":[1,2],"seed":12345678901234567890}`)
	run.post("hparams", "w:2", `"params":{"lr":0.2,"layers":[1,2],"new":true}`)
	run.attempt(2)
	run.post("hparams", "v:1", `"params":{"lr":0.30}`)
	out, err := run.r.public.ListHparamChanges(t.Context(), &ingestv1.ListHparamChangesRequest{Id: run.run})
	require.NoError(t, err)
	var all []string
	for _, c := range out.GetChanges() {
		all = append(all, fmt.Sprintf("%s %s %d", c.GetKey(), c.GetValue(), c.GetAttempt()))
		require.False(t, c.GetReplacedAt().AsTime().Before(c.GetReportedAt().AsTime()))
	}
	require.Equal(t, []string{"lr 0.2 1", "lr 0.1 1"}, all, "reporting the same value again is not a change")
	params, err := run.r.public.GetHparams(t.Context(), &ingestv1.GetHparamsRequest{Id: run.run})
	require.NoError(t, err)
	require.JSONEq(t, `{"lr":0.30,"layers":[1,2],"seed":12345678901234567890,"new":true}`, string(params.GetParams()))
	require.Contains(t, string(params.GetParams()), "12345678901234567890", "large integers keep all digits")
}
