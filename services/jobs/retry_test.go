package jobs_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestRetryJobFromCheckpoint(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.catalog.mu.Lock()
	for _, v := range w.catalog.versions["demo/chat-tiny"] {
		v.Recipe.Resumable = true
	}
	w.catalog.mu.Unlock()
	a := w.join(w.fleet("cpu"), cpuNode())
	j := w.submit()
	retry := func(ctx context.Context) (*jobsv1.Job, string, error) {
		var head metadata.MD
		got, err := w.jobs().RetryJob(ctx, &jobsv1.RetryJobRequest{JobId: j.GetId()}, grpc.Header(&head))
		return got, first(head.Get("x-service-status")), err
	}
	_, _, err := retry(w.as(alice()))
	require.True(t, fault.HasCode(err, "job_state"), "a job that has not ended must not be retried: %v", err)
	work := w.running(a, j)
	require.NoError(t, w.checkpoint(j, 1, "art_1", "npz"))
	a.exit(work, 3, "", "")
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_FAILED)
	a.forget(work)
	_, _, err = retry(w.as(user("bob", authn.RoleOperator)))
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)

	again, status, err := retry(keyed(w.as(alice()), "again"))
	require.NoError(t, err)
	require.Equal(t, "201", status)
	require.NotEqual(t, j.GetId(), again.GetId())
	require.Equal(t, j.GetSpecDigest(), again.GetSpecDigest(), "the retry must have the same spec, including the seed")
	require.Equal(t, "art_1", again.GetCheckpoint().GetArtifactId())
	repeat, _, err := retry(keyed(w.as(alice()), "again"))
	require.NoError(t, err)
	require.Equal(t, again.GetId(), repeat.GetId())
	run, err := w.runs().GetRun(w.as(alice()), &jobsv1.GetRunRequest{RunId: again.GetRunId()})
	require.NoError(t, err)
	require.Len(t, run.GetParents(), 1)
	require.Equal(t, []any{"retry", j.GetRunId(), int64(7)}, []any{run.GetParents()[0].GetKind(), run.GetParents()[0].GetRunId(), run.GetParents()[0].GetStep()})
	next := a.attempt()
	require.Equal(t, "art_1", next.GetAttempt().GetResume().GetArtifactId())
	require.NoError(t, w.checkpoint(again, 1, "art_2", "npz"), "a checkpoint of the new job must count as newer")
	require.Equal(t, "art_2", w.get(again.GetId()).GetCheckpoint().GetArtifactId())
}

// An earlier version may have admitted a job with an image. Such a job can be neither retried nor cloned.
func TestRetryAndCloneRefuseImage(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	j := w.submit()
	_, err := w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	_, err = w.pool.Exec(t.Context(), `UPDATE job SET spec = jsonb_set(spec::jsonb, '{image}', '{"ref": "ghcr.io/a/b"}')::json`)
	require.NoError(t, err)
	_, err = w.jobs().RetryJob(w.as(alice()), &jobsv1.RetryJobRequest{JobId: j.GetId()})
	require.True(t, fault.HasCode(err, "containers") && fault.Is(err, fault.Unconfigured), "%v", err)
	_, err = w.jobs().CloneJob(w.as(alice()), &jobsv1.CloneJobRequest{JobId: j.GetId()})
	require.True(t, fault.HasCode(err, "containers"), "%v", err)
	require.Equal(t, 1, w.count("job"))
}

