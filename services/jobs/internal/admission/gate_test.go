package admission

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

func TestRunRefusalNamesGate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(d *Draft)
		kind   fault.Kind
		gate   string
		text   string
	}{
		"good":                      {func(*Draft) {}, "", "", ""},
		"dialect":                   {func(d *Draft) { d.API = "service/v2" }, fault.Refused, "dialect", "dialect: this control plane accepts service/v1, the submission uses service/v2"},
		"loader variable":           {func(d *Draft) { d.Spec.Env = map[string]string{"LD_PRELOAD": "x"} }, fault.Refused, "environment", "environment: LD_PRELOAD is reserved by the platform and cannot be set"},
		"platform variable":         {func(d *Draft) { d.Spec.Env = map[string]string{"service_job_token": "x"} }, fault.Refused, "environment", ""},
		"path":                      {func(d *Draft) { d.Spec.Env = map[string]string{"PATH": "x"} }, fault.Refused, "environment", ""},
		"python":                    {func(d *Draft) { d.Spec.Env = map[string]string{"PYTHONSTARTUP": "x"} }, fault.Refused, "environment", ""},
		"line breaks":               {func(d *Draft) { d.Spec.Env = map[string]string{"A": "x\r\ny\n"} }, "", "", ""},
		"NUL":                       {func(d *Draft) { d.Spec.Env = map[string]string{"A": "x\x00y"} }, fault.Refused, "environment", "environment: the value of A contains NUL"},
		"invalid variable name":     {func(d *Draft) { d.Spec.Env = map[string]string{"A=B": "x"} }, fault.Refused, "environment", ""},
		"plain variable":            {func(d *Draft) { d.Spec.Env = map[string]string{"WANDB_MODE": "offline"} }, "", "", ""},
		"entrypoint":                {func(d *Draft) { d.Spec.Source.Entrypoint = "x" }, fault.Refused, "entrypoint_override", ""},
		"command":                   {func(d *Draft) { d.Spec.Source.Command = []string{"x"} }, fault.Refused, "entrypoint_override", ""},
		"custom":                    {custom, "", "", ""},
		"custom, no command":        {func(d *Draft) { custom(d); d.Spec.Source.Command = nil }, fault.Refused, "entrypoint_override", ""},
		"package":                   {func(d *Draft) { custom(d); d.Spec.Source.Package = "pkg_good" }, "", "", ""},
		"no such package":           {func(d *Draft) { custom(d); d.Spec.Source.Package = "pkg_none" }, fault.Refused, "package", "package: no such package: pkg_none"},
		"package with a key":        {func(d *Draft) { custom(d); d.Spec.Source.Package = "pkg_key" }, fault.Refused, "sensitive_file", "sensitive_file: id_rsa may hold a secret; remove it from the package"},
		"package too large":         {func(d *Draft) { custom(d); d.Spec.Source.Package = "pkg_bomb" }, fault.TooLarge, "package", ""},
		"packages unavailable":      {func(d *Draft) { custom(d); d.Spec.Source.Package = "pkg_away" }, fault.Unavailable, "", ""},
		"package with other recipe": {func(d *Draft) { d.Spec.Source.Package = "pkg_good" }, fault.Refused, "package", "package: spec.source.package is allowed only for the recipe custom/custom; demo/chat-tiny brings its own code"},
		"unknown recipe":            {func(d *Draft) { d.Spec.Recipe.Name = "no/such" }, fault.Refused, "recipe_handshake", "recipe_handshake: the catalog has no recipe no/such"},
		"unknown version":           {func(d *Draft) { d.Spec.Recipe.Version = "7" }, fault.Refused, "recipe_handshake", ""},
		"withdrawn":                 {func(d *Draft) { d.Spec.Recipe.Version = "0.9.0" }, fault.Refused, "recipe_handshake", "recipe_handshake: version 0.9.0 of demo/chat-tiny is withdrawn; choose another version"},
		"lock's name":               {func(d *Draft) { d.Spec.Recipe.Lock.Name = "x/y" }, fault.Refused, "recipe_handshake", ""},
		"lock's version":            {func(d *Draft) { d.Spec.Recipe.Lock.Version = "0.9.0" }, fault.Refused, "recipe_handshake", "recipe_handshake: version is 0.9.0 in recipe.lock.json and 1.0.0 in the catalog; GET /api/recipes/{namespace}/{name}/versions/{version}/lock returns the current lock"},
		"lock's digest":             {func(d *Draft) { d.Spec.Recipe.Lock.Digest = "sha256:d2" }, fault.Refused, "recipe_handshake", ""},
		"lock's runtime":            {func(d *Draft) { d.Spec.Recipe.Lock.Framework.RuntimeID = "torch" }, fault.Refused, "recipe_handshake", ""},
		"registry unavailable":      {func(d *Draft) { d.Spec.Recipe.Name = "broken/catalog" }, fault.Unavailable, "", ""},
		"unknown parameter":         {func(d *Draft) { d.Spec.Hparams = []byte(`{"lr":1}`) }, fault.Refused, "hparams", "hparams: lr is not a parameter of the recipe; did you mean optim.lr?"},
		"parameter out of range":    {func(d *Draft) { d.Spec.Hparams = []byte(`{"optim.lr":0.2}`) }, fault.Refused, "hparams", "hparams: optim.lr must be at most 0.1, got 0.2"},
		"unknown project":           {func(d *Draft) { d.Spec.Project = "nope" }, fault.Refused, "project", "project: no such project: nope"},
		"hidden project":            {func(d *Draft) { d.Spec.Project = "team" }, fault.Refused, "project", "project: no such project: team"},
		"viewer of a project":       {func(d *Draft) { d.Spec.Project = "open" }, fault.Forbidden, "project", ""},
		"editor of a project": {func(d *Draft) {
			d.Spec.Project = "team"
			d.Caller.Projects = []authn.ProjectRole{{Project: "prj_team", Role: authn.ProjectEditor}}
		}, "", "", ""},
		"priority above the default": {
			func(d *Draft) { edits(d, "team"); d.Spec.Priority = 51 }, fault.Forbidden, "project",
			"project: priority 51 is above the default of 50; only owners of project team and admins may request it",
		},
		"priority above the default, default project": {
			func(d *Draft) { d.Spec.Priority = 100 }, fault.Forbidden, "project", "",
		},
		"default priority": {func(d *Draft) { d.Spec.Priority = 50 }, "", "", ""},
		"priority above the default, owner of the project": {func(d *Draft) {
			edits(d, "team")
			d.Caller.Projects[0].Role, d.Spec.Priority = authn.ProjectOwner, 100
		}, "", "", ""},
		"priority above the default, admin": {func(d *Draft) { d.Caller.Role, d.Spec.Priority = authn.RoleAdmin, 100 }, "", "", ""},
		"missing dataset":                   {func(d *Draft) { d.Spec.Bindings.Datasets = nil }, fault.Refused, "bindings", "bindings: the recipe demo/chat-tiny needs the dataset train"},
		"undeclared dataset":                {func(d *Draft) { d.Spec.Bindings.Datasets["extra"] = "ds/default/pairs@1" }, fault.Refused, "bindings", ""},
		"absent dataset":                    {func(d *Draft) { d.Spec.Bindings.Datasets["train"] = "ds/default/absent@1" }, fault.Refused, "bindings", "bindings: no such reference: ds/default/absent@1"},
		"hidden dataset":                    {func(d *Draft) { d.Spec.Bindings.Datasets["train"] = "ds/hidden/x@1" }, fault.Refused, "bindings", "bindings: no such reference: ds/hidden/x@1"},
		"unreadable dataset":                {func(d *Draft) { d.Spec.Bindings.Datasets["train"] = "ds/other/protected@1" }, fault.Forbidden, "bindings", ""},
		"model in another format": {func(d *Draft) {
			tune(d, "mdl/default/gguf@1")
		}, fault.Refused, "bindings", "bindings: the recipe sft/lora needs a model in the format safetensors; mdl/default/gguf@1 is in the format gguf"},
		"required model missing": {
			func(d *Draft) { tune(d, "") }, fault.Refused, "bindings",
			"bindings: the recipe sft/lora needs a model: bind the reference of a version, such as mdl/default/my-model@1",
		},
		"required model": {func(d *Draft) {
			tune(d, "mdl/default/base@1")
		}, "", "", ""},
		"protected dataset": {func(d *Draft) { d.Spec.Bindings.Datasets["train"] = "ds/default/protected@latest" }, "", "", ""},
		"protected, own command": {func(d *Draft) {
			custom(d)
			d.Spec.Bindings.Datasets = map[string]string{"train": "ds/default/protected@latest"}
		}, fault.Forbidden, "bindings", "bindings: the recipe custom/custom may not read protected data; " +
			"use a recipe that the installation ships, or one that an administrator trusts"},
		"retry of a protected run, own command": {func(d *Draft) {
			custom(d)
			d.Inherited = &Protection{Datasets: []string{"ds_1"}}
		}, fault.Forbidden, "bindings", ""},
		"image from other registry": {func(d *Draft) { d.Spec.Image = &jobspec.Image{Ref: "docker.io/library/x:1"} }, fault.Refused, "image_registry", "image_registry: the registry docker.io is not on the allowlist of this installation"},
		"image allowed":             {func(d *Draft) { d.Spec.Image = &jobspec.Image{Ref: "GHCR.io/a/b@sha256:" + hex64()} }, fault.Unconfigured, "containers", "containers: pool gpu runs no containers; remove spec.image"},
		"unknown pool":              {func(d *Draft) { d.Spec.Resources.Pools[0].Pool = "tpu" }, fault.Refused, "hardware", "hardware: pool tpu does not exist"},
		"too many GPUs":             {func(d *Draft) { d.Spec.Resources.Pools[0].Pool = "cpu" }, fault.Refused, "hardware", ""},
		"too many nodes": {func(d *Draft) {
			d.Spec.Resources.Pools[0] = job.Pool{Pool: "gpu", Nodes: 3, GPUsPerNode: 2}
		}, fault.Refused, "hardware", "hardware: pool gpu has 2 of the 3 requested nodes with 2 GPUs, 0 CPUs and 0 GB of memory each"},
		"default memory of the pool": {func(d *Draft) {
			d.Spec.Resources.Pools[0] = job.Pool{Pool: "small", Nodes: 1}
		}, fault.Refused, "hardware", "hardware: pool small has 0 of the 1 requested nodes with 0 GPUs, 0 CPUs and 65 GB of memory each"},
		"less than the default memory": {func(d *Draft) {
			d.Spec.Resources.Pools[0] = job.Pool{Pool: "small", Nodes: 1, MemoryGB: 64}
		}, "", "", ""},
		"enough isolated nodes": {func(d *Draft) {
			d.Spec.Resources.Pools[0] = job.Pool{Pool: "half", Nodes: 1, GPUsPerNode: 4}
		}, "", "", ""},
		"isolated node too small": {func(d *Draft) {
			d.Spec.Resources.Pools[0] = job.Pool{Pool: "half", Nodes: 1, GPUsPerNode: 5}
		}, fault.Forbidden, "isolation", "isolation: pool half has 0 of the 1 requested nodes that isolate the work they run; repair what its nodes report as boundary.problem, or have an admin permit work without isolation in the pool"},
		"too few isolated nodes, and an image": {func(d *Draft) {
			d.Spec.Resources.Pools[0] = job.Pool{Pool: "half", Nodes: 2}
			d.Spec.Image = &jobspec.Image{Ref: "GHCR.io/a/b@sha256:" + hex64()}
		}, fault.Forbidden, "isolation", ""},
		"no network": {func(d *Draft) {
			d.Spec.Network, d.Spec.Resources.Pools = "none", []job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 4}}
		}, "", "", ""},
		"no network, closing node too small": {func(d *Draft) {
			d.Spec.Network, d.Spec.Resources.Pools = "none", []job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 5}}
		}, fault.Forbidden, "isolation", "isolation: pool gpu has no suitable node that can run a job without network access; repair what its nodes report as boundary.network_problem, " +
			"use another pool, or submit the job without spec.network"},
		"no network, pool without nodes": {func(d *Draft) {
			d.Spec.Network, d.Spec.Resources.Pools = "none", []job.Pool{{Pool: "empty", Nodes: 1, GPUsPerNode: 5}}
		}, "", "", ""},
		"nodes of two pools": {func(d *Draft) {
			d.Spec.Resources.Pools = []job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 5}, {Pool: "gpu", Nodes: 2, GPUsPerNode: 1}}
		}, fault.Refused, "hardware", ""},
		"archived project":            {func(d *Draft) { edits(d, "old") }, fault.Conflict, "project", "project: project old is archived"},
		"archived, not an editor":     {func(d *Draft) { d.Spec.Project = "old" }, fault.Forbidden, "project", ""},
		"over the team's quota":       {func(d *Draft) { edits(d, "crew") }, fault.Forbidden, "quota", "quota: requested 8 GPUs, 4 available"},
		"quota held by a team waits":  {func(d *Draft) { edits(d, "crew"); d.Spec.Resources.Pools[0].GPUsPerNode = 4 }, "", "", ""},
		"another project has no team": {func(d *Draft) { edits(d, "team") }, "", "", ""},
		"over quota": {func(d *Draft) {
			d.Spec.Resources.Pools = []job.Pool{{Pool: "empty", Nodes: 2, GPUsPerNode: 8}}
		}, fault.Forbidden, "quota", "quota: requested 16 GPUs, 8 available"},
		"quota held by others waits": {func(d *Draft) {
			d.Spec.Resources.Pools = []job.Pool{{Pool: "empty", Nodes: 1, GPUsPerNode: 8}}
		}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := draft()
			c.change(d)
			err := Run(submitting(t, d), newInputs().Gates(), d)
			if c.kind == "" {
				require.NoError(t, err)
				return
			}
			f := fault.From(err)
			require.Equal(t, c.kind, f.Kind, "%v", err)
			require.Equal(t, c.gate, f.Code)
			if c.text != "" {
				require.Equal(t, c.text, f.Text())
			}
		})
	}
}

