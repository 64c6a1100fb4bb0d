package solution

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/environment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/recipe"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
	"github.com/signalbox-dev/signalbox/services/registry/internal/rubric"
)

// Catalog resolves bindings to the objects that they refer to.
type Catalog struct {
	Pool         *pgxpool.Pool
	Datasets     dataset.Store
	Models       model.Store
	Environments environment.Store
	Rubrics      rubric.Store
	Recipes      recipe.Store
	Seeder       *recipe.Seeder
}

// Resolved is the result of resolving bindings.
type Resolved struct {
	// Bindings are the references with exact versions.
	Bindings Bindings
	// Digests are the digests in the catalog, by binding name.
	Digests       map[string]string
	Taskset       environment.Taskset
	RubricVersion int32
}

// found is the catalog's entry for one reference.
type found struct {
	ref, digest string
	// latest is the reference of the newest version of the same object, or "" if no version can be used.
	latest string
	// retired means that new bindings must not use the version.
	retired    bool
	unreadable bool

	files   []dataset.File
	taskset environment.Taskset
	number  int32
}

// Resolve resolves bindings with the permissions of the caller. Versions that are unknown, hidden, not ready or retired
// cause the same error. If the caller can see but must not read an object, the error has kind fault.Forbidden.
func (c *Catalog) Resolve(ctx context.Context, b Bindings) (*Resolved, error) {
	out := &Resolved{Digests: map[string]string{}}
	var unknown, unreadable []string
	for _, p := range b.places() {
		f, err := c.find(ctx, p.name, *p.ref)
		switch {
		case err != nil:
			return nil, err
		case f == nil || f.retired:
			unknown = append(unknown, *p.ref)
			continue
		case f.unreadable:
			unreadable = append(unreadable, *p.ref)
			continue
		}
		*p.ref = f.ref
		out.Digests[p.name] = f.digest
		switch p.name {
		case BindTaskset:
			out.Taskset = f.taskset
		case BindRubric:
			out.RubricVersion = f.number
		}
	}
	out.Bindings = b
	switch {
	case len(unknown) > 0:
		return nil, refuse(GateBindings, "no such reference: %s", slices.Min(unknown))
	case len(unreadable) > 0:
		return nil, fault.New(fault.Forbidden, GateBindings, GateBindings+": you may not read %s", slices.Min(unreadable))
	case b.TrainDataset == b.ValidationDataset || out.Digests[BindTrain] == out.Digests[BindValidation]:
		return nil, refuse(GateValidation, "%s has the same content as the train dataset", b.ValidationDataset)
	}
	return out, nil
}

// place is one binding.
type place struct {
	name string
	ref  *string
}

func (b *Bindings) places() []place {
	return []place{
		{BindModel, &b.Model},
		{BindTrain, &b.TrainDataset},
		{BindValidation, &b.ValidationDataset},
		{BindTaskset, &b.Taskset},
		{BindRubric, &b.Rubric},
	}
}

// lifecycleArchived is the lifecycle of a model version that new bindings must not use.
const lifecycleArchived = "archived"

// find resolves one reference. It returns nil if no such version is visible to the caller.
func (c *Catalog) find(ctx context.Context, name, text string) (*found, error) {
	kind := map[string]ref.Kind{
		BindModel: ref.Model, BindTrain: ref.Dataset, BindValidation: ref.Dataset, BindTaskset: ref.Environment, BindRubric: ref.Rubric,
	}[name]
	r, ok := ref.Parse(kind, text)
	if !ok {
		return nil, nil //nolint:nilnil // an unknown reference is not an error
	}
	switch name {
	case BindModel:
		return c.model(ctx, r)
	case BindTaskset:
		return c.taskset(ctx, r)
	case BindRubric:
		return c.rubric(ctx, r)
	default:
		return c.dataset(ctx, r)
	}
}

func (c *Catalog) model(ctx context.Context, r ref.Ref) (*found, error) {
	m, v, err := c.Models.Find(ctx, c.Pool, authn.CallerOf(ctx).Reads(), r)
	if err != nil || v == nil {
		return nil, err
	}
	f := &found{ref: m.Ref(v.Number), digest: v.Digest, retired: v.Lifecycle == lifecycleArchived, number: v.Number}
	if m.Latest != nil {
		f.latest = m.Ref(*m.Latest)
	}
	return f, nil
}

func (c *Catalog) dataset(ctx context.Context, r ref.Ref) (*found, error) {
	caller := authn.CallerOf(ctx)
	d, v, err := c.Datasets.Find(ctx, c.Pool, caller.Reads(), r)
	if err != nil || v == nil {
		return nil, err
	}
	f := &found{
		ref: d.Ref(v.Version), digest: v.Digest, retired: v.State == dataset.StateArchived, unreadable: !d.Readable(caller), files: v.Manifest,
	}
	if d.Latest != nil {
		f.latest = d.Ref(*d.Latest)
	}
	return f, nil
}

func (c *Catalog) taskset(ctx context.Context, r ref.Ref) (*found, error) {
	e, v, err := c.Environments.Resolve(ctx, c.Pool, authn.CallerOf(ctx).Reads(), r)
	if err != nil || v == nil {
		return nil, err
	}
	f := &found{ref: e.Ref(v.Version), digest: v.Digest, retired: v.State == environment.StateDeprecated}
	if e.Latest != nil {
		f.latest = e.Ref(*e.Latest)
	}
	f.taskset, err = v.Taskset()
	return f, err
}

func (c *Catalog) rubric(ctx context.Context, r ref.Ref) (*found, error) {
	rb, v, err := c.Rubrics.Resolve(ctx, c.Pool, authn.CallerOf(ctx).Reads(), r)
	if err != nil || v == nil {
		return nil, err
	}
	f := &found{ref: rb.Ref(v.Number), digest: v.Digest, number: v.Number}
	if rb.Current != nil {
		f.latest = rb.Ref(*rb.Current)
	}
	return f, nil
}

// recipe finds the recipe of a manifest. It returns nil if the catalog has no recipe with that name and version.
func (c *Catalog) recipe(ctx context.Context, text string) (*found, error) {
	if err := c.Seeder.Await(ctx); err != nil {
		return nil, err
	}
	name, version, _ := split(text)
	versions, err := c.Recipes.Heads(ctx, c.Pool, authn.CallerOf(ctx).Reads(), name)
	if err != nil {
		return nil, err
	}
	var f *found
	for _, v := range versions {
		if v.Manifest.Version == version {
			f = &found{ref: text, digest: v.Digest, retired: v.State == recipe.StateWithdrawn}
		}
	}
	if newest := recipe.Newest(versions); f != nil && newest != nil {
		f.latest = name + "@" + newest.Manifest.Version
	}
	return f, nil
}
