package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// fixed implements the lookups with constant results.
type fixed struct{}

func (f fixed) Resolve(_ context.Context, recipe string, p jobspec.PackageRef, b jobspec.Bindings) (*jobspec.Resolved, error) {
	out := &jobspec.Resolved{Inputs: f.inputs(b)}
	var err error
	if p.Lock == "bad.txt" {
		return nil, Refuse(Package, "bad.txt, line 1: no")
	}
	if p.ID != "" {
		if out.Package, err = f.pack(p.ID); err != nil {
			return nil, err
		}
	}
	out.Recipes, err = f.recipes(recipe)
	return out, err
}

func (fixed) Files(context.Context, *jobspec.Inputs) error { return nil }

func (f fixed) Bind(_ context.Context, b jobspec.Bindings) (*jobspec.Inputs, error) {
	return f.inputs(b), nil
}

func (fixed) recipes(name string) ([]jobspec.Recipe, error) {
	switch name {
	case "demo/chat-tiny":
		r := jobspec.Recipe{
			Name: name, Version: "1.0.0", Digest: "sha256:d1", State: "active", Framework: jobspec.Framework{RuntimeID: "np"},
			ParamsSchema: []byte(`{"additionalProperties":false,"properties":{"optim.lr":{"type":"number","maximum":0.1}}}`),
			Inputs:       []jobspec.Input{{Name: "train", Kind: "dataset"}, {Name: "model", Kind: "model"}}, RequiredDatasets: []string{"train"}, Trusted: true,
			Goals: map[string]string{"train/loss": jobspec.GoalMinimize},
		}
		old := r
		old.Version, old.Digest, old.State = "0.9.0", "sha256:d0", "withdrawn"
		return []jobspec.Recipe{old, r}, nil
	case CustomRecipe:
		return []jobspec.Recipe{{Name: name, Version: "1.0.0", Digest: "sha256:d1", Framework: jobspec.Framework{RuntimeID: "np"}}}, nil
	case "broken/catalog":
		return nil, fault.New(fault.Unavailable, "", "the registry is unavailable")
	}
	return nil, nil
}

func (fixed) inputs(b jobspec.Bindings) *jobspec.Inputs {
	in := &jobspec.Inputs{}
	for name, ref := range b.Datasets {
		switch ref {
		case "ds/default/absent@1", "ds/hidden/x@1":
			in.Unknown = append(in.Unknown, ref)
		case "ds/other/protected@1":
			in.Unreadable = append(in.Unreadable, ref)
		default:
			in.Protected = in.Protected || ref == "ds/default/protected@latest"
			in.Datasets = append(in.Datasets, jobspec.Bound{Name: name, Ref: strings.Replace(ref, "@latest", "@7", 1)})
		}
	}
	return in
}

func (fixed) pack(id string) (*jobspec.Object, error) {
	switch id {
	case "pkg_good":
		return &jobspec.Object{Path: "package.tar", URI: "blob://p", Unpack: true}, nil
	case "pkg_key":
		return nil, fault.New(fault.Refused, "sensitive_file", "sensitive_file: id_rsa may hold a secret; remove it from the package")
	case "pkg_bomb":
		return nil, fault.New(fault.TooLarge, "package", "package: the package unpacks to more than the installation's limit of 4096 MiB")
	case "pkg_away":
		return nil, fault.New(fault.Unavailable, "", "the registry is unavailable")
	}
	return nil, fault.New(fault.Refused, "package", "package: no such package: %s", id)
}

func (fixed) Project(_ context.Context, key string) (*ProjectFacts, error) {
	switch key {
	case "default", "open":
		return &ProjectFacts{ID: "prj_" + key, Key: key, Visibility: "all"}, nil
	case "team":
		return &ProjectFacts{ID: "prj_team", Key: key, Visibility: "team"}, nil
	case "crew":
		return &ProjectFacts{ID: "prj_crew", Key: key, Visibility: "all", TeamID: "team_crew"}, nil
	case "old":
		return &ProjectFacts{ID: "prj_old", Key: key, Visibility: "all", Archived: true}, nil
	}
	return nil, nil
}

func room(gpus int) job.Room { return job.Room{GPUs: gpus, CPUs: 16, Memory: 64 << 30} }