func hex64() string {
	out := ""
	for len(out) < 64 {
		out += "0123456789abcdef"
	}
	return out
}

func TestRunGateOrder(t *testing.T) {
	t.Parallel()
	var names []string
	for _, g := range newInputs().Gates() {
		names = append(names, g.Name)
	}
	require.Equal(t, []string{
		"dialect", "environment", "package", "entrypoint_override", "recipe_handshake", "hparams", "project", "bindings",
		"image_registry", "quota", "hardware", "isolation", "containers",
	}, names)
	d := draft()
	d.API, d.Spec.Source.Entrypoint, d.Spec.Resources.Pools[0].Pool = "x", "y", "z"
	require.Equal(t, "dialect", fault.From(Run(submitting(t, d), newInputs().Gates(), d)).Code)
	require.Nil(t, d.Recipe, "no lookup must be made after a refusal")
}

func TestCheckImageRegistryExactHost(t *testing.T) {
	t.Parallel()
	allowed := []string{"ghcr.io", "registry.example:5000"}
	for ref, want := range map[string]bool{
		"ghcr.io/a/b":             true,
		"GHCR.IO/a/b:tag":         true,
		"registry.example:5000/a": true,
		"registry.example/a":      false,
		"registry.example:5001/a": false,
		"evil-ghcr.io/a":          false,
		"ghcr.io.evil.example/a":  false,
		"ghcr.io:443/a":           false,
		"evil.example/ghcr.io/a":  false,
		"ghcr.io@evil.example/a":  false,
		"a/b":                     false,
		"busybox":                 false,
		"":                        false,
		"https://ghcr.io/a":       false,
		"ghcr.io/UPPER":           false,
	} {
		d := &Draft{Spec: jobspec.Spec{Image: &jobspec.Image{Ref: ref}}}
		require.Equal(t, want, checkImage(d, allowed) == nil, "%q", ref)
	}
	require.Error(t, checkImage(&Draft{Spec: jobspec.Spec{Image: &jobspec.Image{Ref: "ghcr.io/a"}}}, nil), "no registry must be allowed by default")
}

