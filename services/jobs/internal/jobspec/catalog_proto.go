package jobspec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Registry is the catalog backed by the registry service.
type Registry struct {
	Client registrypeerv1.CatalogPeerServiceClient
}

// Resolve returns everything that a submission refers to and that the caller in ctx may see. If the registry
// does not accept the package or the lock in it, Resolve returns the refusal of the package's gate.
func (c *Registry) Resolve(ctx context.Context, recipe RecipeRef, p PackageRef, b Bindings) (*Resolved, error) {
	resp, err := c.Client.ResolveSubmission(ctx, &registrypeerv1.ResolveSubmissionRequest{
		Recipe: recipe.Name, Version: recipe.Version, PackageId: p.ID, Lock: p.Lock, Bindings: bindingsToProto(b),
	})
	if err != nil {
		return nil, err
	}
	out := &Resolved{Package: objectFromProto(resp.GetPackage()), Inputs: inputsFromProto(resp.GetBindings())}
	for _, v := range resp.GetVersions() {
		r, err := recipeFromProto(v)
		if err != nil {
			return nil, err
		}
		out.Recipes = append(out.Recipes, r)
	}
	return out, nil
}

// Bind resolves bindings again, for a job that is about to be admitted. The registry records that the job reads the
// protected datasets among them.
func (c *Registry) Bind(ctx context.Context, b Bindings) (*Inputs, error) {
	resp, err := c.Client.ResolveBindings(ctx, bindingsToProto(b))
	if err != nil {
		return nil, err
	}
	return inputsFromProto(resp), nil
}

func bindingsToProto(b Bindings) *registrypeerv1.ResolveBindingsRequest {
	return &registrypeerv1.ResolveBindingsRequest{Datasets: b.Datasets, Model: b.Model, FilesApart: true}
}

// maxFiles is the maximum number of input files of one job.
const maxFiles = 200_000

// Files adds the files to inputs that were resolved without them. It returns a conflict if an input has changed since.
func (c *Registry) Files(ctx context.Context, in *Inputs) error {
	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()
	exact := &registrypeerv1.ListBindingFilesRequest{Datasets: map[string]string{}}
	bound := map[string]*Bound{}
	for i, d := range in.Datasets {
		exact.Datasets[d.Name], bound[d.Name] = d.Ref, &in.Datasets[i]
	}
	if in.Model != nil {
		exact.Model, bound[""] = in.Model.Ref, in.Model
	}
	stream, err := c.Client.ListBindingFiles(ctx, exact)
	if err != nil {
		return err
	}
	for total := 0; ; {
		page, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			in.FilesApart = false
			return nil
		}
		if err != nil {
			return err
		}
		b := bound[page.GetName()]
		if b == nil || b.Digest != page.GetDigest() {
			return fault.New(fault.Conflict, "binding_changed", "an input of the job has changed; submit the job again")
		}
		if total += len(page.GetFiles()); total > maxFiles {
			return fault.New(fault.TooLarge, "too_many_files", "the inputs of the job have more than %d files; bind fewer datasets", maxFiles)
		}
		b.Files = append(b.Files, objectsFromProto(page.GetFiles())...)
	}
}

const filesTimeout = 30 * time.Second

func recipeFromProto(v *registrypeerv1.CatalogRecipe) (Recipe, error) {
	r := v.GetRecipe()
	recipe := Recipe{
		Name: r.GetName(), Version: r.GetVersion(), Digest: r.GetDigest(), State: r.GetState(),
		Framework:    Framework{Name: r.GetFramework().GetName(), RuntimeID: r.GetFramework().GetRuntimeId(), Image: r.GetFramework().GetImage()},
		ParamsSchema: r.GetParamsSchema(), RequiredDatasets: v.GetRequiredDatasets(), Entrypoint: v.GetEntrypoint(), Resumable: r.GetResumable(), Trusted: r.GetTrusted(),
		Package: objectFromProto(v.GetPackage()), Environment: environmentFromProto(v.GetEnvironment()),
	}
	if len(r.GetInputs()) > 0 {
		if err := json.Unmarshal(r.GetInputs(), &recipe.Inputs); err != nil {
			return Recipe{}, fmt.Errorf("read the inputs of recipe %s: %w", r.GetName(), err)
		}
	}
	var err error
	if recipe.Goals, err = readGoals(r.GetMetrics()); err != nil {
		return Recipe{}, fmt.Errorf("recipe %s: %w", r.GetName(), err)
	}
	if recipe.Disclosure, err = readDisclosure(r.GetMetrics(), r.GetOutputs(), r.GetParamsSchema()); err != nil {
		return Recipe{}, fmt.Errorf("recipe %s: %w", r.GetName(), err)
	}
	return recipe, nil
}

func inputsFromProto(m *registrypeerv1.ResolveBindingsResponse) *Inputs {
	in := &Inputs{
		Unknown: m.GetUnknown(), Unreadable: m.GetUnreadable(), Protected: m.GetProtected(), ProtectedDatasets: m.GetProtectedDatasets(),
		FilesApart: m.GetFilesApart(),
	}
	for _, d := range m.GetDatasets() {
		in.Datasets = append(in.Datasets, Bound{
			Name: d.GetName(), Ref: d.GetRef(), Digest: d.GetDigest(), Files: objectsFromProto(d.GetFiles()),
		})
	}
	if model := m.GetModel(); model.GetRef() != "" {
		in.Model = &Bound{Ref: model.GetRef(), Digest: model.GetDigest(), Format: model.GetFormat(), Files: objectsFromProto(model.GetFiles())}
	}
	return in
}
