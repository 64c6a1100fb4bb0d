package jobspec

import (
	"context"
	"encoding/json"
	"fmt"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Registry is the catalog backed by the registry service.
type Registry struct {
	Client registrypeerv1.CatalogPeerServiceClient
}

// Recipe returns every version of a recipe, or none if the recipe is unknown.
func (c *Registry) Recipe(ctx context.Context, name string) ([]Recipe, error) {
	resp, err := c.Client.GetCatalogRecipe(ctx, &registrypeerv1.GetCatalogRecipeRequest{Name: name})
	if fault.Is(err, fault.Absent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	versions := make([]Recipe, 0, len(resp.GetVersions()))
	for _, v := range resp.GetVersions() {
		r := v.GetRecipe()
		recipe := Recipe{
			Name: r.GetName(), Version: r.GetVersion(), Digest: r.GetDigest(), State: r.GetState(),
			Framework:    Framework{Name: r.GetFramework().GetName(), RuntimeID: r.GetFramework().GetRuntimeId(), Image: r.GetFramework().GetImage()},
			ParamsSchema: r.GetParamsSchema(), RequiredDatasets: v.GetRequiredDatasets(), Entrypoint: v.GetEntrypoint(), Resumable: r.GetResumable(),
			Package: objectFromProto(v.GetPackage()), Environment: environmentFromProto(v.GetEnvironment()),
		}
		if len(r.GetInputs()) > 0 {
			if err := json.Unmarshal(r.GetInputs(), &recipe.Inputs); err != nil {
				return nil, fmt.Errorf("read the inputs of recipe %s: %w", name, err)
			}
		}
		versions = append(versions, recipe)
	}
	return versions, nil
}

// Package returns an accepted package, with the permissions of the caller in ctx.
func (c *Registry) Package(ctx context.Context, id string) (*Object, error) {
	resp, err := c.Client.ResolvePackage(ctx, &registrypeerv1.ResolvePackageRequest{PackageId: id})
	if err != nil {
		return nil, err
	}
	return objectFromProto(resp.GetObject()), nil
}

// Resolve resolves bindings with the permissions of the caller in ctx.
func (c *Registry) Resolve(ctx context.Context, b Bindings) (*Inputs, error) {
	resp, err := c.Client.ResolveBindings(ctx, &registrypeerv1.ResolveBindingsRequest{Datasets: b.Datasets, Model: b.Model})
	if err != nil {
		return nil, err
	}
	in := &Inputs{Unknown: resp.GetUnknown(), Unreadable: resp.GetUnreadable(), Protected: resp.GetProtected()}
	for _, d := range resp.GetDatasets() {
		in.Datasets = append(in.Datasets, Bound{
			Name: d.GetName(), Ref: d.GetRef(), Digest: d.GetDigest(), Files: objectsFromProto(d.GetFiles()),
		})
	}
	if m := resp.GetModel(); m != nil && m.GetRef() != "" {
		in.Model = &Bound{Ref: m.GetRef(), Digest: m.GetDigest(), Files: objectsFromProto(m.GetFiles())}
	}
	return in, nil
}
