package ingest_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// The text planted is in every text that the tests of protected runs report. plantedKey is its spelling in hex digits.
const (
	planted    = "planted"
	plantedKey = "706c616e746564ff00"
)

// protect makes a run protected. Its recipe declares one metric, two hyperparameters and one format.
func (t *training) protect() {
	t.grant.Withhold = true
	t.grant.Disclosure = &jobspeerv1.Disclosure{
		Metrics: []string{"train/loss"}, Formats: []string{"gguf"},
		Params: []*jobspeerv1.DisclosedParam{{Key: "optim.lr"}, {Key: "optim.name", Values: []string{"adam"}}},
	}
}

// leak sends the text planted in every text of every report.
func (t *training) leak() {
	const ts = `"ts":"2026-11-21T03:00:00+00:00"`
	t.post("metrics", "w:1", `"points":[{"key":"planted","step":1,"value":1,`+ts+`},{"key":"train/loss","step":2,"value":3,`+ts+`},`+
		`{"key":"train/loss/planted","step":1,"value":1,`+ts+`}]`)
	t.post("hparams", "", `"params":{"planted":1,"optim.lr":0.25,"optim.name":"planted","other":[1]}`)
	t.post("hparams", "", `"params":{"optim.lr":0.5,"optim.name":"adam","optim.words":"planted"}`)
	t.post("validation", "", `"step":3,"avg_reward":0.5,"samples":[{"user":"planted","assistant":["planted"],"env":"planted","reward":1,"extra":{"x":"planted"}}]`)
	t.post("logs", "w:1", `"chunks":["planted row\nplän","ted"]`)
	t.post("logs", "", `"chunks":["planted without a writer"]`)
	t.post("environment", "", `"python":"planted","packages":{"planted":"planted"},"gpus":["planted"],"git":{"planted":"planted"}`)
	t.post("environment/nodes", "", `"nodes":[{"rank":0,"host":"planted","cpu":"planted"}]`)
	t.post("hardware", "", `"points":[{"node":"planted","gpu":0,"key":"util","value":9,`+ts+`},{"key":"planted","value":1,`+ts+`},`+
		`{"gpu":"planted","key":"util","value":1,`+ts+`}]`)
	t.post("benchmark", "", `"name":"planted","version":"planted","metric":"train/loss","value":4,"config_digest":"planted","samples_uri":"planted",`+
		`"evaluation":{"model":{"version":"planted"},"harness":{"planted":"planted"}},`+
		`"rollouts":[{"task":"`+plantedKey+`","rollout":0,"reward":1,"group":"planted","parts":{"planted":1}}]`)
	t.post("benchmark", "", `"name":"planted","metric":"planted","value":4`)
	t.post("artifact", "", `"kind":"eval_report","path":"/planted/planted","format":"planted"`)
	uri := t.upload("checkpoint", "out/planted.gguf", []byte("weights"))
	t.post("artifact", "", fmt.Sprintf(`"kind":"checkpoint","path":%q,"format":"gguf","step":7`, uri))
	t.post("artifact", "", fmt.Sprintf(`"kind":"merged_model","path":%q,"format":"planted"`, t.upload("merged_model", "planted.planted", []byte("w"))))
}