func TestCloneJob(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	j := w.submit(func(r *jobsv1.SubmitJobRequest) { r.Spec.Notes = "mine" })
	member := user("bob", authn.RoleOperator, authn.ProjectRole{Project: "prj_search", Role: authn.ProjectEditor})
	got, err := w.jobs().CloneJob(w.as(member), &jobsv1.CloneJobRequest{
		JobId: j.GetId(), Name: new("second"), Project: new("search"), Hparams: []byte(`{"optim.lr": 0.01}`), Priority: new(int32(40)), Seed: new(int64(5)),
	})
	require.NoError(t, err)
	require.Equal(t, []any{"second", "search", "bob", int32(40)}, []any{got.GetName(), got.GetProject(), got.GetOwner(), got.GetPriority()})
	var spec struct {
		Notes   string
		Hparams json.RawMessage
		Seed    int64
	}
	require.NoError(t, json.Unmarshal(got.GetSpec(), &spec))
	require.Equal(t, "mine", spec.Notes)
	require.JSONEq(t, `{"optim.lr": 0.01}`, string(spec.Hparams))
	require.EqualValues(t, 5, spec.Seed)
	same, err := w.jobs().CloneJob(w.as(alice()), &jobsv1.CloneJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	require.Equal(t, j.GetSpecDigest(), same.GetSpecDigest())
	require.Nil(t, same.GetCheckpoint())

	for code, req := range map[string]*jobsv1.CloneJobRequest{
		"hparams": {JobId: j.GetId(), Hparams: []byte(`{"optim.lr": 7}`)},
		"project": {JobId: j.GetId(), Project: new("nowhere")},
	} {
		_, err = w.jobs().CloneJob(w.as(alice()), req)
		require.True(t, fault.HasCode(err, code), "the gates must check a clone, too: %v", err)
	}
	_, err = w.jobs().CloneJob(w.as(alice()), &jobsv1.CloneJobRequest{JobId: j.GetId(), Seed: new(int64(1) << 60)})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = w.jobs().CloneJob(w.as(user("carl", authn.RoleOperator)), &jobsv1.CloneJobRequest{JobId: got.GetId()})
	require.True(t, fault.Is(err, fault.Absent), "a hidden job must look absent: %v", err)
}

func TestUpdateJob(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	j := w.submit(func(r *jobsv1.SubmitJobRequest) { r.Spec.Labels = map[string]string{"team": "a", "kind": "x"} })
	update := func(as authn.Caller, match string, req *jobsv1.UpdateJobRequest) (*jobsv1.Job, error) {
		req.JobId = j.GetId()
		ctx := w.as(as)
		if match != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "if-match", match)
		}
		return w.jobs().UpdateJob(ctx, req)
	}
	got, err := update(alice(), `"1"`, &jobsv1.UpdateJobRequest{
		Name: new("renamed"), Labels: map[string]string{"team": "b", "kind": "", "new": "1"}, Priority: new(int32(30)),
		Limits: &jobsv1.Limits{RunningS: new(int32(100_000))},
	})
	require.NoError(t, err)
	require.Equal(t, "renamed", got.GetName())
	require.Equal(t, map[string]string{"team": "b", "new": "1"}, got.GetLabels())
	require.EqualValues(t, 30, got.GetPriority())
	require.EqualValues(t, []int32{100_000, 3600, 604_800}, []int32{got.GetLimits().GetRunningS(), got.GetLimits().GetStartingS(), got.GetLimits().GetQueuedS()})
	require.EqualValues(t, 2, got.GetVersion())
	require.Equal(t, j.GetSpecDigest(), got.GetSpecDigest(), "the submitted spec must be unchanged")
	run, err := w.runs().GetRun(w.as(alice()), &jobsv1.GetRunRequest{RunId: j.GetRunId()})
	require.NoError(t, err)
	require.Equal(t, "renamed", run.GetName())

	_, err = update(alice(), `"1"`, &jobsv1.UpdateJobRequest{Name: new("late")})
	require.True(t, fault.Is(err, fault.Conflict), "an update of an outdated version must be refused: %v", err)
	lower := &jobsv1.UpdateJobRequest{Limits: &jobsv1.Limits{RunningS: new(int32(10))}}
	_, err = update(alice(), "", lower)
	require.True(t, fault.HasCode(err, "limits") && fault.Is(err, fault.Forbidden), "%v", err)
	_, err = update(user("bob", authn.RoleOperator), "", &jobsv1.UpdateJobRequest{Name: new("his")})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	got, err = update(admin(), "", lower)
	require.NoError(t, err)
	require.EqualValues(t, 10, got.GetLimits().GetRunningS())
	require.EqualValues(t, 30, got.GetPriority(), "fields that are not set must stay unchanged")

	_, err = update(alice(), "", &jobsv1.UpdateJobRequest{Priority: new(int32(51))})
	require.True(t, fault.HasCode(err, "priority") && fault.Is(err, fault.Forbidden), "%v", err)
	for _, c := range []struct {
		as       authn.Caller
		priority int32
	}{{alice(), 50}, {admin(), 80}, {alice(), 80}, {alice(), 60}, {admin(), 30}} {
		got, err = update(c.as, "", &jobsv1.UpdateJobRequest{Priority: &c.priority})
		require.NoError(t, err, "it must be possible to keep and lower a priority that an admin has granted")
		require.Equal(t, c.priority, got.GetPriority())
	}

	_, err = w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: j.GetId()})
	require.NoError(t, err)
	_, err = update(alice(), "", &jobsv1.UpdateJobRequest{Priority: new(int32(1))})
	require.True(t, fault.HasCode(err, "job_ended"), "%v", err)
	got, err = update(alice(), "", &jobsv1.UpdateJobRequest{Name: new("for the record")})
	require.NoError(t, err, "it must be possible to rename an ended job")
	require.Equal(t, "for the record", got.GetName())
	require.Equal(t, jobsv1.JobState_JOB_STATE_STOPPED, got.GetState())
	many := map[string]string{}
	for i := range 64 {
		many[string(rune('a'+i%26))+string(rune('a'+i/26))] = "x"
	}
	_, err = update(alice(), "", &jobsv1.UpdateJobRequest{Labels: many})
	require.True(t, fault.Is(err, fault.Invalid), "too many labels must be refused: %v", err)
}

