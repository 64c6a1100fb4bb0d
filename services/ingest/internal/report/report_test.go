package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// faultsOf returns the paths and types of the faults in err.
func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var f *fault.Error
	require.ErrorAs(t, err, &f)
	require.Equal(t, fault.Invalid, f.Kind)
	var out []string
	for _, field := range f.Fields {
		out = append(out, fault.Path(field.Loc)+" "+field.Type)
	}
	return out
}

// readers returns the reader of each kind of payload.
func readers() map[string]func([]byte) error {
	return map[string]func([]byte) error{
		"lifecycle":   func(b []byte) error { _, err := report.ReadLifecycle(b); return err },
		"hparams":     func(b []byte) error { _, err := report.ReadHparams(b); return err },
		"logs":        func(b []byte) error { _, err := report.ReadLogs(b); return err },
		"artifact":    func(b []byte) error { _, err := report.ReadArtifact(b); return err },
		"validation":  func(b []byte) error { _, err := report.ReadValidation(b); return err },
		"hardware":    func(b []byte) error { _, err := report.ReadHardware(b); return err },
		"environment": func(b []byte) error { _, err := report.ReadEnvironment(b); return err },
		"nodes":       func(b []byte) error { _, err := report.ReadNodes(b); return err },
		"benchmark":   func(b []byte) error { _, err := report.ReadBenchmark(b); return err },
	}
}