func (fixed) Pool(_ context.Context, name string) (PoolFacts, error) {
	switch name {
	case "empty":
		return PoolFacts{Known: true}, nil
	case "cpu":
		return PoolFacts{Known: true, Nodes: []NodeFacts{{ID: "c", Size: room(0), Permitted: true}, {ID: "d", Size: room(0), Permitted: true}}}, nil
	case "gpu":
		return PoolFacts{Known: true, Nodes: []NodeFacts{{ID: "a", Size: room(8), Permitted: true}, {ID: "b", Size: room(4), Permitted: true, ClosesNetwork: true}}}, nil
	case "lab":
		return PoolFacts{Known: true, Nodes: []NodeFacts{
			{ID: "h", Size: room(1), Permitted: true, Runtimes: []string{"node:cuda", "node:jax", "requirements"}},
			{ID: "i", Size: room(2), Permitted: true, Runtimes: []string{"node:cuda"}},
			{ID: "j", Size: room(4), Runtimes: []string{"node:jax"}},
		}}, nil
	case "old":
		return PoolFacts{Known: true, Nodes: []NodeFacts{{ID: "k", Size: room(0), Permitted: true, Runtimes: []string{}}}}, nil
	case "small":
		return PoolFacts{Known: true, MemoryGB: 65, Nodes: []NodeFacts{{ID: "g", Size: room(0), Permitted: true}}}, nil
	case "half":
		return PoolFacts{Known: true, Nodes: []NodeFacts{{ID: "e", Size: room(8)}, {ID: "f", Size: room(4), Permitted: true}}}, nil
	}
	return PoolFacts{}, nil
}

func (fixed) Of(context.Context, string) (quota.Account, error) {
	return quota.Account{Limit: 8, Held: 8}, nil
}

func (fixed) OfTeam(context.Context, string) (quota.Account, error) {
	return quota.Account{Limit: 4, Held: 4}, nil
}

// edits makes the caller an editor of a project and sets it as the submission's project.
func edits(d *Draft, project string) {
	d.Spec.Project, d.Caller.Projects = project, []authn.ProjectRole{{Project: "prj_" + project, Role: authn.ProjectEditor}}
}

func newInputs() *Inputs {
	return &Inputs{Catalog: fixed{}, Projects: fixed{}, Pools: fixed{}, Accounts: fixed{}, Registries: []string{"ghcr.io", "registry.example:5000"}}
}

// submitting returns the context of a call that submits a draft.
func submitting(t *testing.T, d *Draft) context.Context {
	t.Helper()
	return authn.WithNeed(authn.NewContext(t.Context(), d.Caller), authn.NeedEdit)
}

func draft() *Draft {
	return &Draft{
		API: jobspec.Dialect, Caller: &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator},
		Spec: jobspec.Spec{
			Name: "n", Project: "default", Hparams: []byte(`{"optim.lr":0.01}`),
			Recipe: jobspec.RecipeRef{Name: "demo/chat-tiny", Version: "1.0.0", Lock: jobspec.Lock{
				Name: "demo/chat-tiny", Version: "1.0.0", Digest: "sha256:d1", Framework: jobspec.Framework{RuntimeID: "np"},
			}},
			Bindings:  jobspec.Bindings{Datasets: map[string]string{"train": "ds/default/pairs@1"}},
			Resources: jobspec.Resources{Pools: []job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 8}}},
		},
	}
}

// custom makes a draft run the user's own command.
func custom(d *Draft) {
	d.Spec.Recipe.Name, d.Spec.Recipe.Lock.Name = CustomRecipe, CustomRecipe
	d.Spec.Bindings.Datasets = nil
	d.Spec.Source.Command = []string{"python", "x.py"}
}

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
		"withdrawn":                 {func(d *Draft) { d.Spec.Recipe.Version = "0.9.0" }, fault.Refused, "recipe_handshake", "recipe_handshake: version 0.9.0 of demo/chat-tiny is withdrawn"},
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
		"protected dataset":                 {func(d *Draft) { d.Spec.Bindings.Datasets["train"] = "ds/default/protected@latest" }, "", "", ""},
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