func TestListJobsFilters(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	member := user("bob", authn.RoleOperator, authn.ProjectRole{Project: "prj_search", Role: authn.ProjectEditor})
	one := w.submit(func(r *jobsv1.SubmitJobRequest) {
		r.Spec.Name, r.Spec.Labels = "Qwen 100%_sft", map[string]string{"team": "a", "tier": "gold"}
	})
	two := w.submit(func(r *jobsv1.SubmitJobRequest) { r.Spec.Name, r.Spec.Labels = "llama", map[string]string{"team": "b"} })
	three, err := w.jobs().SubmitJob(w.as(member), w.request(func(r *jobsv1.SubmitJobRequest) { r.Spec.Project = "search" }))
	require.NoError(t, err)
	_, err = w.jobs().StopJob(w.as(alice()), &jobsv1.StopJobRequest{JobId: two.GetId()})
	require.NoError(t, err)
	all := []*jobsv1.Job{three, two, one}
	for name, c := range map[string]struct {
		req  *jobsv1.ListJobsRequest
		want []*jobsv1.Job
	}{
		"all, newest first":          {&jobsv1.ListJobsRequest{}, all},
		"by state":                   {&jobsv1.ListJobsRequest{State: new("stopped")}, []*jobsv1.Job{two}},
		"by project's key":           {&jobsv1.ListJobsRequest{Project: new("search")}, []*jobsv1.Job{three}},
		"by project's id":            {&jobsv1.ListJobsRequest{Project: new("prj_default")}, []*jobsv1.Job{two, one}},
		"by owner":                   {&jobsv1.ListJobsRequest{Owner: new("bob")}, []*jobsv1.Job{three}},
		"by a label's name":          {&jobsv1.ListJobsRequest{Label: []string{"team"}}, []*jobsv1.Job{two, one}},
		"by a label":                 {&jobsv1.ListJobsRequest{Label: []string{"team=a"}}, []*jobsv1.Job{one}},
		"by two labels":              {&jobsv1.ListJobsRequest{Label: []string{"team=a", "tier"}}, []*jobsv1.Job{one}},
		"by labels no job has":       {&jobsv1.ListJobsRequest{Label: []string{"team=a", "team=b"}}, nil},
		"by name in any case":        {&jobsv1.ListJobsRequest{Q: new("qWEN 100%_S")}, []*jobsv1.Job{one}},
		"LIKE wildcards are literal": {&jobsv1.ListJobsRequest{Q: new("%")}, []*jobsv1.Job{one}},
		"by id":                      {&jobsv1.ListJobsRequest{Q: new(two.GetId())}, []*jobsv1.Job{two}},
		"by run":                     {&jobsv1.ListJobsRequest{Q: new(three.GetRunId())}, []*jobsv1.Job{three}},
		"by several filters":         {&jobsv1.ListJobsRequest{State: new("queued"), Owner: new("alice"), Q: new("qwen")}, []*jobsv1.Job{one}},
		"hidden project":             {&jobsv1.ListJobsRequest{Project: new("nowhere")}, nil},
	} {
		got, err := w.jobs().ListJobs(w.as(member), c.req)
		require.NoError(t, err, name)
		require.Equal(t, ids(c.want), ids(got.GetJobs()), name)
	}
	stranger, err := w.jobs().ListJobs(w.as(user("eve", authn.RoleOperator)), &jobsv1.ListJobsRequest{Project: new("search")})
	require.NoError(t, err)
	require.Empty(t, stranger.GetJobs(), "a filter must not reveal hidden jobs")
}

