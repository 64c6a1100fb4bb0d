package report_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

const at = `"2026-11-21T09:00:00Z"`

// validBodies returns a valid body of each kind of payload, with every field of that kind.
func validBodies() map[string]string {
	return map[string]string{
		"lifecycle": `{"run_id":"r","rank":1,"event":"failed","ts":` + at + `,"message":"m"}`,
		"hparams":   `{"run_id":"r","rank":1,"params":{"a":1}}`,
		"logs":      `{"run_id":"r","rank":1,"chunks":["a"],"eof":false}`,
		"artifact":  `{"run_id":"r","rank":1,"kind":"checkpoint","path":"p","format":"f","step":1,"size_bytes":1}`,
		"validation": `{"run_id":"r","rank":1,"step":1,"samples":[{"user":1,"assistant":2,"env":3,"reward":4,"extra":{}}],
			"avg_reward":1,"accuracy":1,"chunk_index":0,"total_chunks":1}`,
		"hardware": `{"run_id":"r","rank":1,"points":[{"ts":` + at + `,"node":"n","gpu":0,"key":"k","value":1}]}`,
		"environment": `{"run_id":"r","rank":1,"python":"3","cuda":"1","driver":"1","nccl":"1","os":"l","packages":{"a":"1"},
			"gpus":[1],"git":{"sha":"a"}}`,
		"nodes": `{"run_id":"r","rank":1,"nodes":[{"rank":0,"host":"a","gpus":[],"ib":[],"cpu":{},"mem_gb":1}]}`,
		"benchmark": `{"run_id":"r","rank":1,"name":"n","metric":"m","value":1,"version":"1","n":1,"stderr":1,"config_digest":"d",
			"samples_uri":"u","evaluation":{},"rollouts":[]}`,
	}
}

// withField returns the body with another value in a top-level field.
func withField(t *testing.T, body, field, value string) []byte {
	t.Helper()
	var doc map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(body), &doc))
	require.Contains(t, doc, field)
	doc[field] = json.RawMessage(value)
	out, err := json.Marshal(doc)
	require.NoError(t, err)
	return out
}

func TestPayloadFieldTypes(t *testing.T) {
	t.Parallel()
	// misfit is valid only for fields that accept any JSON.
	const misfit = `[[true]]`
	lists := map[string]string{
		"logs.chunks": "body.chunks[0] string_type", "validation.samples": "body.samples[0] dict_type",
		"hardware.points": "body.points[0] dict_type", "nodes.nodes": "body.nodes[0] dict_type",
		"environment.gpus":   "", // any JSON
		"benchmark.rollouts": "body.rollouts[0] dict_type",
	}
	for kind, body := range validBodies() {
		require.Empty(t, faultsOf(t, readers()[kind]([]byte(body))), kind)
		var doc map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(body), &doc))
		for field := range doc {
			got := faultsOf(t, readers()[kind](withField(t, body, field, misfit)))
			want, list := lists[kind+"."+field]
			switch {
			case list && want == "":
				require.Empty(t, got, "%s.%s", kind, field)
			case list:
				require.Equal(t, []string{want}, got, "%s.%s", kind, field)
			default:
				require.NotEmpty(t, got, "%s.%s", kind, field)
				require.True(t, strings.HasPrefix(got[0], "body."+field+" "), "%s.%s: %s", kind, field, got[0])
			}
		}
	}
}

func TestUnknownAndDuplicateFieldsRejected(t *testing.T) {
	t.Parallel()
	for kind, body := range validBodies() {
		for _, name := range []string{"job_id", "runId", "Run_id", "attempt", "token", "RUN_ID", "__proto__", ""} {
			extra := strings.Replace(body, `{"run_id"`, fmt.Sprintf(`{%q:1,"run_id"`, name), 1)
			got := faultsOf(t, readers()[kind]([]byte(extra)))
			require.Len(t, got, 1, "%s %s", kind, name)
			require.True(t, strings.HasSuffix(got[0], " extra_forbidden"), got[0])
		}
		twice := strings.Replace(body, `{"run_id"`, `{"run_id":"other","run_id"`, 1)
		require.Equal(t, []string{"body.run_id duplicate_key"}, faultsOf(t, readers()[kind]([]byte(twice))), kind)
	}
}

// repeat returns n copies of item, separated by commas.
func repeat(n int, item string) string {
	return strings.TrimSuffix(strings.Repeat(item+",", n), ",")
}

