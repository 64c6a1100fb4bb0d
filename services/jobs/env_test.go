package jobs_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Every response that contains a spec masks the values of its environment for callers who may not change the job.
func TestEnvironmentValuesOnlyForEditors(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	in := func(role string) authn.ProjectRole { return authn.ProjectRole{Project: "prj_search", Role: role} }
	owner := user("alice", authn.RoleOperator, in(authn.ProjectEditor))
	j, err := w.jobs().SubmitJob(w.as(owner), w.request(func(r *jobsv1.SubmitJobRequest) {
		r.Spec.Project, r.Spec.Env = "search", map[string]string{"HF_TOKEN": "hf_secret", "EMPTY": ""}
	}))
	require.NoError(t, err)
	require.Contains(t, string(j.GetSpec()), "hf_secret")
	for name, c := range map[string]struct {
		caller authn.Caller
		sees   bool
	}{
		"owner":  {owner, true},
		"editor": {user("erin", authn.RoleOperator, in(authn.ProjectEditor)), true},
		"admin":  {admin(), true},
		"viewer": {user("vera", authn.RoleOperator, in(authn.ProjectViewer)), false},
	} {
		ctx := w.as(c.caller)
		got, err := w.jobs().GetJob(ctx, &jobsv1.GetJobRequest{JobId: j.GetId()})
		require.NoError(t, err, name)
		list, err := w.jobs().ListJobs(ctx, &jobsv1.ListJobsRequest{})
		require.NoError(t, err, name)
		require.Len(t, list.GetJobs(), 1, name)
		watch, err := w.jobs().WatchJob(ctx, &jobsv1.WatchJobRequest{Id: j.GetId()})
		require.NoError(t, err, name)
		change, err := watch.Recv()
		require.NoError(t, err, name)
		want := map[string]string{"HF_TOKEN": "***", "EMPTY": "***"}
		if c.sees {
			want = map[string]string{"HF_TOKEN": "hf_secret", "EMPTY": ""}
		}
		for _, m := range []*jobsv1.Job{got, list.GetJobs()[0], change.GetJob()} {
			var full, shown map[string]any
			require.NoError(t, json.Unmarshal(j.GetSpec(), &full))
			require.NoError(t, json.Unmarshal(m.GetSpec(), &shown))
			env := map[string]string{}
			for k, v := range shown["env"].(map[string]any) {
				env[k] = v.(string)
			}
			require.Equal(t, want, env, name)
			delete(full, "env")
			delete(shown, "env")
			require.Equal(t, full, shown, "%s: the rest of the spec must be unchanged", name)
			require.Equal(t, j.GetSpecDigest(), m.GetSpecDigest())
		}
	}
	clone := &jobsv1.CloneJobRequest{JobId: j.GetId(), Project: new("default")}
	_, err = w.jobs().CloneJob(w.as(user("vera", authn.RoleOperator, in(authn.ProjectViewer))), clone)
	require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "env_hidden"), "cloning must be refused, because the clone would contain the values: %v", err)
	cloned, err := w.jobs().CloneJob(w.as(user("erin", authn.RoleOperator, in(authn.ProjectEditor))), clone)
	require.NoError(t, err)
	require.Contains(t, string(cloned.GetSpec()), "hf_secret")
}