func TestPayloadFaults_reportPaths(t *testing.T) {
	t.Parallel()
	cases := []struct {
		kind, body string
		want       []string
	}{
		{"lifecycle", `{"run_id":"r","event":"running","ts":"2026-11-21T09:00:00Z"}`, nil},
		{"lifecycle", `{}`, []string{"body.run_id missing", "body.event missing", "body.ts missing"}},
		{"lifecycle", `{"run_id":"r","event":"done","ts":"2026-11-21T09:00:00Z"}`, []string{"body.event enum"}},
		{"lifecycle", `{"run_id":"r","event":"failed","ts":"noon"}`, []string{"body.ts datetime_parsing"}},
		{"lifecycle", `{"run_id":"","event":"failed","ts":"2026-11-21T09:00:00Z"}`, []string{"body.run_id string_too_short"}},
		{
			"lifecycle", `{"run_id":"r","event":"failed","ts":"2026-11-21T09:00:00Z","message":"` + strings.Repeat("x", 4097) + `"}`,
			[]string{"body.message string_too_long"},
		},
		{"lifecycle", `{"run_id":"r","event":"failed","ts":"2026-11-21T09:00:00Z","why":1}`, []string{"body.why extra_forbidden"}},
		{"lifecycle", `{"run_id":"r","event":"failed","ts":"2026-11-21T09:00:00Z","rank":-1}`, []string{"body.rank greater_than_equal"}},
		{"hparams", `{"run_id":"r","params":{"lr":1e-3,"deep.a":[null,{"b":1}],"none":null}}`, nil},
		{"hparams", `{"run_id":"r","params":{"optim":{"lr":1},"ok":1,"none":{}}}`, []string{"body.params.optim value_error", "body.params.none value_error"}},
		{"hparams", `{"run_id":"r","params":[]}`, []string{"body.params dict_type"}},
		{"hparams", `{"run_id":"r","params":{"a":1,"a":2}}`, []string{"body.params.a duplicate_key"}},
		{"hparams", `{"run_id":"r"}`, []string{"body.params missing"}},
		{"logs", `{"run_id":"r","chunks":["a",""],"eof":true,"rank":3}`, nil},
		{"logs", `{"run_id":"r","chunks":["a",1]}`, []string{"body.chunks[1] string_type"}},
		{"logs", `{"run_id":"r","chunks":"a"}`, []string{"body.chunks list_type"}},
		{"logs", `{"run_id":"r","chunks":[],"eof":1}`, []string{"body.eof bool_type"}},
		{"artifact", `{"run_id":"r","kind":"checkpoint","path":"p","format":"gguf","step":null}`, nil},
		{
			"artifact", `{"run_id":"r","kind":"model","path":"","format":""}`,
			[]string{"body.kind enum", "body.path string_too_short", "body.format string_too_short"},
		},
		{"artifact", `{"run_id":"r","kind":"hf_export","path":"p","format":"gguf","size_bytes":-1}`, []string{"body.size_bytes greater_than_equal"}},
		{"artifact", `{"run_id":"r","kind":"hf_export","path":"p","format":"gguf","step":1.5}`, []string{"body.step int_parsing"}},
		{"validation", `{"run_id":"r","step":1,"samples":[]}`, nil},
		{"validation", `{"run_id":"r","step":1,"samples":[],"chunk_index":0}`, []string{"body.total_chunks missing"}},
		{"validation", `{"run_id":"r","step":1,"samples":[],"chunk_index":2,"total_chunks":2}`, []string{"body.chunk_index value_error"}},
		{"validation", `{"run_id":"r","step":1,"samples":[],"total_chunks":1}`, nil},
		{"validation", `{"run_id":"r","step":1,"samples":[],"total_chunks":2}`, []string{"body.chunk_index missing"}},
		{"validation", `{"run_id":"r","step":1,"samples":[],"chunk_index":null,"total_chunks":2}`, []string{"body.chunk_index missing"}},
		{"validation", `{"run_id":"r","step":1,"samples":[],"total_chunks":0}`, []string{"body.total_chunks greater_than_equal", "body.chunk_index value_error"}},
		{
			"validation", `{"run_id":"r","step":1,"samples":[{"reward":"1"},{"extra":[]},{"who":1}]}`,
			[]string{"body.samples[0].reward float_type", "body.samples[1].extra dict_type", "body.samples[2].who extra_forbidden"},
		},
		{"hardware", `{"run_id":"r","points":[{"ts":"2026-11-21T09:00:00Z","gpu":0,"key":"util","value":1},{"ts":"2026-11-21T09:00:00Z","gpu":"a","key":"util","value":"NaN"}]}`, nil},
		{
			"hardware", `{"run_id":"r","points":[{"ts":"2026-11-21T09:00:00Z","gpu":true,"key":"","value":1},{}]}`,
			[]string{"body.points[0].gpu int_type", "body.points[0].key string_too_short", "body.points[1].ts missing", "body.points[1].key missing", "body.points[1].value missing"},
		},
		{"environment", `{"run_id":"r","python":"3.12","packages":{"torch":"2"},"gpus":[{}],"git":{"sha":"a"}}`, nil},
		{"environment", `{"run_id":"r","python":null,"packages":null,"gpus":null,"git":null}`, nil},
		{"environment", `{"run_id":"r","packages":{"torch":2},"git":"a"}`, []string{"body.packages.torch string_type", "body.git dict_type"}},
		{"nodes", `{"run_id":"r","nodes":[{"rank":0,"host":"a"},{"rank":16777216,"host":"b"}]}`, nil},
		{
			"nodes", `{"run_id":"r","nodes":[{"rank":16777217,"host":"a"},{"host":1}]}`,
			[]string{"body.nodes[0].rank less_than_equal", "body.nodes[1].host string_type", "body.nodes[1].rank missing"},
		},
		{"benchmark", `{"run_id":"r","name":"mmlu","metric":"acc","value":0.5,"version":2,"n":10,"stderr":null}`, nil},
		{"benchmark", `{"run_id":"r","name":"mmlu","metric":"acc","value":"high","n":-1}`, []string{"body.value float_type", "body.n greater_than_equal"}},
	}
	for _, c := range cases {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, faultsOf(t, readers()[c.kind]([]byte(c.body))), c.body)
		})
	}
}

func TestPayload_isObjectWithRunID(t *testing.T) {
	t.Parallel()
	for kind, read := range readers() {
		require.Contains(t, faultsOf(t, read([]byte(`{}`))), "body.run_id missing", kind)
		require.Equal(t, []string{"body dict_type"}, faultsOf(t, read([]byte(`[]`))), kind)
		require.Equal(t, []string{"body[0] json_invalid"}, faultsOf(t, read([]byte("\xff"))), kind)
		require.Equal(t, []string{"body[0] json_invalid"}, faultsOf(t, read(nil)), kind)
	}
}