// names returns n JSON object members with different names and the same value.
func names(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":%s,`, i, value)
	}
	return strings.TrimSuffix(b.String(), ",")
}

func TestPayloadLimits_atAndAboveBound(t *testing.T) {
	t.Parallel()
	point := `{"ts":` + at + `,"key":"k","value":1}`
	cases := []struct {
		kind, path string
		most       int
		body       func(n int) string
	}{
		{"logs", "body.chunks too_long", 100_000, func(n int) string { return `"chunks":[` + repeat(n, `""`) + `]` }},
		{"hparams", "body.params too_long", 10_000, func(n int) string { return `"params":{` + names(n, `1`) + `}` }},
		{"hparams", "", 1024, func(n int) string { return `"params":{"` + strings.Repeat("k", n) + `":1}` }},
		{"validation", "body.samples too_long", 10_000, func(n int) string { return `"step":1,"samples":[` + repeat(n, `{}`) + `]` }},
		{"validation", "body.total_chunks less_than_equal", 100_000, func(n int) string { return fmt.Sprintf(`"step":1,"samples":[],"chunk_index":0,"total_chunks":%d`, n) }},
		{"hardware", "body.points too_long", 10_000, func(n int) string { return `"points":[` + repeat(n, point) + `]` }},
		{"nodes", "body.nodes too_long", 10_000, func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, `{"rank":%d,"host":"a"},`, i)
			}
			return `"nodes":[` + strings.TrimSuffix(b.String(), ",") + `]`
		}},
		{"nodes", "body.nodes[0] too_long", 7 << 10, func(n int) string {
			head := `{"rank":0,"host":"a","cpu":"`
			return `"nodes":[` + head + strings.Repeat("c", n-len(head)-2) + `"}]`
		}},
		{"environment", "body.packages too_long", 100_000, func(n int) string { return `"packages":{` + names(n, `"1"`) + `}` }},
		{"environment", "body.gpus too_long", 1024, func(n int) string { return `"gpus":[` + repeat(n, `{}`) + `]` }},
		{"environment", "body.python string_too_long", 2048, func(n int) string { return `"python":"` + strings.Repeat("ü", n) + `"` }},
		{"artifact", "body.path string_too_long", 4096, func(n int) string { return `"kind":"checkpoint","format":"f","path":"` + strings.Repeat("p", n) + `"` }},
		{"artifact", "body.format string_too_long", 256, func(n int) string { return `"kind":"checkpoint","path":"p","format":"` + strings.Repeat("f", n) + `"` }},
		{"artifact", "body.size_bytes less_than_equal", 1 << 53, func(n int) string {
			return fmt.Sprintf(`"kind":"checkpoint","path":"p","format":"f","size_bytes":%d`, n)
		}},
		{"lifecycle", "body.message string_too_long", 4096, func(n int) string {
			return `"event":"failed","ts":` + at + `,"message":"` + strings.Repeat("é", n) + `"`
		}},
		{"benchmark", "body.name string_too_long", 256, func(n int) string { return `"metric":"m","value":1,"name":"` + strings.Repeat("n", n) + `"` }},
		{"benchmark", "body.samples_uri string_too_long", 1024, func(n int) string {
			return `"metric":"m","value":1,"name":"n","samples_uri":"` + strings.Repeat("u", n) + `"`
		}},
		{"benchmark", "body.n less_than_equal", 1 << 53, func(n int) string { return fmt.Sprintf(`"metric":"m","value":1,"name":"n","n":%d`, n) }},
		{"logs", "body.rank less_than_equal", 1 << 24, func(n int) string { return fmt.Sprintf(`"chunks":[],"rank":%d`, n) }},
	}
	for _, c := range cases {
		t.Run(c.kind+" "+c.path, func(t *testing.T) {
			t.Parallel()
			read := func(n int) []string { return faultsOf(t, readers()[c.kind]([]byte(`{"run_id":"r",`+c.body(n)+`}`))) }
			require.Empty(t, read(c.most))
			require.Empty(t, read(c.most-1))
			got := read(c.most + 1)
			require.Len(t, got, 1)
			if c.path != "" {
				require.Equal(t, c.path, got[0])
			}
		})
	}
}

