package registry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func (h *harness) deployment(c *authn.Caller, name string) *registryv1.Deployment {
	h.t.Helper()
	d, err := h.deployments.CreateDeployment(h.as(c), &registryv1.CreateDeploymentRequest{Name: name})
	require.NoError(h.t, err)
	return d
}

// candidate creates a revision that serves a new GGUF model.
func (h *harness) candidate(c *authn.Caller, d *registryv1.Deployment) *registryv1.Revision {
	h.t.Helper()
	m := h.model(c, fmt.Sprintf("model-%d", time.Now().UnixNano()))
	h.version(c, m, h.artifact(c, "gguf", false, ggufFile(m.GetId())))
	r, err := h.deployments.CreateRevision(h.as(c), &registryv1.CreateRevisionRequest{
		DeploymentId: d.GetId(), Source: &registryv1.RevisionSource{ModelId: m.GetId(), Version: 1},
	})
	require.NoError(h.t, err)
	return r
}

// ordered waits until the registry has ordered the revision's engine from the jobs service, and returns the order.
func (h *harness) ordered(r *registryv1.Revision) *jobspeerv1.PutWorkRequest {
	h.t.Helper()
	eventually(h.t, func() bool { return h.works.order(r.GetId()) != nil }, "the engine is ordered from the jobs service")
	return h.works.order(r.GetId())
}

// reports makes the agent report on the engine of an ordered work.
func (h *harness) reports(o *jobspeerv1.PutWorkRequest, fence int64, report *jobsv1.EngineReport) {
	h.works.see(&jobspeerv1.WorkStatus{
		WorkId: o.GetWorkId(), Generation: h.works.of(o.GetWorkId()).GetGeneration(), Fence: fence, NodeId: "nod_1",
		Observed: &jobsv1.ObservedWork{Phase: jobsv1.Phase_PHASE_RUNNING, RunningAt: timestamppb.Now(), Engine: report},
	})
}

func readyReport() *jobsv1.EngineReport {
	return &jobsv1.EngineReport{
		Address: "http://127.0.0.1:4000", ApiKey: "engine-key", Pid: 77, Ready: true, Phase: "ready", Probes: []byte(`{"generate": 1}`),
		ReadyAt: timestamppb.Now(),
	}
}

func (h *harness) revision(r *registryv1.Revision) *registryv1.Revision {
	h.t.Helper()
	got, err := h.deployments.GetRevision(h.as(ann()), &registryv1.GetRevisionRequest{DeploymentId: r.GetDeploymentId(), Number: r.GetNumber()})
	require.NoError(h.t, err)
	return got
}

// becomes waits until the revision has the given state.
func (h *harness) becomes(r *registryv1.Revision, state string) *registryv1.Revision {
	h.t.Helper()
	eventually(h.t, func() bool { return h.revision(r).GetState() == state }, "revision becomes "+state)
	return h.revision(r)
}

// ready makes the revision's engine report ready and waits for state ready.
func (h *harness) ready(r *registryv1.Revision) *jobspeerv1.PutWorkRequest {
	h.t.Helper()
	o := h.ordered(r)
	h.reports(o, 1, readyReport())
	h.becomes(r, "ready")
	return o
}

func (h *harness) promote(r *registryv1.Revision) (*registryv1.Deployment, error) {
	return h.deployments.PromoteRevision(h.as(ann()), &registryv1.PromoteRevisionRequest{DeploymentId: r.GetDeploymentId(), Number: r.GetNumber()})
}

