package ingest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// taskKey returns the opaque key of task n.
func taskKey(n int) string { return fmt.Sprintf("%032x", n) }

const taskset = `"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`

// rolloutJSON returns the JSON of a rollout with the given task and number; rest contains the other fields.
func rolloutJSON(task, number int, rest string) string {
	return fmt.Sprintf(`{"task":%q,"rollout":%d,%s}`, taskKey(task), number, rest)
}

// rollouts returns the fields of a benchmark body with the given rollouts.
func rollouts(list ...string) string {
	return `"name":"webshop","rollouts":[` + strings.Join(list, ",") + `]`
}

// evaluated fetches the run's evaluation. If baseline is not empty, the evaluation contains a comparison with that run.
func (t *training) evaluated(baseline string) (*ingestv1.AgentEvaluation, error) {
	in := &ingestv1.GetAgentEvaluationRequest{RunId: t.run}
	if baseline != "" {
		in.Baseline = &baseline
	}
	return t.r.evaluations.GetAgentEvaluation(t.r.h.t.Context(), in)
}

func (t *training) items(limit, offset int32) []*ingestv1.EvaluationItem {
	t.r.h.t.Helper()
	out, err := t.r.evaluations.ListAgentEvaluationItems(t.r.h.t.Context(),
		&ingestv1.ListAgentEvaluationItemsRequest{RunId: t.run, Limit: &limit, Offset: &offset})
	require.NoError(t.r.h.t, err)
	return out.GetItems()
}

func TestGetAgentEvaluation_none(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	run.post("benchmark", "w:1", `"name":"gsm8k","metric":"acc","value":0.5`)
	e, err := run.evaluated("")
	require.NoError(t, err)
	require.Equal(t, ingestv1.EvaluationState_EVALUATION_STATE_NONE, e.GetState())
	require.Nil(t, e.GetBenchmark())
	require.Nil(t, e.GetStartedAt())
	require.Equal(t, "/api/agent-evaluations/"+run.run+"/items", e.GetItemsUrl())
	require.Empty(t, run.items(50, 0))
}

func TestGetAgentEvaluation_computedFromRollouts(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	run.post("benchmark", "w:2", rollouts( // chunks may arrive in any order
		rolloutJSON(2, 0, `"reward":0,"group":"hard","turns":9,"stop":"max_turns","prompt_tokens":10,"cost":0.5,"parts":{"format":1}`),
		rolloutJSON(3, 0, `"error":"sandbox","masked":true,"group":"hard"`)))
	run.post("benchmark", "w:1", `"version":2,"evaluation":{"model":{"version":"mdl/a@1","digest":null},"environment":{"name":"webshop","version":"1"},
		"taskset_digest":`+taskset+`,"harness":{"name":"h","seed":12345678901234567890},"sampling":{"temperature":0.70,"chat_template_sha256":"x"},
		"tasks_total":4,"rollouts_per_task":1,"pass_reward":0.9},`+rollouts(rolloutJSON(1, 0, `"reward":0.95,"turns":3,"trace":"blob://t","tool_calls":2`)))
	run.post("benchmark", "w:3", `"name":"webshop","metric":"success","value":0.4,"stderr":0.1,"n":10`)
	run.post("benchmark", "w:4", `"name":"other","metric":"unrelated","value":1`)
	e, err := run.evaluated("")
	require.NoError(t, err)
	require.Equal(t, ingestv1.EvaluationState_EVALUATION_STATE_RUNNING, e.GetState())
	require.Equal(t, []any{"webshop", "2", "mdl/a@1", "webshop", "1"}, []any{
		e.GetBenchmark().GetName(), e.GetBenchmark().GetVersion(), e.GetModel().GetVersion(), e.GetEnvironment().GetName(), e.GetEnvironment().GetVersion(),
	})
	require.Equal(t, `{"name":"h","seed":12345678901234567890}`, string(e.GetHarness()), "numbers are returned verbatim")
	require.Equal(t, `{"temperature":0.70,"chat_template_sha256":"x"}`, string(e.GetSampling()))
	require.Equal(t, []int32{4, 2, 1, 1, 1, 2, 1}, []int32{
		e.GetTasksTotal(), e.GetTasksCompleted(), e.GetTasksErrored(), e.GetTasksMasked(), e.GetRolloutsPerTask(), e.GetRolloutsScored(), e.GetRolloutsMasked(),
	})
	require.Equal(t, map[string]float64{"1": 0.5}, e.GetPassAt())
	var names []string
	for _, m := range e.GetMetrics() {
		names = append(names, m.GetName()+" "+m.GetSource())
	}
	require.Equal(t, []string{"reward computed", "reward.format computed", "pass@1 computed", "success reported"}, names)
	require.InDelta(t, 0.475, e.GetReward().GetMean(), 1e-12, "means exclude masked tasks")
	require.InDelta(t, 0.4-1.959963984540054*0.1, e.GetMetrics()[3].GetCi95().GetLow(), 1e-12)
	require.Len(t, e.GetByGroup(), 1)
	require.Equal(t, []int64{10, 0, 2}, []int64{e.GetUsage().GetPromptTokens(), e.GetUsage().GetCompletionTokens(), e.GetUsage().GetToolCalls()})
	require.EqualValues(t, 1, e.GetLimitsHit().GetTurns())
	require.Nil(t, e.GetComparison())
	require.Nil(t, e.GetFinishedAt())
	items := run.items(50, 0)
	require.Len(t, items, 3)
	require.Equal(t, []any{taskKey(1), true, "blob://t", 0.95}, []any{items[0].GetTask(), items[0].GetPassed(), items[0].GetTrace(), items[0].GetReward()})
	require.True(t, items[2].GetMasked())
	require.Nil(t, items[2].Reward)
	require.Nil(t, items[2].Passed)
	require.Equal(t, map[string]float64{"format": 1}, items[1].GetParts())
	require.Equal(t, items[1].GetTask(), run.items(1, 1)[0].GetTask())
	require.Empty(t, run.items(1, 3))
}