// readAll returns the responses of every method with which users and other services read a run's data.
func (t *training) readAll(ctx context.Context) map[string]proto.Message {
	out := map[string]proto.Message{}
	get := func(name string, m proto.Message, err error) {
		require.NoError(t.r.h.t, err, name)
		out[name] = m
	}
	p := t.r.public
	logs, err := p.ListLogs(ctx, &ingestv1.ListLogsRequest{Id: t.run})
	get("logs", logs, err)
	metrics, err := p.ListMetrics(ctx, &ingestv1.ListMetricsRequest{Id: t.run})
	get("metrics", metrics, err)
	hparams, err := p.GetHparams(ctx, &ingestv1.GetHparamsRequest{Id: t.run})
	get("hparams", hparams, err)
	changes, err := p.ListHparamChanges(ctx, &ingestv1.ListHparamChangesRequest{Id: t.run})
	get("changes", changes, err)
	environment, err := p.GetEnvironment(ctx, &ingestv1.GetEnvironmentRequest{Id: t.run})
	get("environment", environment, err)
	nodes, err := p.ListNodes(ctx, &ingestv1.ListNodesRequest{Id: t.run})
	get("nodes", nodes, err)
	hardware, err := p.ListHardware(ctx, &ingestv1.ListHardwareRequest{Id: t.run})
	get("hardware", hardware, err)
	scores, err := p.ListBenchmarks(ctx, &ingestv1.ListBenchmarksRequest{Id: t.run})
	get("scores", scores, err)
	rounds, err := p.ListValidations(ctx, &ingestv1.ListValidationsRequest{Id: t.run})
	get("rounds", rounds, err)
	samples, err := p.ListSamples(ctx, &ingestv1.ListSamplesRequest{Id: t.run})
	get("samples", samples, err)
	artifacts, err := p.ListArtifacts(ctx, &ingestv1.ListArtifactsRequest{Id: t.run})
	get("artifacts", artifacts, err)
	for _, a := range artifacts.GetArtifacts() {
		one, err := t.r.registry.GetArtifact(ctx, &ingestpeerv1.GetArtifactRequest{RunId: t.run, ArtifactId: a.GetId()})
		get("artifact "+a.GetId(), one, err)
	}
	evaluation, err := t.r.evaluations.GetAgentEvaluation(ctx, &ingestv1.GetAgentEvaluationRequest{RunId: t.run})
	get("evaluation", evaluation, err)
	items, err := t.r.evaluations.ListAgentEvaluationItems(ctx, &ingestv1.ListAgentEvaluationItemsRequest{RunId: t.run})
	get("items", items, err)
	return out
}

// leaked is a regular expression that matches the planted texts.
const leaked = planted + "|" + plantedKey + "|plän"

// wire returns the encoded message, which contains every text unchanged.
func wire(t *testing.T, m proto.Message) string {
	t.Helper()
	raw, err := proto.Marshal(m)
	require.NoError(t, err)
	return string(raw)
}

// A run without protection shows that the reports of the test below are readable if nothing withholds them.
func TestUnprotectedRun_showsReports(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.leak()
	run.close()
	for name, m := range run.readAll(t.Context()) {
		if name != "rounds" && name != "changes" {
			require.Regexp(t, leaked, wire(t, m), name)
		}
	}
}

func TestProtectedRun_storesDeclaredReportsOnly(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.protect()
	run.leak()
	run.close()
	got := run.readAll(t.Context())
	for name, m := range got {
		require.NotRegexp(t, leaked, wire(t, m), name)
	}
	text := func(name string) string { return strings.Join(strings.Fields(protojson.Format(got[name])), "") }
	require.Equal(t, []string{"1 xxxxxxxxxxx", "1 xxxxxxxxxxxxxxxxxxxxxxxx", "1 xxxxxxx"}, run.lines(), "the lengths of lines remain")
	require.Len(t, got["metrics"].(*ingestv1.ListMetricsResponse).GetSeries(), 1)
	require.JSONEq(t, `{"optim.lr":0.5,"optim.name":"adam"}`, string(got["hparams"].(*ingestv1.Hparams).GetParams()))
	require.Contains(t, text("changes"), `"optim.lr"`)
	require.Contains(t, text("hardware"), `"key":"util"`)
	scores := got["scores"].(*ingestv1.ListBenchmarksResponse).GetScores()
	require.Len(t, scores, 1)
	require.Equal(t, []string{"withheld", "train/loss"}, []string{scores[0].GetName(), scores[0].GetMetric()})
	require.Equal(t, ingestv1.EvaluationState_EVALUATION_STATE_NONE, got["evaluation"].(*ingestv1.AgentEvaluation).GetState())
	var artifacts []string
	for _, a := range got["artifacts"].(*ingestv1.ListArtifactsResponse).GetArtifacts() {
		artifacts = append(artifacts, a.GetPath()+" "+a.GetFormat())
		require.Nil(t, a.Sha256, "the digest is hidden, because the digest of a short file reveals its content")
	}
	require.Equal(t, []string{"eval_report withheld", "checkpoint-7 gguf", "merged_model withheld"}, artifacts)
}

func TestProtectedRun_withheldIsCounted(t *testing.T) {
	t.Parallel()
	h, reader := open(t), sdkmetric.NewManualReader()
	h.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	r := h.replica(ingest.Config{})
	free := r.train()
	free.leak()
	require.Empty(t, withheld(t, reader))
	run := r.train()
	run.protect()
	run.leak()
	want := map[string]int64{
		"metrics": 2, "hparams": 4, "validation": 1, "logs": 42, "environment": 1, "environment_nodes": 1, "hardware": 2,
		"benchmark": 3, "artifact": 3,
	}
	require.Equal(t, want, withheld(t, reader))
	run.post("logs", "w:1", `"chunks":["planted row\nplän","ted"]`)
	require.Equal(t, want, withheld(t, reader), "a repeated report is counted once")
}

