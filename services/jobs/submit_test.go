package jobs_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// rows counts the rows of each table. It omits audit, hardware_replica and all tables of River except river_job.
func (w *harness) rows() map[string]int {
	w.t.Helper()
	got, err := w.pool.Query(w.t.Context(), `SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace
		AND relkind IN ('r', 'p') AND relname NOT LIKE 'audit%' AND relname NOT LIKE 'river_%' AND relname <> 'hardware_replica'
		OR relname = 'river_job' ORDER BY 1`) // an instance inserts its hardware_replica row when it starts
	require.NoError(w.t, err)
	tables, err := pgx.CollectRows(got, pgx.RowTo[string])
	require.NoError(w.t, err)
	counts := map[string]int{}
	for _, table := range tables {
		counts[table] = w.count(table)
	}
	return counts
}

func keyed(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
}

func TestSubmitRefusalLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu", "gpu")
	before := w.rows()
	require.Contains(t, before, "idempotency")
	require.Contains(t, before, "river_job")
	for gate, change := range map[string]func(*jobsv1.SubmitJobRequest){
		"dialect":             func(r *jobsv1.SubmitJobRequest) { r.Api = "service/v2" },
		"environment":         func(r *jobsv1.SubmitJobRequest) { r.Spec.Env = map[string]string{"LD_PRELOAD": "x"} },
		"entrypoint_override": func(r *jobsv1.SubmitJobRequest) { r.Spec.Source = &jobsv1.Source{Entrypoint: "x"} },
		"recipe_handshake":    func(r *jobsv1.SubmitJobRequest) { r.Spec.Recipe.Lock.Digest = "sha256:other" },
		"hparams":             func(r *jobsv1.SubmitJobRequest) { r.Spec.Hparams = []byte(`{"optim.lr": 1}`) },
		"project":             func(r *jobsv1.SubmitJobRequest) { r.Spec.Project = "search" },
		"bindings":            func(r *jobsv1.SubmitJobRequest) { r.Spec.Bindings.Datasets["train"] = "ds/default/nope@1" },
		"image_registry":      func(r *jobsv1.SubmitJobRequest) { r.Spec.Image = &jobsv1.Image{Ref: "quay.io/a/b"} },
		"containers":          func(r *jobsv1.SubmitJobRequest) { r.Spec.Image = &jobsv1.Image{Ref: "ghcr.io/a/b"} },
		"hardware":            func(r *jobsv1.SubmitJobRequest) { r.Spec.Resources.Pools[0].Pool = "tpu" },
		"quota": func(r *jobsv1.SubmitJobRequest) {
			two, eight := int32(2), int32(8)
			r.Spec.Resources.Pools[0] = &jobsv1.PoolRequest{Pool: "gpu", Nodes: &two, GpusPerNode: &eight}
		},
	} {
		_, err := w.jobs().SubmitJob(keyed(w.as(alice()), "key-"+gate), w.request(change))
		require.True(t, fault.HasCode(err, gate), "%s: %v", gate, err)
		require.Contains(t, fault.From(err).Text(), gate+": ")
	}
	none := w.request(func(r *jobsv1.SubmitJobRequest) { r.Spec.Resources.Pools = nil })
	_, err := w.jobs().SubmitJob(w.as(alice()), none)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = w.jobs().SubmitJob(w.as(alice()), w.request(func(r *jobsv1.SubmitJobRequest) {
		seed := int64(1) << 60
		r.Spec.Seed = &seed
	}))
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.Empty(t, cmp.Diff(before, w.rows()))
	require.Empty(t, w.ingest.closed)
}

func TestSubmittedJobHasResolvedSpec(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	j := w.submit()
	form, err := canon.JSON(j.GetSpec())
	require.NoError(t, err)
	require.Equal(t, string(form), string(j.GetSpec()))
	digest, err := canon.Digest(j.GetSpec())
	require.NoError(t, err)
	require.Equal(t, digest, j.GetSpecDigest())
	require.Contains(t, string(j.GetSpec()), `"pools":[{"cpu":0,"gpus_per_node":0,"memory_gb":0,"nodes":1,"pool":"cpu","profile":"","role":"trainer"}]`)
	require.Contains(t, string(j.GetSpec()), `"limits":{"queued_s":604800,"running_s":86400,"starting_s":3600}`)
	require.NotContains(t, string(j.GetSpec()), `"seed":null`, "a seed must be chosen")
	require.Equal(t, "alice", j.GetOwner())
	require.Equal(t, "default", j.GetProject())
	events, err := w.jobs().ListJobEvents(w.as(alice()), &jobsv1.ListJobEventsRequest{JobId: j.GetId()})
	require.NoError(t, err)
	require.Len(t, events.GetEvents(), 1)
	require.Equal(t, "usr_alice", events.GetEvents()[0].GetActorId())
	require.Equal(t, 1, w.count(`audit WHERE action = 'job.submit'`))
}