func TestValidPayloads_decoded(t *testing.T) {
	t.Parallel()
	one, two, rank := int64(1), int64(2), int32(7)
	reward := -0.5
	life, err := report.ReadLifecycle([]byte(`{"run_id":"r","event":"failed","ts":"2026-11-21T10:00:00.5+01:00","message":"oom"}`))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&report.Lifecycle{RunID: "r", Event: "failed", At: time.Date(2026, 11, 21, 9, 0, 0, 5e8, time.UTC), Message: "oom"}, life))
	params, err := report.ReadHparams([]byte(`{"run_id":"r","params":{"b": 1e-3, "a": [{"x": 1}, null]}}`))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]report.Param{{Key: "b", Value: []byte("1e-3")}, {Key: "a", Value: []byte(`[{"x": 1}, null]`)}}, params.Params))
	logs, err := report.ReadLogs([]byte(`{"rank":7,"chunks":["a\n","b"],"run_id":"r"}`))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&report.Logs{RunID: "r", Rank: &rank, Chunks: []string{"a\n", "b"}}, logs))
	made, err := report.ReadArtifact([]byte(`{"run_id":"r","kind":"hf_export","path":"/m","format":"safetensors","step":1,"size_bytes":2}`))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&report.Artifact{RunID: "r", Kind: "hf_export", Path: "/m", Format: "safetensors", Step: &one, Size: &two}, made))
	round, err := report.ReadValidation([]byte(`{"run_id":"r","step":9,"chunk_index":1,"total_chunks":3,"accuracy":0.25,
		"samples":[{"user":"q","assistant":["a"],"env":null,"reward":-0.5,"extra":{"k":1}},{}]}`))
	require.NoError(t, err)
	require.Equal(t, []int32{1, 3}, []int32{round.Chunk, round.Total})
	require.Nil(t, round.AvgReward)
	require.InDelta(t, 0.25, *round.Accuracy, 0)
	require.Empty(t, cmp.Diff([]report.Sample{
		{User: []byte(`"q"`), Assistant: []byte(`["a"]`), Extra: []byte(`{"k":1}`), Reward: &reward}, {},
	}, round.Samples))
	alone, err := report.ReadValidation([]byte(`{"run_id":"r","step":9,"samples":[]}`))
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1}, []int32{alone.Chunk, alone.Total}, "a round without total_chunks is one chunk")
}

func TestRecords_keptVerbatim(t *testing.T) {
	t.Parallel()
	nodes, err := report.ReadNodes([]byte(`{"run_id":"r","nodes":[{"rank": 1,"host":"b"}, {"host":"a","rank":0}]}`))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]report.Item{
		{Key: "1", Body: []byte(`{"rank": 1,"host":"b"}`)}, {Key: "0", Body: []byte(`{"host":"a","rank":0}`)},
	}, nodes.Items))
	points, err := report.ReadHardware([]byte(`{"run_id":"r","points":[{"ts":"2026-11-21T10:00:00+01:00","node":"n","gpu":3,"key":"k","value":1},
		{"ts":"2026-11-21T09:00:00Z","gpu":"GPU-a","key":"k","value":2}]}`))
	require.NoError(t, err)
	nine := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	require.Empty(t, cmp.Diff([]report.HardwarePoint{
		{Node: "n", GPU: "3", Key: "k", At: nine, Value: 1}, {GPU: "GPU-a", Key: "k", At: nine, Value: 2},
	}, points.Points))
	whole := `{"os":"linux","run_id":"r"}`
	env, err := report.ReadEnvironment([]byte(" " + whole + "\n"))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&report.Records{RunID: "r", Items: []report.Item{{Key: "environment", Body: []byte(whole)}}}, env))
	score, err := report.ReadBenchmark([]byte(`{"run_id":"r","name":"n","metric":"m","value":1,"version":7}`))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&report.Benchmark{RunID: "r", Name: "n", Version: "7", Score: &report.Score{Metric: "m", Value: 1}}, score))
}