func TestGetAgentEvaluation_states(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	for name, c := range map[string]struct {
		body, state string
		want        ingestv1.EvaluationState
	}{
		"complete":      {rollouts(rolloutJSON(1, 0, `"reward":1`)), "succeeded", ingestv1.EvaluationState_EVALUATION_STATE_SUCCEEDED},
		"stopped":       {rollouts(rolloutJSON(1, 0, `"reward":1`)), "stopped", ingestv1.EvaluationState_EVALUATION_STATE_PARTIAL},
		"missing tasks": {`"evaluation":{"tasks_total":2},` + rollouts(rolloutJSON(1, 0, `"reward":1`)), "succeeded", ingestv1.EvaluationState_EVALUATION_STATE_PARTIAL},
		"all masked":    {rollouts(rolloutJSON(1, 0, `"masked":true,"error":"env"`)), "succeeded", ingestv1.EvaluationState_EVALUATION_STATE_FAILED},
		"no rollouts":   {`"name":"webshop","evaluation":{}`, "failed", ingestv1.EvaluationState_EVALUATION_STATE_FAILED},
	} {
		run := r.train()
		run.post("benchmark", "w:1", c.body)
		ended := r.h.clock.Now().Truncate(time.Microsecond)
		_, err := r.peer.CloseRun(t.Context(), &ingestpeerv1.CloseRunRequest{RunId: run.run, State: c.state, EndedAt: timestamppb.New(ended)})
		require.NoError(t, err)
		e, err := run.evaluated("")
		require.NoError(t, err)
		require.Equal(t, c.want, e.GetState(), name)
		require.True(t, ended.Equal(e.GetFinishedAt().AsTime()), name)
	}
}

func TestGetAgentEvaluation_resumedAttemptKeepsScores(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	run.post("benchmark", "a:1", rollouts(rolloutJSON(1, 0, `"reward":1`), rolloutJSON(2, 0, `"masked":true,"error":"env"`)))
	run.attempt(2)
	run.post("benchmark", "b:1", rollouts(rolloutJSON(2, 0, `"reward":0`)))
	e, err := run.evaluated("")
	require.NoError(t, err)
	require.Equal(t, []int32{2, 2, 0}, []int32{e.GetTasksTotal(), e.GetTasksCompleted(), e.GetRolloutsMasked()})
	items := run.items(50, 0)
	require.Equal(t, []int32{1, 2}, []int32{items[0].GetAttempt(), items[1].GetAttempt()})
}

