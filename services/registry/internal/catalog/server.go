// Package catalog serves the jobs service: it lists recipes and resolves the references of a submission with the
// permissions of its submitter.
package catalog

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/codepackage"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/recipe"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// Server implements CatalogPeerService.
type Server struct {
	registrypeerv1.UnimplementedCatalogPeerServiceServer

	Pool     *pgxpool.Pool
	Recipes  recipe.Store
	Seeder   *recipe.Seeder
	Datasets dataset.Store
	Models   model.Store
	Bundles  codepackage.Store
	Audit    *audit.Log
}

// GetCatalogRecipe returns every version of a recipe.
func (s *Server) GetCatalogRecipe(
	ctx context.Context, in *registrypeerv1.GetCatalogRecipeRequest,
) (*registrypeerv1.GetCatalogRecipeResponse, error) {
	if err := s.Seeder.Await(ctx); err != nil {
		return nil, err
	}
	found, err := s.Recipes.VersionsOf(ctx, s.Pool, in.GetName())
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fault.Absentf("recipe", in.GetName())
	}
	out := &registrypeerv1.GetCatalogRecipeResponse{}
	for _, v := range found {
		entry, err := recipe.ToCatalog(v)
		if err != nil {
			return nil, err
		}
		out.Versions = append(out.Versions, entry)
	}
	return out, nil
}

// ResolveSubmission returns the versions of a recipe, an accepted package and the resolved bindings. An unknown recipe
// has no versions.
func (s *Server) ResolveSubmission(
	ctx context.Context, in *registrypeerv1.ResolveSubmissionRequest,
) (*registrypeerv1.ResolveSubmissionResponse, error) {
	out := &registrypeerv1.ResolveSubmissionResponse{}
	if in.GetPackageId() != "" {
		found, err := s.ResolvePackage(ctx, &registrypeerv1.ResolvePackageRequest{PackageId: in.GetPackageId()})
		if err != nil {
			return nil, err
		}
		out.Package = found.GetObject()
	}
	found, err := s.GetCatalogRecipe(ctx, &registrypeerv1.GetCatalogRecipeRequest{Name: in.GetRecipe()})
	if err != nil && !fault.Is(err, fault.Absent) {
		return nil, err
	}
	out.Versions = found.GetVersions()
	out.Bindings, _, err = s.resolve(ctx, in.GetBindings())
	return out, err
}

// ResolveBindings resolves references with the permissions of the end user on whose behalf the call is made. References
// that are unknown, hidden or not ready form one list; references that the user sees but may not read form another. If
// both are empty, it writes an audit entry for each protected dataset, in one transaction. Otherwise the submission is
// refused, and no job reads the datasets.
func (s *Server) ResolveBindings(
	ctx context.Context, in *registrypeerv1.ResolveBindingsRequest,
) (*registrypeerv1.ResolveBindingsResponse, error) {
	out, protected, err := s.resolve(ctx, in)
	if err != nil || len(protected) == 0 || len(out.GetUnknown())+len(out.GetUnreadable()) > 0 {
		return out, err
	}
	return out, pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		for _, v := range protected {
			err := s.Audit.Record(ctx, tx, audit.Entry{
				Action: "dataset.bind", TargetKind: dataset.SubjectKind, TargetID: v.DatasetID,
				After: map[string]any{"version": v.Version, "digest": v.Digest},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// resolve resolves references and writes nothing. It also returns the versions of protected datasets among them.
func (s *Server) resolve(
	ctx context.Context, in *registrypeerv1.ResolveBindingsRequest,
) (out *registrypeerv1.ResolveBindingsResponse, protected []*dataset.Version, err error) {
	out = &registrypeerv1.ResolveBindingsResponse{}
	for _, name := range slices.Sorted(maps.Keys(in.GetDatasets())) {
		v, err := s.resolveDataset(ctx, name, in.GetDatasets()[name], out)
		if err != nil {
			return nil, nil, err
		}
		if v != nil {
			protected = append(protected, v)
		}
	}
	if in.GetModel() == "" {
		return out, protected, nil
	}
	return out, protected, s.resolveModel(ctx, in.GetModel(), out)
}

// resolveDataset adds a reference to out. It returns the version if its dataset is protected.
func (s *Server) resolveDataset(
	ctx context.Context, name, text string, out *registrypeerv1.ResolveBindingsResponse,
) (protected *dataset.Version, err error) {
	caller := authn.CallerOf(ctx)
	r, ok := ref.Parse(ref.Dataset, text)
	if !ok {
		out.Unknown = append(out.Unknown, text)
		return nil, nil
	}
	d, v, err := s.Datasets.Resolve(ctx, s.Pool, caller.Reads(), r)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		out.Unknown = append(out.Unknown, text)
	case !d.Readable(caller):
		out.Unreadable = append(out.Unreadable, text)
	default:
		out.Datasets = append(out.Datasets, dataset.ToInput(name, d, v))
		if d.Protected {
			out.Protected = true
			return v, nil
		}
	}
	return nil, nil
}

// ResolvePackage returns an accepted package. For any other package it returns the error that refuses it.
func (s *Server) ResolvePackage(
	ctx context.Context, in *registrypeerv1.ResolvePackageRequest,
) (*registrypeerv1.ResolvePackageResponse, error) {
	b, err := s.Bundles.Get(ctx, s.Pool, authn.CallerOf(ctx).Reads(), in.GetPackageId())
	if fault.Is(err, fault.Absent) {
		return nil, codepackage.Refuse("no such package: %s", in.GetPackageId())
	}
	if err != nil {
		return nil, err
	}
	if err := b.Refusal(); err != nil {
		return nil, err
	}
	return &registrypeerv1.ResolvePackageResponse{Object: codepackage.ToObject(b)}, nil
}

func (s *Server) resolveModel(ctx context.Context, text string, out *registrypeerv1.ResolveBindingsResponse) error {
	r, ok := ref.Parse(ref.Model, text)
	if !ok {
		out.Unknown = append(out.Unknown, text)
		return nil
	}
	m, v, err := s.Models.Resolve(ctx, s.Pool, authn.CallerOf(ctx).Reads(), r)
	switch {
	case err != nil:
		return err
	case v == nil:
		out.Unknown = append(out.Unknown, text)
	default:
		out.Model = model.ToInput(m, v)
	}
	return nil
}
