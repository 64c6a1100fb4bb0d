package ingest_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// nulCases returns bodies with a NUL character in a field that must not contain NUL: a name, a number, a time or an
// enum. In the fields rest and want, the word NUL stands for the character.
func nulCases() []struct{ route, rest, want string } {
	const point, validation, artifact = `"points":[{"ts":` + ts + `,"value":1,`, `"step":1,"samples":[],`, `"kind":"checkpoint",`
	return []struct{ route, rest, want string }{
		{"metrics", `"points":[{"key":"a NUL","step":1,"value":1,"ts":` + ts + `}]`, "body.points.0.key value_error"},
		{"metrics", `"points":[{"key":"a","step":1,"value":1,"ts":"NUL"}]`, "body.points.0.ts datetime_parsing"},
		{"metrics", `"points":[{"key":"a","step":1,"value":"NUL","ts":` + ts + `}]`, "body.points.0.value float_type"},
		{"metrics", `"points":[],"NUL":1`, "body.NUL extra_forbidden"},
		{"hparams", `"params":{"a.NUL":1}`, "body.params.a.NUL value_error"},
		{"validation", validation + `"accuracy":"NUL"`, "body.accuracy float_type"},
		{"artifact", artifact + `"path":"/NUL","format":"f"`, "body.path value_error"},
		{"artifact", artifact + `"path":"/p","format":"NUL"`, "body.format value_error"},
		{"artifact", `"kind":"NUL","path":"/p","format":"f"`, "body.kind enum"},
		{"hardware", point + `"key":"NUL"}]`, "body.points.0.key value_error"},
		{"hardware", point + `"key":"k","node":"NUL"}]`, "body.points.0.node value_error"},
		{"hardware", point + `"key":"k","gpu":"NUL"}]`, "body.points.0.gpu value_error"},
		{"environment", `"python":"NUL"`, "body.python value_error"},
		{"environment", `"cuda":"NUL"`, "body.cuda value_error"},
		{"environment", `"driver":"NUL"`, "body.driver value_error"},
		{"environment", `"nccl":"NUL"`, "body.nccl value_error"},
		{"environment", `"os":"NUL"`, "body.os value_error"},
		{"environment", `"packages":{"NUL":"1"}`, "body.packages.NUL value_error"},
		{"environment", `"packages":{"numpy":"NUL"}`, "body.packages.numpy value_error"},
		{"environment/nodes", `"nodes":[{"rank":0,"host":"NUL"}]`, "body.nodes.0.host value_error"},
		{"benchmark", `"metric":"m","value":1,"name":"NUL"`, "body.name value_error"},
		{"benchmark", `"name":"n","value":1,"metric":"NUL"`, "body.metric value_error"},
		{"benchmark", `"name":"n","metric":"m","value":1,"version":"NUL"`, "body.version value_error"},
		{"benchmark", `"name":"n","metric":"m","value":1,"config_digest":"NUL"`, "body.config_digest value_error"},
		{"benchmark", `"name":"n","metric":"m","value":1,"samples_uri":"NUL"`, "body.samples_uri value_error"},
		{"lifecycle", `"event":"NUL","ts":` + ts, "body.event enum"},
		{"lifecycle", `"event":"running","ts":"NUL"`, "body.ts datetime_parsing"},
	}
}

func TestNUL_inNamesRejected(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	require.Empty(t, run.watermark(), "the run has no data yet; this request creates its row")
	before := h.stored()
	for _, c := range nulCases() {
		a := run.call(http.MethodPost, c.route, "w:1", run.body(strings.ReplaceAll(c.rest, "NUL", `\u0000`)))
		require.Equal(t, []string{strings.ReplaceAll(c.want, "NUL", "\x00")}, problems(t, a), "%s %s", c.route, c.rest)
	}
	for route := range bodyPairs() {
		a := run.call(http.MethodPost, route, "w:1", strings.Replace(run.body(`"x":1`), run.run, run.run+`\u0000`, 1))
		require.Contains(t, problems(t, a), "body.run_id value_error", route)
	}
	query := url.Values{"run_id": {run.run}, "kind": {"checkpoint"}, "path": {"a\x00"}, "size_bytes": {"1"}, "sha256": {strings.Repeat("0", 64)}}
	a := run.call(http.MethodGet, "artifact/upload-url?"+query.Encode(), "", "")
	require.Equal(t, []string{"query.path value_error"}, problems(t, a))
	require.Equal(t, before, h.stored(), "rejected requests store nothing")
}

func TestUnpairedSurrogate_inNamesRejected(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	require.Empty(t, run.watermark(), "the run has no data yet; this request creates its row")
	before := h.stored()
	cases := append(nulCases(), []struct{ route, rest, want string }{
		{"hparams", `"params":{"note":"NUL"}`, "body.params.note value_error"},
		{"hparams", `"params":{"list":["a",["NUL"]]}`, "body.params.list.1.0 value_error"},
		{"benchmark", `"name":"n","evaluation":{"model":{"version":"NUL"}}`, "body.evaluation.model.version value_error"},
		{"benchmark", `"name":"n","evaluation":{"harness":{"NUL":1}}`, "body.evaluation.harness.NUL value_error"},
	}...)
	for _, surrogate := range []string{`\ud800`, `\udc80`, `\udc00\ud800`} {
		replaced := strings.Repeat("\ufffd", strings.Count(surrogate, "u"))
		for _, c := range cases {
			a := run.call(http.MethodPost, c.route, "w:1", run.body(strings.ReplaceAll(c.rest, "NUL", surrogate)))
			require.Equal(t, []string{strings.ReplaceAll(c.want, "NUL", replaced)}, problems(t, a), "%s %s %s", c.route, surrogate, c.rest)
		}
	}
	require.Equal(t, before, h.stored(), "rejected requests store nothing")
	run.post("metrics", "w:1", `"points":[{"key":"\ud83d\ude00\ufffd","step":1,"value":1,"ts":`+ts+`}]`)
}

func TestNUL_inContentKept(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	// Output, samples and error messages are content, so they may contain any character.
	nul := `\u0000\ud800`
	for route, rest := range map[string]string{
		"hparams": `"params":{"note":"\u0000"}`, "logs": `"chunks":["` + nul + `\n"]`,
		"validation":  `"step":1,"samples":[{"user":"` + nul + `","assistant":"` + nul + `","env":"` + nul + `","extra":{"` + nul + `":1}}]`,
		"environment": `"git":{"` + nul + `":"` + nul + `"},"gpus":["` + nul + `"]`, "environment/nodes": `"nodes":[{"rank":0,"host":"h","cpu":"` + nul + `","ib":["` + nul + `"]}]`,
		"lifecycle": `"event":"failed","ts":` + ts + `,"message":"` + nul + `"`,
	} {
		a := run.call(http.MethodPost, route, "w:1", run.body(rest))
		require.Equal(t, http.StatusOK, a.status, "%s: %s", route, a.body)
	}
	require.Equal(t, []string{"1 \x00\ufffd"}, run.lines())
	params, err := run.r.public.GetHparams(t.Context(), &ingestv1.GetHparamsRequest{Id: run.run})
	require.NoError(t, err)
	require.Equal(t, `{"note":"\u0000"}`, string(params.GetParams()))
	samples, err := run.r.public.ListSamples(t.Context(), &ingestv1.ListSamplesRequest{Id: run.run})
	require.NoError(t, err)
	require.Equal(t, `"`+nul+`"`, string(samples.GetSamples()[0].GetUser()))
}
