package evaluation

import (
	"encoding/json"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// itemsURL returns the URL of the rollouts of a run.
func itemsURL(runID string) string { return "/api/agent-evaluations/" + runID + "/items" }

// maxShown is the maximum number of groups, and of reward parts, in one response.
const maxShown = 200

// none returns the response for a run that reported no evaluation.
func none(runID string) *ingestv1.AgentEvaluation {
	return &ingestv1.AgentEvaluation{
		RunId: runID, State: ingestv1.EvaluationState_EVALUATION_STATE_NONE, Reward: &ingestv1.RewardSummary{},
		Usage: &ingestv1.EvaluationUsage{}, LimitsHit: &ingestv1.LimitsHit{}, Turns: &ingestv1.Spread{}, Seconds: &ingestv1.Spread{},
		ItemsUrl: itemsURL(runID),
	}
}

// stated is the decoded form of Head.Parts.
type stated struct {
	Model *struct {
		Version, Revision, Digest *string
	} `json:"model"`
	Environment *struct {
		Name, Version, Digest *string
	} `json:"environment"`
	Rubric *struct {
		ID, Version, Digest *string
	} `json:"rubric"`
	TasksetDigest *string         `json:"taskset_digest"`
	Harness       json.RawMessage `json:"harness"`
	Sampling      json.RawMessage `json:"sampling"`
}

func (h *Head) stated() (*stated, error) {
	var s stated
	if err := json.Unmarshal(h.Parts, &s); err != nil {
		return nil, fmt.Errorf("decode the head of an evaluation: %w", err)
	}
	return &s, nil
}

// taskset returns the digest of the taskset, or "" if the run did not report a digest.
func (h *Head) taskset() string {
	s, err := h.stated()
	if err != nil {
		return ""
	}
	return value(s.TasksetDigest)
}

func evaluationProto(runID string, h *Head, s *Summary, p *run.Progress) (*ingestv1.AgentEvaluation, error) {
	out := none(runID)
	parts, err := h.stated()
	if err != nil {
		return nil, err
	}
	headProto(out, h, parts)
	out.State = stateOf(s, p)
	out.TasksTotal, out.TasksCompleted = int32(s.Tasks), int32(s.TasksCompleted)
	out.TasksErrored, out.TasksMasked = int32(s.TasksErrored), int32(s.TasksMasked)
	out.RolloutsPerTask, out.RolloutsScored, out.RolloutsMasked = int32(s.PerTask), int32(s.Scored), int32(s.Masked)
	out.Reward, out.Turns, out.Seconds = rewardProto(s.Reward, s.Rewards), spreadProto(s.Turns), spreadProto(s.Seconds)
	if s.Reward != nil {
		out.Metrics = append(out.Metrics, metricProto("reward", s.Reward))
	}
	for _, part := range s.Parts[:min(len(s.Parts), maxShown)] {
		out.Metrics = append(out.Metrics, metricProto("reward."+part.Name, &part.Mean))
	}
	out.PassAt = map[string]float64{}
	for _, k := range powers(s.PerTask) {
		if m, ok := s.PassAt[k]; ok {
			out.PassAt[strconv.Itoa(k)] = m.Value
			out.Metrics = append(out.Metrics, metricProto(PassName(k), &m))
		}
	}
	for i := range s.Groups[:min(len(s.Groups), maxShown)] {
		out.ByGroup = append(out.ByGroup, groupProto(&s.Groups[i]))
	}
	u := &s.Usage
	out.Usage = &ingestv1.EvaluationUsage{
		PromptTokens: u.PromptTokens, CompletionTokens: u.CompletionTokens, ToolCalls: u.ToolCalls, Cost: u.Cost,
	}
	out.LimitsHit = &ingestv1.LimitsHit{Tokens: int32(u.Tokens), Turns: int32(u.Turns), Time: int32(u.Time)}
	out.StartedAt = timestamppb.New(h.StartedAt)
	switch {
	case p.EndedAt != nil:
		out.FinishedAt = timestamppb.New(*p.EndedAt)
	case p.ClosedAt != nil:
		out.FinishedAt = timestamppb.New(*p.ClosedAt)
	}
	return out, nil
}

// headProto writes the head and its parts to out.
func headProto(out *ingestv1.AgentEvaluation, h *Head, parts *stated) {
	out.Benchmark = &ingestv1.EvaluatedBenchmark{Name: h.Name, Version: request.NonEmpty(h.Version)}
	if m := parts.Model; m != nil {
		out.Model = &ingestv1.EvaluatedModel{Version: m.Version, Revision: m.Revision, Digest: m.Digest}
	}
	if e := parts.Environment; e != nil {
		out.Environment = &ingestv1.EvaluatedEnvironment{Name: e.Name, Version: e.Version, Digest: e.Digest}
	}
	if r := parts.Rubric; r != nil {
		out.Rubric = &ingestv1.EvaluatedRubric{Id: r.ID, Version: r.Version, Digest: r.Digest}
	}
	out.TasksetDigest, out.Harness, out.Sampling = parts.TasksetDigest, parts.Harness, parts.Sampling
}

// stateOf returns the state of an evaluation, which follows from its rollouts and the progress of its run.
func stateOf(s *Summary, p *run.Progress) ingestv1.EvaluationState {
	switch {
	case p.ClosedAt == nil:
		return ingestv1.EvaluationState_EVALUATION_STATE_RUNNING
	case s.Scored == 0:
		return ingestv1.EvaluationState_EVALUATION_STATE_FAILED
	case p.State == "succeeded" && s.TasksCompleted >= s.Tasks:
		return ingestv1.EvaluationState_EVALUATION_STATE_SUCCEEDED
	default:
		return ingestv1.EvaluationState_EVALUATION_STATE_PARTIAL
	}
}

func intervalProto(i *Interval) *ingestv1.Interval {
	if i == nil {
		return nil
	}
	return &ingestv1.Interval{Low: i.Low, High: i.High}
}

func metricProto(name string, m *Mean) *ingestv1.EvaluationMetric {
	return &ingestv1.EvaluationMetric{
		Name: name, Value: m.Value, Stderr: m.Stderr, Ci95: intervalProto(m.CI), N: new(int64(m.Tasks)), Source: "computed",
	}
}

func rewardProto(m *Mean, d *Distribution) *ingestv1.RewardSummary {
	out := &ingestv1.RewardSummary{}
	if m == nil || d == nil {
		return out
	}
	out.Mean, out.Stderr, out.Ci95, out.Std = &m.Value, m.Stderr, intervalProto(m.CI), d.Std
	out.Min, out.P10, out.P50, out.P90, out.Max = &d.Min, &d.P10, &d.P50, &d.P90, &d.Max
	for _, b := range d.Bins {
		out.Histogram = append(out.Histogram, &ingestv1.HistogramBin{Low: b.Low, High: b.High, Count: int32(b.Count)})
	}
	return out
}

func spreadProto(d *Distribution) *ingestv1.Spread {
	if d == nil {
		return &ingestv1.Spread{}
	}
	return &ingestv1.Spread{Mean: &d.Mean, P50: &d.P50, P90: &d.P90, Max: &d.Max}
}

func groupProto(g *Group) *ingestv1.EvaluationGroup {
	out := &ingestv1.EvaluationGroup{Group: g.Name, Tasks: int32(g.Tasks), RolloutsScored: int32(g.Scored), RolloutsMasked: int32(g.Masked)}
	if g.Reward != nil {
		out.Reward, out.Stderr, out.Ci95 = &g.Reward.Value, g.Reward.Stderr, intervalProto(g.Reward.CI)
	}
	if g.Passed != nil {
		out.Passed = &g.Passed.Value
	}
	return out
}

func comparisonProto(baseline string, c *Comparison) *ingestv1.EvaluationComparison {
	return &ingestv1.EvaluationComparison{
		BaselineRunId: baseline, Tasks: int32(c.Tasks), PairedDelta: c.Delta, Ci95: intervalProto(c.CI),
		Wins: int32(c.Wins), Losses: int32(c.Losses), Ties: int32(c.Ties),
	}
}

func itemProto(h *Head, r *Rollout) *ingestv1.EvaluationItem {
	var passed *bool
	if !r.Masked {
		passed = new(h.passes(r))
	}
	return &ingestv1.EvaluationItem{
		Task: r.Task, Rollout: r.Number, Attempt: r.Attempt, Reward: r.Reward, Passed: passed, Parts: r.Parts, Group: r.Group,
		Turns: r.Turns, ToolCalls: r.ToolCalls, PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens,
		Cost: r.Cost, Seconds: r.Seconds, Stop: r.Stop, Error: r.Error, Masked: r.Masked, Trace: r.Trace,
		ReportedAt: timestamppb.New(r.At),
	}
}
