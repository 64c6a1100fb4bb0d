package admission

import (
	"context"
	"strings"
	"testing"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// fixed implements the lookups with constant results.
type fixed struct{}

func (f fixed) Resolve(_ context.Context, recipe jobspec.RecipeRef, p jobspec.PackageRef, b jobspec.Bindings) (*jobspec.Resolved, error) {
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
	out.Recipes, err = f.recipes(recipe.Name)
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
	case "sft/lora":
		return []jobspec.Recipe{{
			Name: name, Version: "1.0.0", Digest: "sha256:d1", State: "active", Framework: jobspec.Framework{RuntimeID: "np"},
			ParamsSchema: []byte(`{"properties":{"optim.lr":{"type":"number"}}}`),
			Inputs:       []jobspec.Input{{Name: "train", Kind: "dataset"}, {Name: "model", Kind: "model", Required: true, Format: "safetensors"}},
		}}, nil
	case "team/own":
		return []jobspec.Recipe{{
			Name: name, Version: "1.0.0", Digest: "sha256:d1", State: "active", Framework: jobspec.Framework{RuntimeID: "np"},
			Environment: &jobspec.Environment{Lock: "lock.txt", SDK: true},
		}}, nil
	case CustomRecipe:
		return []jobspec.Recipe{{Name: name, Version: "1.0.0", Digest: "sha256:d1", Framework: jobspec.Framework{RuntimeID: "np"}}}, nil
	case "broken/catalog":
		return nil, fault.New(fault.Unavailable, "", "the registry is unavailable")
	}
	return nil, nil
}

// tune makes the draft one of a recipe that needs a model.
func tune(d *Draft, model string) {
	d.Spec.Recipe.Name, d.Spec.Recipe.Lock.Name, d.Spec.Bindings.Model = "sft/lora", "sft/lora", model
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
	switch b.Model {
	case "mdl/default/gguf@1":
		in.Model = &jobspec.Bound{Ref: b.Model, Format: "gguf"}
	case "mdl/default/base@1":
		in.Model = &jobspec.Bound{Ref: b.Model, Format: "safetensors"}
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