func TestEvaluation_oneBenchmarkPerRun(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	run.post("benchmark", "", rollouts(rolloutJSON(1, 0, `"reward":1`)))
	a := run.call(http.MethodPost, "benchmark", "", run.body(`"name":"other","metric":"m","value":1,"rollouts":[`+rolloutJSON(1, 0, `"reward":0`)+`]`))
	require.Equal(t, http.StatusConflict, a.status, string(a.body))
	require.Equal(t, "benchmark: the run already evaluates the benchmark webshop", a.json(t)["detail"])
	require.Equal(t, 0, count(t, run.r.h, "benchmark_score"), "the score of a rejected request is not stored")
	require.InDelta(t, 1, run.items(1, 0)[0].GetReward(), 0)
}

func TestInvalidRollouts_reportFieldPaths(t *testing.T) {
	t.Parallel()
	run := open(t).replica(ingest.Config{}).train()
	for body, want := range map[string][]string{
		rollouts(rolloutJSON(1, 0, `"prompt":"Buy a red shirt"`)):                  {"body.rollouts.0.prompt extra_forbidden"},
		rollouts(rolloutJSON(1, 0, `"turns":1`)):                                   {"body.rollouts.0.reward missing"},
		rollouts(rolloutJSON(1, 0, `"reward":"NaN"`)):                              {"body.rollouts.0.reward finite_number"},
		rollouts(rolloutJSON(1, 0, `"masked":true,"reward":0,"error":"env"`)):      {"body.rollouts.0.reward value_error"},
		rollouts(rolloutJSON(1, 0, `"masked":true`)):                               {"body.rollouts.0.error missing"},
		rollouts(rolloutJSON(1, 0, `"masked":true,"error":"env","passed":false`)):  {"body.rollouts.0.passed value_error"},
		rollouts(rolloutJSON(1, 0, `"reward":1`), rolloutJSON(1, 0, `"reward":1`)): {"body.rollouts.1.rollout value_error"},
		rollouts(rolloutJSON(1, 10_000, `"reward":1`)):                             {"body.rollouts.0.rollout less_than_equal"},
		rollouts(`{"task":"Buy a red shirt","rollout":0,"reward":1}`):              {"body.rollouts.0.task string_pattern_mismatch"},
		rollouts(rolloutJSON(1, 0, `"reward":1,"stop":"tired"`)):                   {"body.rollouts.0.stop enum"},
		rollouts(rolloutJSON(1, 0, `"reward":1,"group":"a group"`)):                {"body.rollouts.0.group string_pattern_mismatch"},
		rollouts(rolloutJSON(1, 0, `"reward":1,"parts":{"a b":1}`)):                {"body.rollouts.0.parts.a b string_pattern_mismatch"},
		rollouts(rolloutJSON(1, 0, `"reward":1,"cost":-1,"seconds":1e13`)):         {"body.rollouts.0.cost greater_than_equal", "body.rollouts.0.seconds greater_than_equal"},
		`"name":"n","evaluation":{"taskset_digest":"abc"}`:                         {"body.evaluation.taskset_digest string_pattern_mismatch"},
		`"name":"n","evaluation":{"harness":{"a":{"b":1}},"sampling":{"x":[1]}}`:   {"body.evaluation.harness.a value_error", "body.evaluation.sampling.x value_error"},
		`"name":"n","evaluation":{"tasks":[{"prompt":"x"}]}`:                       {"body.evaluation.tasks extra_forbidden"},
		`"name":"n","evaluation":{},"metric":"m"`:                                  {"body.value missing"},
		`"name":"n"`:               {"body.metric missing", "body.value missing"},
		`"evaluation":{}`:          {"body.name missing"},
		`"name":"n","rollouts":{}`: {"body.rollouts list_type"},
		`"name":"n","evaluation":{"rollouts_per_task":0}`:                                  {"body.evaluation.rollouts_per_task greater_than_equal"},
		`"name":"n","evaluation":{"model":{"version":"` + strings.Repeat("v", 257) + `"}}`: {"body.evaluation.model.version string_too_long"},
		rollouts(rolloutJSON(1, 0, `"reward":1,"trace":"what the task says"`)):             {"body.rollouts.0.trace string_pattern_mismatch"},
	} {
		require.Equal(t, want, problems(t, run.call(http.MethodPost, "benchmark", "", run.body(body))), body)
	}
	require.Zero(t, count(t, run.r.h, "rollout")+count(t, run.r.h, "evaluation"))
}