func TestRevision_lifecycleToPromotion(t *testing.T) {
	t.Parallel()
	h := open(t)
	d := h.deployment(ann(), "adder")
	require.Equal(t, "http://127.0.0.1:8080/inference/"+d.GetId()+"/v1", d.GetUrl())
	require.Equal(t, "serving", d.GetState())
	r := h.candidate(ann(), d)
	require.Equal(t, "pending", r.GetState())
	require.Equal(t, "llamacpp", r.GetServing().GetEngine())
	o := h.ordered(r)
	require.Equal(t, jobsv1.Desired_DESIRED_RUNNING, o.GetDesired())
	require.Equal(t, "default", o.GetPool())
	require.Equal(t, []string{"default", "adder"}, o.GetEngine().GetServedNames())
	require.Equal(t, "chat", o.GetEngine().GetTask())
	require.Equal(t, int32(60), o.GetEngine().GetProbeDeadlineS())
	require.Equal(t, "sha256:"+o.GetEngine().GetModel()[0].GetSha256(), o.GetEngine().GetModelDigest())

	_, err := h.promote(r)
	refused(t, err, fault.Conflict, "revision 1 is not ready: pending/")
	h.works.see(&jobspeerv1.WorkStatus{
		WorkId: o.GetWorkId(), Generation: 1, Fence: 1, NodeId: "nod_1",
		Observed: &jobsv1.ObservedWork{Phase: jobsv1.Phase_PHASE_PREPARING, Detail: "fetching the model"},
	})
	require.Equal(t, "fetching the model", h.becomes(r, "preparing").GetReason().GetMessage())
	h.reports(o, 1, &jobsv1.EngineReport{Phase: "starting"})
	h.becomes(r, "starting")
	h.reports(o, 1, &jobsv1.EngineReport{Phase: "probing", Code: "generate_failed", Message: "no token yet", Address: "http://127.0.0.1:4000"})
	h.becomes(r, "probing")
	_, err = h.promote(r)
	refused(t, err, fault.Conflict, "revision 1 is not ready: probing/generate_failed: no token yet")
	h.reports(o, 1, readyReport())
	got := h.becomes(r, "ready")
	require.True(t, got.GetReady())
	require.Nil(t, got.GetReason())
	require.NotNil(t, got.GetReadyAt())
	require.Len(t, got.GetReplicas(), 1)
	require.NoError(t, id.Check(id.Replica, got.GetReplicas()[0].GetId()))
	require.Equal(t, int32(77), got.GetReplicas()[0].GetEnginePid())

	promoted, err := h.promote(r)
	require.NoError(t, err)
	require.Equal(t, int32(1), promoted.GetPromotedRevision())
	require.Nil(t, promoted.PreviousRevisionId)
	again, err := h.promote(r)
	require.NoError(t, err)
	require.True(t, proto.Equal(promoted, again))
	require.Len(t, h.revision(r).GetPromotedAt(), 1)

	second := h.candidate(ann(), d)
	h.ready(second)
	promoted, err = h.promote(second)
	require.NoError(t, err)
	require.Equal(t, int32(2), promoted.GetPromotedRevision())
	require.Equal(t, r.GetId(), promoted.GetPreviousRevisionId())

	events, err := h.deployments.ListDeploymentEvents(h.as(bob()), &registryv1.ListDeploymentEventsRequest{DeploymentId: d.GetId()})
	require.NoError(t, err)
	var seen []string
	for _, e := range events.GetEvents() {
		seen = append(seen, e.GetType()+":"+e.GetTo())
	}
	require.Subset(t, seen, []string{
		"created:serving", "revision_state:pending", "revision_state:preparing", "revision_state:starting",
		"revision_state:probing", "revision_state:ready", "promoted:revision 1", "promoted:revision 2",
	})
}

func TestRevision_recoversAfterEngineLoss(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.candidate(ann(), h.deployment(ann(), "adder"))
	o := h.ready(r)
	_, err := h.promote(r)
	require.NoError(t, err)
	first := h.revision(r)
	h.works.see(&jobspeerv1.WorkStatus{WorkId: o.GetWorkId(), Generation: 1, Fence: 1, Waiting: "no_capacity"})
	lost := h.becomes(r, "not_ready")
	require.Equal(t, "no_capacity", lost.GetReason().GetCode())
	require.Empty(t, lost.GetReplicas())
	_, err = h.promote(r)
	require.True(t, fault.HasCode(err, "revision_not_ready"), "the promoted revision cannot be promoted again before it is ready: %v", err)
	h.reports(o, 2, &jobsv1.EngineReport{Phase: "probing"})
	eventually(t, func() bool { return h.revision(r).GetReason().GetPhase() == "probing" }, "the reason follows the report")
	require.Equal(t, "not_ready", h.revision(r).GetState())
	back := readyReport()
	back.Probes = []byte(`{"generate": 2}`)
	h.reports(o, 2, back)
	got := h.becomes(r, "ready")
	require.NotEqual(t, first.GetReplicas()[0].GetId(), got.GetReplicas()[0].GetId())
	require.JSONEq(t, string(first.GetProbeReport()), string(got.GetProbeReport()), "the probe report of the first readiness is kept")
	// A late report of the previous execution is ignored.
	h.reports(o, 1, &jobsv1.EngineReport{Phase: "failed", Code: "from_the_past"})
	eventually(t, func() bool { return h.works.delivered(o.GetWorkId()) }, "the late report is sent")

	// The engine exits by itself: the registry orders the next generation.
	h.works.see(&jobspeerv1.WorkStatus{WorkId: o.GetWorkId(), Generation: 1, Fence: 2, NodeId: "nod_1", Observed: &jobsv1.ObservedWork{
		Phase: jobsv1.Phase_PHASE_EXITED, Exit: &jobsv1.Exit{Code: 137, Reason: "oom_host", Message: "killed"},
	}})
	h.becomes(r, "not_ready")
	eventually(t, func() bool { return h.works.of(o.GetWorkId()).GetGeneration() == 2 }, "generation 2 is ordered")
	h.reports(o, 3, readyReport())
	h.becomes(r, "ready")
	events, err := h.deployments.ListDeploymentEvents(h.as(ann()), &registryv1.ListDeploymentEventsRequest{DeploymentId: r.GetDeploymentId()})
	require.NoError(t, err)
	for _, e := range events.GetEvents() {
		require.NotContains(t, e.GetReason(), "from_the_past")
	}
}