// A submission needs one call to the registry, and a second one only if the registry must record the use of a
// protected dataset.
func TestSubmitCallsToRegistry(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	once := []string{"ResolveSubmission"}
	w.submit()
	require.Equal(t, once, w.catalog.called())
	w.submit(func(r *jobsv1.SubmitJobRequest) {
		s := r.GetSpec()
		s.Recipe.Name, s.Recipe.Lock.Name, s.Recipe.Lock.Digest, s.Recipe.Lock.Framework.RuntimeId = "custom/custom", "custom/custom", "sha256:c1", "any"
		s.Source, s.Hparams = &jobsv1.Source{Command: []string{"python", "x.py"}, Package: "pkg_1"}, nil
	})
	require.Equal(t, once, w.catalog.called(), "one call must resolve the recipe, the package and the dataset")

	protected := func(r *jobsv1.SubmitJobRequest) { r.Spec.Bindings.Datasets["train"] = "ds/default/protected@1" }
	_, err := w.jobs().SubmitJob(w.as(alice()), w.request(protected, func(r *jobsv1.SubmitJobRequest) { r.Spec.Resources.Pools[0].Pool = "tpu" }))
	require.True(t, fault.HasCode(err, "hardware"), "%v", err)
	require.Equal(t, once, w.catalog.called(), "a refused submission must record no use of a protected dataset")
	_, err = w.jobs().PreflightJob(w.as(alice()), &jobsv1.PreflightJobRequest{Api: "service/v1", Spec: w.request(protected).GetSpec()})
	require.NoError(t, err)
	require.Equal(t, once, w.catalog.called(), "a preflight must record no use of a protected dataset")
	w.submit(protected)
	require.Equal(t, []string{"ResolveSubmission", "ResolveBindings"}, w.catalog.called())
}