func TestGetAgentEvaluation_comparisonNeedsSameTaskset(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	head := `"evaluation":{"taskset_digest":` + taskset + `},`
	base, run, other := r.train(), r.train(), r.train()
	base.post("benchmark", "", head+rollouts(rolloutJSON(1, 0, `"reward":0`), rolloutJSON(2, 0, `"reward":1`), rolloutJSON(3, 0, `"reward":0.5`)))
	run.post("benchmark", "", head+rollouts(rolloutJSON(1, 0, `"reward":1`), rolloutJSON(2, 0, `"reward":1`), rolloutJSON(4, 0, `"reward":0.5`)))
	other.post("benchmark", "", rollouts(rolloutJSON(1, 0, `"reward":0`)))
	e, err := run.evaluated(base.run)
	require.NoError(t, err)
	c := e.GetComparison()
	require.Equal(t, []int32{2, 1, 0, 1}, []int32{c.GetTasks(), c.GetWins(), c.GetLosses(), c.GetTies()})
	require.InDelta(t, 0.5, c.GetPairedDelta(), 0)
	_, err = run.evaluated(other.run)
	require.True(t, fault.HasCode(err, "baseline"), "%v", err)
	_, err = run.evaluated(r.train().run)
	require.True(t, fault.HasCode(err, "baseline"), "%v", err)
	_, err = run.evaluated("run_x")
	require.Equal(t, []any{"baseline"}, fault.From(err).Fields[0].Loc)
}

func TestGetAgentEvaluation_hiddenRunLooksAbsent(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run, mine := r.train(), r.train()
	run.post("benchmark", "", rollouts(rolloutJSON(1, 0, `"reward":1`)))
	ask := func(ctx context.Context, id string, baseline *string) error {
		_, err := r.evaluations.GetAgentEvaluation(ctx, &ingestv1.GetAgentEvaluationRequest{RunId: id, Baseline: baseline})
		return err
	}
	absent := run.run[:len(run.run)-4] + "zzzz"
	stranger := as(t.Context(), "usr_stranger")
	for _, id := range []string{run.run, absent} {
		err := ask(stranger, id, nil)
		require.True(t, fault.Is(err, fault.Absent), "%v", err)
		require.Equal(t, "no such run: "+id, fault.From(err).Text(), "a hidden run gets the same message as a missing one")
		_, err = r.evaluations.ListAgentEvaluationItems(stranger, &ingestv1.ListAgentEvaluationItemsRequest{RunId: id})
		require.Equal(t, "no such run: "+id, fault.From(err).Text())
	}
	require.True(t, fault.Is(ask(t.Context(), mine.run, &absent), fault.Absent), "a missing baseline is reported as absent")
	for _, id := range []string{"run_x", run.job, strings.ToUpper(run.run)} {
		err := ask(t.Context(), id, nil)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", id, err)
		require.Equal(t, []any{"run_id"}, fault.From(err).Fields[0].Loc)
	}
}

func TestRollouts_taskTextNeverStored(t *testing.T) {
	t.Parallel()
	h := open(t)
	run := h.replica(ingest.Config{}).train()
	secret := "Buy a red shirt"
	raw, err := json.Marshal(secret)
	require.NoError(t, err)
	for _, field := range []string{"task", "group", "error", "stop", "trace", "prompt", "user", "messages"} {
		body := rolloutJSON(1, 0, `"reward":1,`+fmt.Sprintf("%q:%s", field, raw))
		if field == "task" {
			body = fmt.Sprintf(`{"rollout":0,"reward":1,"task":%s}`, raw)
		}
		a := run.call(http.MethodPost, "benchmark", "", run.body(rollouts(body)))
		require.Equal(t, http.StatusUnprocessableEntity, a.status, field)
	}
	require.NotContains(t, h.stored(), secret)
}
