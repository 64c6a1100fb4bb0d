package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// lab makes a draft run the user's own command on nodes of the pool, in the environment.
func lab(d *Draft, pool string, nodes int, runtime *jobspec.Runtime) {
	custom(d)
	d.Spec.Resources.Pools, d.Spec.Runtime = []job.Pool{{Pool: pool, Nodes: nodes}}, runtime
}

// own makes a draft run a recipe that a project has published, whose packages are in a lock.
func own(d *Draft, pool string) {
	lab(d, pool, 1, nil)
	d.Spec.Source.Command = nil
	d.Spec.Recipe.Name, d.Spec.Recipe.Lock.Name = "team/own", "team/own"
}

func TestRun_runtime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(d *Draft)
		kind   fault.Kind
		gate   string
		text   string
	}{
		"runtime's image from other registry": {func(d *Draft) {
			custom(d)
			d.Spec.Runtime = &jobspec.Runtime{Image: &jobspec.Image{Ref: "docker.io/library/x:1"}}
		}, fault.Refused, "image_registry", ""},
		"runtime's image": {func(d *Draft) {
			custom(d)
			d.Spec.Runtime = &jobspec.Runtime{Image: &jobspec.Image{Ref: "ghcr.io/a/b"}}
		}, fault.Unconfigured, "containers", "containers: pool gpu runs no containers; remove spec.runtime.image"},
		"runtime with other recipe": {
			func(d *Draft) { d.Spec.Runtime = &jobspec.Runtime{Node: "cuda"} }, fault.Refused, "environment",
			"environment: spec.runtime is allowed only for the recipe custom/custom; demo/chat-tiny brings its own environment",
		},
		"interpreter":                        {func(d *Draft) { lab(d, "lab", 2, &jobspec.Runtime{Node: "cuda"}) }, "", "", ""},
		"lock":                               {func(d *Draft) { lab(d, "lab", 1, &jobspec.Runtime{Requirements: "uv.lock"}) }, "", "", ""},
		"interpreter of nodes that may come": {func(d *Draft) { lab(d, "cpu", 1, &jobspec.Runtime{Node: "cuda"}) }, "", "", ""},
		"interpreter, pool without nodes":    {func(d *Draft) { lab(d, "empty", 1, &jobspec.Runtime{Node: "cuda"}) }, "", "", ""},
		"lock that the registry refuses": {func(d *Draft) {
			lab(d, "lab", 1, &jobspec.Runtime{Requirements: "bad.txt"})
			d.Spec.Source.Package = "pkg_good"
		}, fault.Refused, "package", "package: bad.txt, line 1: no"},
		"unknown interpreter": {
			func(d *Draft) { lab(d, "lab", 1, &jobspec.Runtime{Node: "cudb"}) }, fault.Refused, "hardware",
			"hardware: pool lab has 0 of the 1 requested nodes that offer the interpreter cudb; nodes of the pool offer cuda, jax",
		},
		"too few nodes with the interpreter": {
			func(d *Draft) { lab(d, "lab", 3, &jobspec.Runtime{Node: "cuda"}) }, fault.Refused, "hardware",
			"hardware: pool lab has 2 of the 3 requested nodes that offer the interpreter cuda; nodes of the pool offer cuda, jax",
		},
		"node with the interpreter too small": {func(d *Draft) {
			lab(d, "lab", 1, &jobspec.Runtime{Node: "cuda"})
			d.Spec.Resources.Pools[0].GPUsPerNode = 4
		}, fault.Refused, "hardware", ""},
		"node with the interpreter not isolated": {
			func(d *Draft) { lab(d, "lab", 2, &jobspec.Runtime{Node: "jax"}) }, fault.Forbidden, "isolation", "",
		},
		"pool without interpreters": {
			func(d *Draft) { lab(d, "old", 1, &jobspec.Runtime{Node: "cuda"}) }, fault.Refused, "hardware",
			"hardware: pool old has 0 of the 1 requested nodes that offer the interpreter cuda; no node of the pool offers an interpreter, an admin can add one with SERVICE_AGENT_PYTHONS",
		},
		"lock, agents of an earlier version": {
			func(d *Draft) { lab(d, "old", 1, &jobspec.Runtime{Requirements: "uv.lock"}) }, fault.Refused, "hardware",
			"hardware: pool old has 0 of the 1 requested nodes that build the environments of locks; upgrade the agents of its nodes, or choose another pool",
		},
		"lock of a project's recipe": {func(d *Draft) { own(d, "lab") }, "", "", ""},
		"lock of a project's recipe, agents of an earlier version": {
			func(d *Draft) { own(d, "old") }, fault.Refused, "hardware",
			"hardware: pool old has 0 of the 1 requested nodes that build the environments of locks; upgrade the agents of its nodes, or choose another pool",
		},
	} {
		d := draft()
		c.change(d)
		err := Run(submitting(t, d), newInputs().Gates(), d)
		if c.kind == "" {
			require.NoError(t, err, name)
			continue
		}
		f := fault.From(err)
		require.Equal(t, c.kind, f.Kind, "%s: %v", name, err)
		require.Equal(t, c.gate, f.Code, name)
		if c.text != "" {
			require.Equal(t, c.text, f.Text(), name)
		}
	}
}
