package jobspec

import (
	"context"
	"encoding/json"
	"fmt"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
)

// Registry is the catalog backed by the registry service.
type Registry struct {
	Client registrypeerv1.CatalogPeerServiceClient
}

// Resolve returns all that a submission refers to, in one call and with the permissions of the caller in ctx.
// packageID is empty if the submission has no package. If the registry does not accept the package, Resolve returns
// the refusal of the package's gate.
func (c *Registry) Resolve(ctx context.Context, recipe, packageID string, b Bindings) (*Resolved, error) {
	resp, err := c.Client.ResolveSubmission(ctx, &registrypeerv1.ResolveSubmissionRequest{
		Recipe: recipe, PackageId: packageID, Bindings: bindingsToProto(b),
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
	return &registrypeerv1.ResolveBindingsRequest{Datasets: b.Datasets, Model: b.Model}
}

func recipeFromProto(v *registrypeerv1.CatalogRecipe) (Recipe, error) {
	r := v.GetRecipe()
	recipe := Recipe{
		Name: r.GetName(), Version: r.GetVersion(), Digest: r.GetDigest(), State: r.GetState(),
		Framework:    Framework{Name: r.GetFramework().GetName(), RuntimeID: r.GetFramework().GetRuntimeId(), Image: r.GetFramework().GetImage()},
		ParamsSchema: r.GetParamsSchema(), RequiredDatasets: v.GetRequiredDatasets(), Entrypoint: v.GetEntrypoint(), Resumable: r.GetResumable(),
		Package: objectFromProto(v.GetPackage()), Environment: environmentFromProto(v.GetEnvironment()),
	}
	if len(r.GetInputs()) > 0 {
		if err := json.Unmarshal(r.GetInputs(), &recipe.Inputs); err != nil {
			return Recipe{}, fmt.Errorf("read the inputs of recipe %s: %w", r.GetName(), err)
		}
	}
	return recipe, nil
}

func inputsFromProto(m *registrypeerv1.ResolveBindingsResponse) *Inputs {
	in := &Inputs{Unknown: m.GetUnknown(), Unreadable: m.GetUnreadable(), Protected: m.GetProtected()}
	for _, d := range m.GetDatasets() {
		in.Datasets = append(in.Datasets, Bound{
			Name: d.GetName(), Ref: d.GetRef(), Digest: d.GetDigest(), Files: objectsFromProto(d.GetFiles()),
		})
	}
	if model := m.GetModel(); model.GetRef() != "" {
		in.Model = &Bound{Ref: model.GetRef(), Digest: model.GetDigest(), Files: objectsFromProto(model.GetFiles())}
	}
	return in
}