func TestFailedCandidate_keepsReasonAndFreesWork(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.candidate(ann(), h.deployment(ann(), "adder"))
	o := h.ordered(r)
	h.works.see(&jobspeerv1.WorkStatus{WorkId: o.GetWorkId(), Generation: 1, Fence: 1, NodeId: "nod_1", Observed: &jobsv1.ObservedWork{
		Phase: jobsv1.Phase_PHASE_EXITED, Exit: &jobsv1.Exit{Code: 1, Reason: "env_build", Message: "no such package"},
		Engine: &jobsv1.EngineReport{Phase: "starting", LogExcerpt: "last lines"},
	}})
	got := h.becomes(r, "failed")
	require.Equal(t, "env_build", got.GetReason().GetCode())
	require.Equal(t, "no such package", got.GetReason().GetMessage())
	require.Equal(t, "last lines", got.GetReason().GetLogExcerpt())
	eventually(t, func() bool { return h.works.of(o.GetWorkId()).GetDesired() == jobsv1.Desired_DESIRED_GONE }, "the failed candidate's work is released")
	_, err := h.promote(r)
	refused(t, err, fault.Conflict, "revision 1 is not ready: preparing/env_build: no such package")
	require.Equal(t, "failed", h.revision(r).GetState())
}

func TestCreateRevision_rejections(t *testing.T) {
	t.Parallel()
	h := open(t)
	d := h.deployment(ann(), "adder")
	m := h.model(ann(), "adder")
	h.version(ann(), m, h.artifact(ann(), "gguf", false, ggufFile("a")))
	h.version(ann(), m, h.artifact(ann(), "safetensors", false, safetensorsFile()))
	h.version(ann(), m, h.artifact(ann(), "gguf", false, []byte("a broken file of no format")))
	cases := map[string]struct {
		who     *authn.Caller
		source  *registryv1.RevisionSource
		serving *registryv1.Serving
		want    fault.Kind
		words   string
	}{
		"not the owner":                    {bob(), &registryv1.RevisionSource{ModelId: m.GetId(), Version: 1}, nil, fault.Forbidden, "only by its owner"},
		"unknown version":                  {ann(), &registryv1.RevisionSource{ModelId: m.GetId(), Version: 9}, nil, fault.Refused, "no such model version"},
		"unknown model":                    {ann(), &registryv1.RevisionSource{ModelId: "mdl_01k00000000000000000000001", Version: 1}, nil, fault.Refused, "no such model version"},
		"malformed model":                  {ann(), &registryv1.RevisionSource{ModelId: "adder", Version: 1}, nil, fault.Invalid, ""},
		"no source":                        {ann(), nil, nil, fault.Invalid, ""},
		"other format":                     {ann(), &registryv1.RevisionSource{ModelId: m.GetId(), Version: 2}, &registryv1.Serving{Engine: "llamacpp"}, fault.Refused, "llamacpp serves only gguf, but version 2 of the model is safetensors"},
		"weights without a folder":         {ann(), &registryv1.RevisionSource{ModelId: m.GetId(), Version: 2}, &registryv1.Serving{Args: []string{"--parallel", "2"}}, fault.Refused, "engine transformers needs the whole folder"},
		"rejected":                         {ann(), &registryv1.RevisionSource{ModelId: m.GetId(), Version: 3}, nil, fault.Refused, "version 3 of the model is rejected"},
		"command with llamacpp":            {ann(), &registryv1.RevisionSource{ModelId: m.GetId(), Version: 1}, &registryv1.Serving{Command: []string{"x"}}, fault.Refused, "belong to the engine command"},
		"engine command without a command": {ann(), &registryv1.RevisionSource{ModelId: m.GetId(), Version: 1}, &registryv1.Serving{Engine: "command"}, fault.Refused, "needs serving.command"},
		"wait of no seconds":               {ann(), &registryv1.RevisionSource{ModelId: m.GetId(), Version: 1}, timeouts(0, 1), fault.Invalid, ""},
		"wait of over an hour":             {ann(), &registryv1.RevisionSource{ModelId: m.GetId(), Version: 1}, timeouts(1, 3601), fault.Invalid, ""},
		"unknown engine":                   {ann(), &registryv1.RevisionSource{ModelId: m.GetId(), Version: 1}, &registryv1.Serving{Engine: "vllm"}, fault.Invalid, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := h.deployments.CreateRevision(h.as(c.who), &registryv1.CreateRevisionRequest{
				DeploymentId: d.GetId(), Source: c.source, Serving: c.serving,
			})
			refused(t, err, c.want, c.words)
		})
	}
	r, err := h.deployments.CreateRevision(h.as(ann()), &registryv1.CreateRevisionRequest{
		DeploymentId: d.GetId(), Source: &registryv1.RevisionSource{ModelId: m.GetId(), Version: 2},
		Serving: &registryv1.Serving{Engine: "command", Command: []string{"python", "-m", "mlx_lm.server"}, Requirements: "mlx==1"},
	})
	require.NoError(t, err)
	require.Equal(t, "sha256:"+sum([]byte("mlx==1")), h.ordered(r).GetEngine().GetEnvironment().GetDigest())
	_, err = h.deployments.CreateDeployment(h.as(ann()), &registryv1.CreateDeploymentRequest{Name: "adder"})
	refused(t, err, fault.Conflict, "already has a deployment adder")
}

