package jobapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/admission"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// unsetPaths returns the paths of the empty fields of a message and of the messages in it.
func unsetPaths(m protoreflect.Message, prefix string) (open []string) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		path := prefix + string(f.Name())
		switch {
		case !m.Has(f):
			open = append(open, path)
		case f.IsMap() || f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			open = append(open, unsetPaths(m.Get(f).List().Get(0).Message(), path+".0.")...)
		default:
			open = append(open, unsetPaths(m.Get(f).Message(), path+".")...)
		}
	}
	return open
}

func TestTemplate_fillsAttemptSpec(t *testing.T) {
	t.Parallel()
	spec := jobspec.Spec{
		Hparams: []byte(`{"b":2,"a":1}`), Env: map[string]string{"K": "V"}, Seed: new(int64(7)), Source: jobspec.Source{Command: []string{"c"}},
		Resources: jobspec.Resources{Pools: []job.Pool{{Pool: "gpu", Nodes: 2, GPUsPerNode: 4, CPU: 8, MemoryGB: 16}}},
		Network:   jobspec.NetworkNone,
	}
	d := &admission.Draft{
		Spec: spec,
		Recipe: &jobspec.Recipe{
			Name: "r/n", Version: "1", Digest: "sha256:d", Entrypoint: []string{"python", "-m", "x"},
			Package:     &jobspec.Object{Path: ".", URI: "blob://p", Size: 3, SHA256: "aa", Unpack: true},
			Environment: &jobspec.Environment{Requirements: "numpy", Digest: "sha256:e", SDK: true},
		},
		Inputs: &jobspec.Inputs{
			Datasets: []jobspec.Bound{{Name: "train", Ref: "ds/p/n@1", Digest: "sha256:t", Files: []jobspec.Object{{Path: "a", URI: "blob://a", Size: 1, SHA256: "bb"}}}},
			Model:    &jobspec.Bound{Ref: "mdl/p/n@1", Digest: "sha256:m", Format: "gguf", Files: []jobspec.Object{{Path: "m", URI: "blob://m"}}},
		},
	}
	raw, err := template(d, "job_1", "run_1")
	require.NoError(t, err)
	got := &jobsv1.AttemptSpec{}
	require.NoError(t, proto.Unmarshal(raw, got))
	want := &jobsv1.AttemptSpec{
		JobId: "job_1", RunId: "run_1", Recipe: "r/n", RecipeVersion: "1", RecipeDigest: "sha256:d", Seed: 7, GraceS: 30,
		Package:     &jobsv1.ObjectRef{Path: ".", Uri: "blob://p", SizeBytes: 3, Sha256: "aa", Unpack: true},
		Environment: &jobsv1.EnvironmentSpec{Requirements: "numpy", Digest: "sha256:e", Sdk: true},
		Command:     []string{"python", "-m", "x"}, Hparams: []byte(`{"b":2,"a":1}`), Env: map[string]string{"K": "V"},
		Datasets: []*jobsv1.DatasetInput{{Name: "train", Ref: "ds/p/n@1", Digest: "sha256:t", Files: []*jobsv1.ObjectRef{{Path: "a", Uri: "blob://a", SizeBytes: 1, Sha256: "bb"}}}},
		Model:    &jobsv1.ModelInput{Ref: "mdl/p/n@1", Digest: "sha256:m", Format: "gguf", Files: []*jobsv1.ObjectRef{{Path: "m", Uri: "blob://m"}}},
		Limits:   &jobsv1.ResourceLimits{Cpus: 8, MemoryBytes: 16 << 30, Pids: 4096}, NoNetwork: true,
	}
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
	d.Pools = map[string]admission.PoolFacts{"gpu": {Processes: 512}}
	raw, err = template(d, "job_1", "run_1")
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(raw, got))
	require.EqualValues(t, 512, got.GetLimits().GetPids(), "the setting of the pool must replace the usual number")
	for _, other := range []string{"a", "z"} {
		d.Spec.Resources.Pools = []job.Pool{{Pool: min("gpu", other)}, {Pool: max("gpu", other)}}
		raw, err = template(d, "job_1", "run_1")
		require.NoError(t, err)
		require.NoError(t, proto.Unmarshal(raw, got))
		require.EqualValues(t, 512, got.GetLimits().GetPids(), "the stricter pool must keep its limit beside the pool %s", other)
	}
	for _, path := range unsetPaths(want.ProtoReflect(), "") {
		require.Contains(t, []string{
			"attempt", "ingest_endpoint", "limits.gpus", "datasets.0.files.0.unpack", "model.files.0.size_bytes",
			"model.files.0.sha256", "model.files.0.unpack", "resume", "environment.lock", "environment.python", "environment.project", "batch",
		}, path, "the template does not fill a field of the agent's spec")
	}

	d.Recipe.Name = admission.CustomRecipe
	raw, err = template(d, "job_1", "run_1")
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(raw, got))
	require.Equal(t, []string{"c"}, got.GetCommand(), "the custom recipe must run the user's command")
}

func TestTemplate_runtimeReplacesRecipeEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		runtime jobspec.Runtime
		want    *jobsv1.EnvironmentSpec
	}{
		{jobspec.Runtime{Requirements: "a/uv.lock"}, &jobsv1.EnvironmentSpec{Sdk: true, Lock: "a/uv.lock", Project: "prj_1"}},
		{jobspec.Runtime{Node: "cuda"}, &jobsv1.EnvironmentSpec{Sdk: true, Python: "cuda", Project: "prj_1"}},
	} {
		d := &admission.Draft{
			Spec:   jobspec.Spec{Hparams: []byte(`{}`), Seed: new(int64(7)), Runtime: &c.runtime},
			Recipe: &jobspec.Recipe{Name: "custom/custom", Environment: &jobspec.Environment{Requirements: "x", Digest: "sha256:e", SDK: true}},
			Inputs: &jobspec.Inputs{}, Project: &admission.ProjectFacts{ID: "prj_1"},
		}
		raw, err := template(d, "job_1", "run_1")
		require.NoError(t, err)
		got := &jobsv1.AttemptSpec{}
		require.NoError(t, proto.Unmarshal(raw, got))
		require.Empty(t, cmp.Diff(c.want, got.GetEnvironment(), protocmp.Transform()))
	}
}

// The environment of a lock belongs to the project of the job, not to the one that has published the recipe.
func TestTemplate_lockOfRecipe(t *testing.T) {
	t.Parallel()
	d := &admission.Draft{
		Spec:   jobspec.Spec{Hparams: []byte(`{}`), Seed: new(int64(7))},
		Recipe: &jobspec.Recipe{Name: "team/own", Environment: &jobspec.Environment{Lock: "lock.txt", SDK: true}},
		Inputs: &jobspec.Inputs{}, Project: &admission.ProjectFacts{ID: "prj_1"},
	}
	raw, err := template(d, "job_1", "run_1")
	require.NoError(t, err)
	got := &jobsv1.AttemptSpec{}
	require.NoError(t, proto.Unmarshal(raw, got))
	want := &jobsv1.EnvironmentSpec{Sdk: true, Lock: "lock.txt", Project: "prj_1"}
	require.Empty(t, cmp.Diff(want, got.GetEnvironment(), protocmp.Transform()))
}

func TestTemplate_submittedPackageReplacesRecipePackage(t *testing.T) {
	t.Parallel()
	d := &admission.Draft{
		Spec:    jobspec.Spec{Hparams: []byte(`{}`), Seed: new(int64(7)), Resources: jobspec.Resources{Pools: []job.Pool{{Pool: "gpu", Nodes: 1}}}},
		Recipe:  &jobspec.Recipe{Name: "custom/custom", Package: &jobspec.Object{URI: "blob://recipe"}},
		Package: &jobspec.Object{URI: "blob://mine", Unpack: true}, Inputs: &jobspec.Inputs{},
	}
	raw, err := template(d, "job_1", "run_1")
	require.NoError(t, err)
	got := &jobsv1.AttemptSpec{}
	require.NoError(t, proto.Unmarshal(raw, got))
	require.Equal(t, "blob://mine", got.GetPackage().GetUri())
}