func TestCheckHparamsBrokenSchemaIsNotRefusal(t *testing.T) {
	t.Parallel()
	d := draft()
	d.Recipe = &jobspec.Recipe{ParamsSchema: []byte(`{"properties": 3}`)}
	err := checkHparams(d)
	require.Error(t, err)
	var f *fault.Error
	require.False(t, errors.As(err, &f), "a broken schema must not be reported as the user's fault")
}

func TestRunAllReportsRefusalAtNamedGate(t *testing.T) {
	t.Parallel()
	refuse := func(name string) func(context.Context, *Draft) error {
		return func(context.Context, *Draft) error { return Refuse(name, "no") }
	}
	never := func(context.Context, *Draft) error { panic("the gate was already refused") }
	got, err := RunAll(t.Context(), []Gate{
		{Name: Package, Check: refuse(archive.GateSensitive)}, {Name: Quota, Check: refuse(Hardware)}, {Name: Hardware, Check: never},
	}, &Draft{})
	require.NoError(t, err)
	lines := make([]string, 0, len(got))
	for _, v := range got {
		line := v.Gate + " " + string(v.Status)
		if v.Refusal != nil {
			line += " " + v.Refusal.Text()
		}
		lines = append(lines, line)
	}
	require.Equal(t, []string{"package fail sensitive_file: no", "quota skip", "hardware fail hardware: no"}, lines)
	down := fault.New(fault.Unavailable, "registry", "the registry is unavailable")
	_, err = RunAll(t.Context(), []Gate{{Name: Quota, Check: func(context.Context, *Draft) error { return down }}}, &Draft{})
	require.ErrorIs(t, err, down, "a failed lookup must not become a refusal")
}
