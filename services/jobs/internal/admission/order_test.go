package admission

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// spoils returns, for each gate in order, a change that makes a draft fail at this gate.
func spoils() []struct {
	gate  string
	spoil func(d *Draft)
} {
	return []struct {
		gate  string
		spoil func(d *Draft)
	}{
		{Dialect, func(d *Draft) { d.API = "service/v0" }},
		{Environment, func(d *Draft) { d.Spec.Env = map[string]string{"LD_AUDIT": "x"} }},
		{Package, func(d *Draft) { d.Spec.Source.Package = "pkg_none" }},
		{Entrypoint, func(d *Draft) { d.Spec.Source.Entrypoint = "python evil.py" }},
		{Recipe, func(d *Draft) { d.Spec.Recipe.Lock.Framework.RuntimeID = "other" }},
		{Hparams, func(d *Draft) { d.Spec.Hparams = []byte(`{"optim.lr": 9}`) }},
		{Project, func(d *Draft) { d.Spec.Project = "nope" }},
		{Bindings, func(d *Draft) { d.Spec.Bindings.Datasets["train"] = "ds/default/absent@1" }},
		{Image, func(d *Draft) { d.Spec.Image = &jobspec.Image{Ref: "quay.io/a/b"} }},
		{Quota, func(d *Draft) {
			d.Spec.Resources.Pools = append(d.Spec.Resources.Pools, job.Pool{Pool: "empty", Nodes: 1, GPUsPerNode: 9})
		}},
		{Hardware, func(d *Draft) {
			d.Spec.Resources.Pools = append(d.Spec.Resources.Pools, job.Pool{Pool: "tpu", Nodes: 1})
		}},
		{Containers, func(d *Draft) {
			if d.Spec.Image == nil {
				d.Spec.Image = &jobspec.Image{Ref: "ghcr.io/a/b"}
			}
		}},
	}
}

// recorder is like fixed, but records the lookups.
type recorder struct {
	fixed
	names []string
}

func (a *recorder) Resolve(ctx context.Context, recipe jobspec.RecipeRef, p jobspec.PackageRef, b jobspec.Bindings) (*jobspec.Resolved, error) {
	a.names = append(a.names, "registry")
	return a.fixed.Resolve(ctx, recipe, p, b)
}

func (a *recorder) Bind(ctx context.Context, b jobspec.Bindings) (*jobspec.Inputs, error) {
	a.names = append(a.names, "bind "+b.Datasets["train"])
	return a.fixed.Bind(ctx, b)
}

func (a *recorder) Project(ctx context.Context, key string) (*ProjectFacts, error) {
	a.names = append(a.names, "project")
	return a.fixed.Project(ctx, key)
}

func (a *recorder) Pool(ctx context.Context, name string) (PoolFacts, error) {
	a.names = append(a.names, "pool "+name)
	return a.fixed.Pool(ctx, name)
}

func (a *recorder) Of(ctx context.Context, user string) (quota.Account, error) {
	a.names = append(a.names, "account")
	return a.fixed.Of(ctx, user)
}

// For every pair of faults, the fault of the earlier gate is reported, and no lookup for a later gate is made.
func TestRunReportsFirstFaultAndSkipsLaterLookups(t *testing.T) {
	t.Parallel()
	all := []string{"registry", "project", "account", "pool gpu"}
	lookups := map[string]int{ // by gate: the number of lookups that Run makes before this gate can refuse
		Dialect: 0, Environment: 0, Package: 0, Entrypoint: 0, Recipe: 1, Hparams: 1, Project: 2, Bindings: 2,
		Image: 2, Quota: 3, Hardware: 4, Containers: 4,
	}
	for i, first := range spoils() {
		for _, second := range spoils()[i:] {
			w := &recorder{}
			d := draft()
			second.spoil(d)
			first.spoil(d)
			err := Run(submitting(t, d), (&Inputs{Catalog: w, Projects: w, Pools: w, Accounts: w, Registries: []string{"ghcr.io"}}).Gates(), d)
			require.Equal(t, first.gate, fault.From(err).Code, "the refusal must come from %s, although %s would refuse too: %v", first.gate, second.gate, err)
			require.Contains(t, fault.From(err).Text(), first.gate+": ", "the detail must name the gate")
			made := slices.DeleteFunc(w.names, func(n string) bool { return n == "pool tpu" || n == "pool empty" })
			require.Equal(t, all[:lookups[first.gate]], append([]string{}, made...), "the gates made unexpected lookups if %s refuses and %s would refuse too", first.gate, second.gate)
		}
	}
}

func TestInputs_Bind_recordsProtectedDatasetsOnly(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string][]string{
		"ds/default/pairs@1":          {"registry"},
		"ds/default/protected@latest": {"registry", "bind ds/default/protected@7"},
	} {
		w, d := &recorder{}, draft()
		d.Spec.Bindings.Datasets["train"] = ref
		in := &Inputs{Catalog: w, Projects: fixed{}, Pools: fixed{}, Accounts: fixed{}}
		require.NoError(t, Run(submitting(t, d), in.Gates(), d))
		require.Equal(t, []string{"registry"}, w.names, "the gates must record nothing")
		require.NoError(t, in.Bind(t.Context(), d))
		require.Equal(t, want, w.names, "the exact version must be bound")
	}
	d := draft()
	d.Inputs = &jobspec.Inputs{Protected: true, Datasets: []jobspec.Bound{{Name: "train", Ref: "ds/default/absent@1"}}}
	require.Equal(t, Bindings, fault.From(newInputs().Bind(t.Context(), d)).Code, "the call must be refused if the caller has lost access since the gates")
}