// The files of large datasets are listed after the gates, so that no message contains all of them.
func TestSubmitLargeDatasets(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	w.catalog.mu.Lock()
	w.catalog.large = true
	w.catalog.mu.Unlock()
	j := w.submit()
	require.Equal(t, []string{"ResolveSubmission", "ListBindingFiles"}, w.catalog.called())
	var raw []byte
	require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT template FROM job WHERE id = $1`, j.GetId()).Scan(&raw))
	spec := &jobsv1.AttemptSpec{}
	require.NoError(t, proto.Unmarshal(raw, spec))
	require.Len(t, spec.GetDatasets()[0].GetFiles(), 2)
	require.Equal(t, "blob://projects/p/blobs/bb", spec.GetDatasets()[0].GetFiles()[1].GetUri())
	w.catalog.mu.Lock()
	w.catalog.changed = true
	w.catalog.mu.Unlock()
	_, err := w.jobs().SubmitJob(w.as(alice()), w.request())
	require.True(t, fault.HasCode(err, "binding_changed"), "%v", err)
}

func TestSubmitRepeated(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	ctx := keyed(w.as(alice()), "once")
	first, err := w.jobs().SubmitJob(ctx, w.request())
	require.NoError(t, err)
	// The repeated request gets the stored response, even if the gates would now refuse it.
	w.catalog.mu.Lock()
	delete(w.catalog.versions, "demo/chat-tiny")
	w.catalog.mu.Unlock()
	second, err := w.jobs().SubmitJob(ctx, w.request())
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(first, second, protocmp.Transform()))
	_, err = w.jobs().SubmitJob(ctx, w.request(func(r *jobsv1.SubmitJobRequest) { r.Spec.Name = "other" }))
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	require.Equal(t, 1, w.count("job"))
}

func TestSubmitRepeatedConcurrently(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	ids := make(chan string, 10)
	for range 10 {
		go func() {
			j, err := w.jobs().SubmitJob(keyed(w.as(alice()), "race"), w.request())
			if err != nil {
				ids <- err.Error()
				return
			}
			ids <- j.GetId()
		}()
	}
	first := <-ids
	for range 9 {
		require.Equal(t, first, <-ids)
	}
	require.Equal(t, 1, w.count("job"))
}

func TestJobAccess(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	member := user("alice", authn.RoleOperator, authn.ProjectRole{Project: "prj_search", Role: authn.ProjectEditor})
	open := w.submit()
	hidden, err := w.jobs().SubmitJob(w.as(member), w.request(func(r *jobsv1.SubmitJobRequest) { r.Spec.Project = "search" }))
	require.NoError(t, err)
	bob := user("bob", authn.RoleOperator)
	viewer := user("vera", authn.RoleOperator, authn.ProjectRole{Project: "prj_search", Role: authn.ProjectViewer})

	_, err = w.jobs().GetJob(w.as(bob), &jobsv1.GetJobRequest{JobId: hidden.GetId()})
	absent := "job_" + hidden.GetId()[4:29] + "0"
	_, unknown := w.jobs().GetJob(w.as(bob), &jobsv1.GetJobRequest{JobId: absent})
	require.True(t, fault.Is(err, fault.Absent) && fault.Is(unknown, fault.Absent))
	require.Equal(t, "no such job: "+hidden.GetId(), fault.From(err).Text())
	require.Equal(t, "no such job: "+absent, fault.From(unknown).Text())
	_, err = w.runs().GetRun(w.as(bob), &jobsv1.GetRunRequest{RunId: hidden.GetRunId()})
	require.True(t, fault.Is(err, fault.Absent))
	_, err = w.jobs().StopJob(w.as(bob), &jobsv1.StopJobRequest{JobId: hidden.GetId()})
	require.True(t, fault.Is(err, fault.Absent), "a hidden job must look absent, not forbidden")
	_, err = w.jobs().StopJob(w.as(bob), &jobsv1.StopJobRequest{JobId: open.GetId()})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.jobs().GetJob(w.as(viewer), &jobsv1.GetJobRequest{JobId: hidden.GetId()})
	require.NoError(t, err)
	_, err = w.jobs().StopJob(w.as(viewer), &jobsv1.StopJobRequest{JobId: hidden.GetId()})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	list, err := w.jobs().ListJobs(w.as(bob), &jobsv1.ListJobsRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetJobs(), 1)
	_, err = w.jobs().GetJob(w.as(bob), &jobsv1.GetJobRequest{JobId: "job_1"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)

	stopped, err := w.jobs().StopJob(w.as(admin()), &jobsv1.StopJobRequest{JobId: hidden.GetId()})
	require.NoError(t, err)
	require.Equal(t, jobsv1.JobState_JOB_STATE_STOPPED, stopped.GetState())
	require.Equal(t, "admin_stop", stopped.GetEndReason())
	require.Equal(t, "stopped", (<-w.ingest.closed).GetState())
	_, err = w.jobs().StopJob(w.as(admin()), &jobsv1.StopJobRequest{JobId: hidden.GetId()})
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
}

func TestListJobsPaging(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.fleet("cpu")
	var ids []string
	for range 5 {
		ids = append(ids, w.submit().GetId())
	}
	two, one := int32(2), int32(1)
	page, err := w.jobs().ListJobs(w.as(alice()), &jobsv1.ListJobsRequest{Limit: &two, Offset: &one})
	require.NoError(t, err)
	require.Len(t, page.GetJobs(), 2)
	require.Equal(t, ids[3], page.GetJobs()[0].GetId(), "jobs must be listed newest first")
	state := "running"
	page, err = w.jobs().ListJobs(w.as(alice()), &jobsv1.ListJobsRequest{State: &state})
	require.NoError(t, err)
	require.Empty(t, page.GetJobs())
	state = "sleeping"
	_, err = w.jobs().ListJobs(w.as(alice()), &jobsv1.ListJobsRequest{State: &state})
	require.True(t, fault.Is(err, fault.Invalid))
	runs, err := w.runs().ListRuns(w.as(alice()), &jobsv1.ListRunsRequest{})
	require.NoError(t, err)
	require.Empty(t, runs.GetRuns(), "live runs must be listed only on request")
	all := "all"
	runs, err = w.runs().ListRuns(w.as(alice()), &jobsv1.ListRunsRequest{State: &all})
	require.NoError(t, err)
	require.Len(t, runs.GetRuns(), 5)
}