func TestStepsMayBeNegative(t *testing.T) {
	t.Parallel()
	// The specification only requires an integer, and many trainers report a validation before the training with a
	// negative step.
	for _, step := range []int64{-1, -1 << 63, 0, 1<<63 - 1} {
		v, err := report.ReadValidation([]byte(fmt.Sprintf(`{"run_id":"r","samples":[],"step":%d}`, step)))
		require.NoError(t, err)
		require.Equal(t, step, v.Step)
		a, err := report.ReadArtifact([]byte(fmt.Sprintf(`{"run_id":"r","kind":"checkpoint","path":"p","format":"f","step":%d}`, step)))
		require.NoError(t, err)
		require.Equal(t, step, *a.Step)
	}
}

func TestReadHparams_flat(t *testing.T) {
	t.Parallel()
	for value, kept := range map[string]string{
		`1`: `1`, `null`: `null`, `"a"`: `"a"`, `false`: `false`, `[]`: `[]`, `[0.9, 0.95]`: `[0.9, 0.95]`, `[[{"a":1}]]`: `[[{"a":1}]]`, `NaN`: `"NaN"`, `[-Infinity]`: `["-Infinity"]`,
		`1e308`: `1e308`, `1E-999`: `1E-999`, `{}`: "", `{"a":1}`: "", `{"a":{"b":[]}}`: "",
	} {
		p, err := report.ReadHparams([]byte(`{"run_id":"r","params":{"optim.lr":` + value + `}}`))
		if kept == "" {
			require.Equal(t, []string{`body.params["optim.lr"] value_error`}, faultsOf(t, err), value)
			continue
		}
		require.NoError(t, err, value)
		require.Equal(t, []report.Param{{Key: "optim.lr", Value: []byte(kept)}}, p.Params, value)
	}
}

func TestReadHparams_numberOutOfRange(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{`1e999`, `-1E+400`, `[0.5, [1e999]]`, `1` + strings.Repeat("0", 400)} {
		_, err := report.ReadHparams([]byte(`{"run_id":"r","params":{"optim.lr":` + odd + `}}`))
		require.Len(t, faultsOf(t, err), 1, odd)
		require.Contains(t, faultsOf(t, err)[0], " finite_number", odd)
	}
	_, err := report.ReadValidation([]byte(`{"run_id":"r","step":1,"samples":[{"extra":{"odd":1e999}}]}`))
	require.NoError(t, err, "extra is not interpreted, so its numbers are not checked")
}

func TestReadLogs_ignoresEOF(t *testing.T) {
	t.Parallel()
	for _, eof := range []string{"true", "false", "null"} {
		p, err := report.ReadLogs([]byte(`{"run_id":"r","chunks":["a"],"eof":` + eof + `}`))
		require.NoError(t, err)
		require.Equal(t, &report.Logs{RunID: "r", Chunks: []string{"a"}}, p, "the field eof of a report is ignored")
	}
}

func TestNonFiniteMeasuresAccepted(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{`NaN`, `"NaN"`, `Infinity`, `"-Infinity"`} {
		for kind, field := range map[string]string{"validation": "accuracy", "benchmark": "value"} {
			require.NoError(t, readers()[kind](withRawValue(validBodies()[kind], field, odd)), "%s %s", kind, odd)
		}
		p, err := report.ReadHardware([]byte(`{"run_id":"r","points":[{"ts":` + at + `,"key":"k","value":` + odd + `}]}`))
		require.NoError(t, err)
		require.Len(t, p.Points, 1)
		require.NotEqual(t, 0.0, p.Points[0].Value-p.Points[0].Value, odd)
	}
}

// withRawValue replaces the value 1 of a field with text that encoding/json would reject.
func withRawValue(body, field, value string) []byte {
	return []byte(strings.Replace(body, `"`+field+`":1`, `"`+field+`":`+value, 1))
}

// FuzzPayloads checks that every reader accepts a body or returns an Invalid fault that lists what is wrong.
func FuzzPayloads(f *testing.F) {
	for _, body := range validBodies() {
		f.Add([]byte(body))
		f.Add([]byte(strings.ReplaceAll(body, `1`, `"1"`)))
		f.Add([]byte(strings.ReplaceAll(body, `:1`, `:NaN`)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for kind, read := range readers() {
			err := read(data)
			if err == nil {
				continue
			}
			var f *fault.Error
			require.ErrorAs(t, err, &f, kind)
			require.Equal(t, fault.Invalid, f.Kind, kind)
			require.NotEmpty(t, f.Fields, kind)
			require.LessOrEqual(t, len(f.Fields), 50, kind)
			for _, field := range f.Fields {
				require.Equal(t, "body", field.Loc[0], kind)
				require.NotEmpty(t, field.Msg+field.Type, kind)
			}
		}
	})
}