// A preflight reports the recipe gate even if the package is refused.
func TestRunAllResolvesRecipeWithoutRefusedPackage(t *testing.T) {
	t.Parallel()
	d := draft()
	d.Spec.Recipe.Name, d.Spec.Recipe.Lock.Name = CustomRecipe, CustomRecipe
	d.Spec.Source.Command, d.Spec.Source.Package = []string{"python", "x.py"}, "pkg_key"
	got, err := RunAll(submitting(t, d), newInputs().Gates(), d)
	require.NoError(t, err)
	for _, v := range got {
		require.Equal(t, v.Gate != Package, v.Status == Pass, v.Gate)
	}
}

// A request above the account's limit is refused as quota, whatever hardware the pools have: a new installation may
// have no GPU node at all. The specification defines no order of the gates; it only states that the quota gate refuses
// a request for more GPUs than the account may hold.
func TestQuotaRefusalIndependentOfPoolHardware(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pools []job.Pool
		gate  string
		text  string
	}{
		"at the limit": {[]job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 8}}, "", ""},
		"over, pool has enough": {
			[]job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 8}, {Pool: "gpu", Nodes: 1, GPUsPerNode: 1}}, Quota, "quota: requested 9 GPUs, 8 available",
		},
		"over, pool without nodes": {[]job.Pool{{Pool: "empty", Nodes: 2, GPUsPerNode: 8}}, Quota, "quota: requested 16 GPUs, 8 available"},
		"over, summed over pools": {
			[]job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 4}, {Pool: "empty", Nodes: 5, GPUsPerNode: 1}}, Quota, "quota: requested 9 GPUs, 8 available",
		},
		"over, nodes without GPUs":           {[]job.Pool{{Pool: "cpu", Nodes: 2, GPUsPerNode: 8}}, Quota, "quota: requested 16 GPUs, 8 available"},
		"over, more than any node has":       {[]job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 9}}, Quota, "quota: requested 9 GPUs, 8 available"},
		"over, more nodes than the pool has": {[]job.Pool{{Pool: "gpu", Nodes: 3, GPUsPerNode: 4}}, Quota, "quota: requested 12 GPUs, 8 available"},
		"over, unknown pool":                 {[]job.Pool{{Pool: "tpu", Nodes: 2, GPUsPerNode: 8}}, Quota, "quota: requested 16 GPUs, 8 available"},
		"at the limit, nodes without GPUs":   {[]job.Pool{{Pool: "cpu", Nodes: 1, GPUsPerNode: 8}}, Hardware, ""},
		"no GPUs, many nodes":                {[]job.Pool{{Pool: "empty", Nodes: 1000}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := draft()
			d.Spec.Resources.Pools = c.pools
			err := Run(submitting(t, d), newInputs().Gates(), d)
			if c.gate == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, c.gate, fault.From(err).Code, "%v", err)
			require.Equal(t, c.gate == Quota, fault.From(err).Kind == fault.Forbidden)
			if c.text != "" {
				require.Equal(t, c.text, fault.From(err).Text())
			}
		})
	}
}

func TestCheckEnvironmentReservedNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "ld_preload", "DYLD_INSERT_LIBRARIES", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
		"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
		"SERVICE_JOB_TOKEN", "Service_Job_Run_Id", "SERVICE_JOB_ENABLED", "PYTHONPATH", "PYTHONHOME", "PIP_INDEX_URL", "UV_CACHE_DIR",
		"BASH_ENV", "ENV", "IFS", "PATH", "HOME", "TMPDIR", "BASH_FUNC_x", "GCONV_PATH", "NODE_OPTIONS", "GIT_SSH_COMMAND", "KUBEFLOW_TRAINER_SERVER_URL",
	} {
		d := &Draft{Spec: jobspec.Spec{Env: map[string]string{name: "x"}}}
		require.Equal(t, Environment, fault.From(checkEnvironment(d)).Code, name)
	}
	for _, name := range []string{"WANDB_MODE", "MY_PATH", "HF_HOME", "OMP_NUM_THREADS", "_x", "CUDA_LAUNCH_BLOCKING", "TOKENIZERS_PARALLELISM"} {
		require.NoError(t, checkEnvironment(&Draft{Spec: jobspec.Spec{Env: map[string]string{name: "x"}}}), name)
	}
	for size, ok := range map[int]bool{maxEnvValue: true, maxEnvValue + 1: false} {
		d := &Draft{Spec: jobspec.Spec{Env: map[string]string{"A": fmt.Sprintf("%0*d", size, 0)}}}
		require.Equal(t, ok, checkEnvironment(d) == nil, "wrong result for a value of %d bytes", size)
	}
}