func timeouts(firstByte, idle int32) *registryv1.Serving {
	return &registryv1.Serving{Timeouts: &registryv1.ServingTimeouts{FirstByteS: &firstByte, IdleS: &idle}}
}

func TestStopRevision(t *testing.T) {
	t.Parallel()
	h := open(t)
	d := h.deployment(ann(), "adder")
	one, two := h.candidate(ann(), d), h.candidate(ann(), d)
	h.ready(one)
	work := h.ready(two)
	_, err := h.promote(one)
	require.NoError(t, err)
	stop := func(c *authn.Caller, r *registryv1.Revision) (*registryv1.Revision, error) {
		return h.deployments.StopRevision(h.as(c), &registryv1.StopRevisionRequest{DeploymentId: d.GetId(), Number: r.GetNumber()})
	}
	_, err = stop(ann(), one)
	refused(t, err, fault.Conflict, "revision 1 is promoted")
	_, err = stop(bob(), two)
	refused(t, err, fault.Forbidden, "only by its owner")
	got, err := stop(ann(), two)
	require.NoError(t, err)
	require.Equal(t, "stopped", got.GetState())
	require.Empty(t, got.GetReplicas())
	eventually(t, func() bool { return h.works.of(work.GetWorkId()).GetDesired() == jobsv1.Desired_DESIRED_GONE }, "the engine's work is released")
	_, err = stop(ann(), two)
	refused(t, err, fault.Conflict, "already stopped")
	_, err = h.promote(two)
	refused(t, err, fault.Conflict, "revision 2 is not ready: stopped/stopped")
	list, err := h.deployments.ListRevisions(h.as(bob()), &registryv1.ListRevisionsRequest{DeploymentId: d.GetId()})
	require.NoError(t, err)
	require.Len(t, list.GetRevisions(), 2)
	require.Equal(t, int32(2), list.GetRevisions()[0].GetNumber())
	_, err = stop(ann(), &registryv1.Revision{Number: 9})
	refused(t, err, fault.Absent, "no such revision: 9")
}

func TestCreateDeploymentToken_secretShownOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	d := h.deployment(ann(), "adder")
	ask := &registryv1.CreateDeploymentTokenRequest{DeploymentId: d.GetId(), Name: "ci"}
	made, err := h.deployments.CreateDeploymentToken(h.as(ann(), "idempotency-key", "k"), ask)
	require.NoError(t, err)
	hash, ok := secret.Parse(secret.KindDeployment, made.GetToken())
	require.True(t, ok)
	require.Equal(t, made.GetToken()[:8], made.GetPrefix())
	again, err := h.deployments.CreateDeploymentToken(h.as(ann(), "idempotency-key", "k"), ask)
	require.NoError(t, err)
	require.Equal(t, made.GetId(), again.GetId())
	require.Nil(t, again.Token, "a repeat does not return the secret")
	list, err := h.deployments.ListDeploymentTokens(h.as(bob()), &registryv1.ListDeploymentTokensRequest{DeploymentId: d.GetId()})
	require.NoError(t, err)
	require.Len(t, list.GetTokens(), 1)
	require.Nil(t, list.GetTokens()[0].Token)
	_, err = h.deployments.CreateDeploymentToken(h.as(bob()), ask)
	refused(t, err, fault.Forbidden, "only by its owner")
	// No table holds the secret itself.
	var stored []byte
	pool := h.db.Pool("registry")
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT hash FROM deployment_token`).Scan(&stored))
	require.Equal(t, hash, stored)
	for _, table := range []string{"deployment_token", "audit", "event", "idempotency"} {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table+` t WHERE t::text LIKE '%' || $1 || '%'
			OR t::text LIKE '%' || encode($1::bytea, 'hex') || '%'`, made.GetToken()).Scan(&n), table)
		require.Zero(t, n, table)
	}
}