// withheld returns the counter of what was withheld, by kind.
func withheld(t *testing.T, reader sdkmetric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	counted := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "ingest_withheld_total" {
				for _, point := range sum.DataPoints {
					kind, _ := point.Attributes.Value("kind")
					counted[kind.AsString()] = point.Value
				}
			}
		}
	}
	return counted
}

// A run that was admitted before its recipe's declarations were recorded discloses nothing.
func TestProtectedRun_withoutDisclosure(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.grant.Withhold = true
	require.EqualValues(t, 0, run.post("metrics", "", `"points":[{"key":"train/loss","step":2,"value":3,"ts":"2026-11-21T03:00:00+00:00"}]`)["inserted"])
	run.post("hparams", "", `"params":{"optim.lr":0.25}`)
	got := run.readAll(t.Context())
	require.Empty(t, got["metrics"].(*ingestv1.ListMetricsResponse).GetSeries())
	require.JSONEq(t, `{}`, string(got["hparams"].(*ingestv1.Hparams).GetParams()))
}

// tables returns all tables of the service in which a text occurs.
func (h *harness) tables(text string) (found []string) {
	h.t.Helper()
	pool := h.db.Pool(ingest.Name)
	rows, err := pool.Query(h.t.Context(), `SELECT tablename::text FROM pg_tables WHERE schemaname = 'ingest'`)
	require.NoError(h.t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(h.t, err)
	for _, name := range names {
		var n int
		require.NoError(h.t, pool.QueryRow(h.t.Context(), `SELECT count(*) FROM `+name+` r WHERE strpos(r::text, $1) > 0`, text).Scan(&n), name)
		if n > 0 {
			found = append(found, name)
		}
	}
	return found
}

func TestProtectedRun_writersWithheld(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	run := r.train()
	run.protect()
	bodies := map[string]string{
		"logs": `"chunks":["a\nopen"]`, "lifecycle": `"event":"running","ts":` + ts, "metrics": `"points":[]`, "hparams": `"params":{}`,
	}
	for path, body := range bodies {
		for range 2 {
			run.post(path, "planted:1", body)
			run.post(path, "planted:7", body)
		}
		require.Equal(t, 409, run.call(http.MethodPost, path, "planted:1", run.body(body)+" ").status, path)
		require.Equal(t, 200, run.call(http.MethodPost, path, "other:1", run.body(body)+" ").status, path)
	}
	require.Empty(t, h.tables(planted))
	require.Len(t, run.lines(), 3, "a repeat is stored once")
	require.NotContains(t, fmt.Sprint(run.watermark()), planted)
}

// The requests that a run sent before it became protected, or before an upgrade, stay known under the names of their
// writers.
func TestProtectedRun_formerWritersRenamed(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	for _, path := range []string{"logs", "lifecycle"} {
		body := map[string]string{"logs": `"chunks":["a\nop"]`, "lifecycle": `"event":"running","ts":` + ts}[path]
		run.post(path, "planted:1", body)
		run.post(path, "planted:2", body)
		run.post(path, "planted:5", body)
	}
	require.Equal(t, []string{"ahead", "log_tail", "mark", "request_digest"}, slices.Sorted(slices.Values(h.tables(planted))))
	events := len(h.jobs.reported)
	run.protect()
	run.r = h.replica(ingest.Config{}) // which has not cached the grant
	for _, n := range []string{"1", "2", "5"} {
		run.post("logs", "planted:"+n, `"chunks":["a\nop"]`)
		run.post("lifecycle", "planted:"+n, `"event":"running","ts":`+ts)
	}
	require.Equal(t, 409, run.call(http.MethodPost, "logs", "planted:1", run.body(`"chunks":[]`)).status)
	require.Len(t, h.jobs.reported, events, "the jobs service receives no event twice")
	run.post("logs", "planted:3", `"chunks":["en\n"]`)
	require.Empty(t, h.tables(planted))
	require.Equal(t, []string{"1 a", "1 opa", "1 opa", "1 opxx"}, run.lines())
	for _, marks := range run.watermark() {
		for _, n := range marks {
			require.GreaterOrEqual(t, n, int64(2))
		}
	}
}