func ids(jobs []*jobsv1.Job) []string {
	out := []string{}
	for _, j := range jobs {
		out = append(out, j.GetId())
	}
	return out
}

func TestPreflightJobReportsEveryGate(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	before := w.rows()
	preflight := func(change ...func(*jobsv1.SubmitJobRequest)) map[string]string {
		in := w.request(change...)
		got, err := w.jobs().PreflightJob(w.as(alice()), &jobsv1.PreflightJobRequest{Api: in.GetApi(), Spec: in.GetSpec()})
		require.NoError(t, err)
		statuses, ok := map[string]string{}, true
		for _, g := range got.GetGates() {
			statuses[g.GetGate()] = g.GetStatus()
			require.Equal(t, g.GetStatus() == "fail", g.Detail != nil && g.Refusal != nil)
			ok = ok && g.GetStatus() == "pass"
		}
		require.Equal(t, ok, got.GetOk())
		require.Len(t, statuses, 13)
		return statuses
	}
	for gate, status := range preflight() {
		require.Equal(t, "pass", status, gate)
	}
	statuses := preflight(func(r *jobsv1.SubmitJobRequest) {
		r.Api, r.Spec.Env, r.Spec.Recipe.Version = "service/v2", map[string]string{"LD_PRELOAD": "x"}, "9.9.9"
		r.Spec.Resources.Pools[0] = &jobsv1.PoolRequest{Pool: "tpu", Nodes: new(int32(4)), GpusPerNode: new(int32(8))}
	})
	require.Equal(t, map[string]string{
		"dialect": "fail", "environment": "fail", "package": "pass", "entrypoint_override": "pass", "recipe_handshake": "fail", "hparams": "skip",
		"project": "pass", "bindings": "skip", "image_registry": "pass", "isolation": "skip", "quota": "fail", "hardware": "fail",
		"containers": "pass",
	}, statuses)
	statuses = preflight(func(r *jobsv1.SubmitJobRequest) { r.Spec.Project = "nowhere" })
	require.Equal(t, []string{"fail", "skip"}, []string{statuses["project"], statuses["quota"]})
	statuses = preflight(func(r *jobsv1.SubmitJobRequest) { r.Spec.Resources.Pools[0].Profile = "none" })
	require.Equal(t, []string{"skip", "fail"}, []string{statuses["quota"], statuses["hardware"]}, "the quota gate must be skipped, because the GPUs are unknown without the profile")
	require.Equal(t, before, w.rows())
}
