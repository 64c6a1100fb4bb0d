// Package catalog connects the objects of the registry with runs. It serves the jobs service: it lists recipes and
// resolves the references in a submission with the permissions of the submitter. It shows users from what an object was
// made. Each object of a lineage is read with the rights of the caller, from the service that owns it; of a hidden or
// deleted object, a lineage shows only the kind. It also searches the objects of the registry by name and id, for
// GET /api/search.
package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
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
	Blobs    blob.Store
	Recipes  recipe.Store
	Seeder   *recipe.Seeder
	Datasets dataset.Store
	Models   model.Store
	Bundles  codepackage.Store
	Audit    *audit.Log
	Log      *slog.Logger

	missingPacks metric.Int64Counter
}

// New returns a Server; meters may be nil.
func New(
	pool *pgxpool.Pool, blobs blob.Store, seeder *recipe.Seeder, trail *audit.Log, log *slog.Logger, meters metric.MeterProvider,
) (*Server, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	const name = "registry_dataset_packs_missing_total"
	missing, err := meters.Meter("registry").Int64Counter(name,
		metric.WithDescription("inputs of jobs whose files are downloaded one by one because a pack of the dataset is missing"))
	if err != nil {
		return nil, fmt.Errorf("create the counter %s: %w", name, err)
	}
	return &Server{Pool: pool, Blobs: blobs, Seeder: seeder, Audit: trail, Log: log, missingPacks: missing}, nil
}

// maxCatalogRecipes is the maximum number of versions of a recipe in the response to GetCatalogRecipe.
const maxCatalogRecipes = 100

// GetCatalogRecipe returns the newest versions of a recipe.
func (s *Server) GetCatalogRecipe(
	ctx context.Context, in *registrypeerv1.GetCatalogRecipeRequest,
) (*registrypeerv1.GetCatalogRecipeResponse, error) {
	versions, err := s.versions(ctx, in.GetName(), "", maxCatalogRecipes)
	if err == nil && len(versions) == 0 {
		err = fault.Absentf("recipe", in.GetName())
	}
	if err != nil {
		return nil, err
	}
	return &registrypeerv1.GetCatalogRecipeResponse{Versions: versions}, nil
}

// versions returns the given version of a recipe, if the caller can see it, and other versions, at most limit in all.
func (s *Server) versions(ctx context.Context, name, version string, limit int) ([]*registrypeerv1.CatalogRecipe, error) {
	if err := s.Seeder.Await(ctx); err != nil {
		return nil, err
	}
	found, err := s.Recipes.Candidates(ctx, s.Pool, authn.CallerOf(ctx).Reads(), name, version, limit)
	if err != nil {
		return nil, err
	}
	var out []*registrypeerv1.CatalogRecipe
	for _, v := range found {
		entry, err := recipe.ToCatalog(v)
		if err != nil {
			return nil, err
		}
		out = append(out, entry)
	}
	return out, nil
}

// ResolveSubmission returns a version of a recipe, an accepted package and the resolved bindings. If the recipe has no
// such version, it returns another one; the list of versions is empty if the recipe is unknown or hidden.
func (s *Server) ResolveSubmission(
	ctx context.Context, in *registrypeerv1.ResolveSubmissionRequest,
) (*registrypeerv1.ResolveSubmissionResponse, error) {
	out := &registrypeerv1.ResolveSubmissionResponse{}
	if in.GetPackageId() != "" {
		found, err := s.bundle(ctx, in.GetPackageId())
		if err != nil {
			return nil, err
		}
		if err := codepackage.CheckLock(ctx, s.Blobs, found, in.GetLock(), "spec.runtime.requirements"); err != nil {
			return nil, err
		}
		out.Package = codepackage.ToObject(found)
	}
	limit := 1
	if in.GetVersion() == "" {
		limit = maxCatalogRecipes
	}
	versions, err := s.versions(ctx, in.GetRecipe(), in.GetVersion(), limit)
	if err != nil {
		return nil, err
	}
	out.Versions = versions
	out.Bindings, _, err = s.resolve(ctx, in.GetBindings())
	out.Bindings = apart(in.GetBindings(), out.GetBindings())
	return out, err
}

// ResolveBindings resolves references with the permissions of the end user on whose behalf the call is made. References
// that are unknown, not visible to the user or not ready form one list; references that the user can see but may not
// read form another. If both lists are empty, it writes an audit entry for each protected dataset, in one transaction.
// Otherwise the submission is refused, and no job reads the datasets.
func (s *Server) ResolveBindings(
	ctx context.Context, in *registrypeerv1.ResolveBindingsRequest,
) (*registrypeerv1.ResolveBindingsResponse, error) {
	out, protected, err := s.resolve(ctx, in)
	if err != nil || len(protected) == 0 || len(out.GetUnknown())+len(out.GetUnreadable()) > 0 {
		return apart(in, out), err
	}
	return apart(in, out), pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
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

// resolve resolves references and writes nothing. It also returns those of the resolved versions whose datasets are
// protected.
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
	if in.GetModel() != "" {
		if err := s.resolveModel(ctx, in.GetModel(), out); err != nil {
			return nil, nil, err
		}
	}
	// Two bindings, or a dataset and the model, may have the same dataset.
	out.ProtectedDatasets = slices.Compact(slices.Sorted(slices.Values(out.GetProtectedDatasets())))
	return out, protected, nil
}

// resolveDataset resolves a reference and adds the result to out. It also returns the version if its dataset is
// protected.
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
		in, err := s.input(ctx, name, d, v)
		if err != nil {
			return nil, err
		}
		out.Datasets = append(out.Datasets, in)
		if d.Protected {
			out.Protected = true
			out.ProtectedDatasets = append(out.ProtectedDatasets, d.ID)
			return v, nil
		}
	}
	return nil, nil
}

// ResolvePackage returns an accepted package. For any other package it returns an error that states why jobs cannot use
// the package.
func (s *Server) ResolvePackage(
	ctx context.Context, in *registrypeerv1.ResolvePackageRequest,
) (*registrypeerv1.ResolvePackageResponse, error) {
	b, err := s.bundle(ctx, in.GetPackageId())
	if err != nil {
		return nil, err
	}
	return &registrypeerv1.ResolvePackageResponse{Object: codepackage.ToObject(b)}, nil
}

// bundle returns an accepted package that the caller can see, or the refusal of a job that names another one.
func (s *Server) bundle(ctx context.Context, id string) (*codepackage.Bundle, error) {
	b, err := s.Bundles.Get(ctx, s.Pool, authn.CallerOf(ctx).Reads(), id)
	if fault.Is(err, fault.Absent) {
		return nil, codepackage.Refuse("no such package: %s", id)
	}
	if err != nil {
		return nil, err
	}
	return b, b.Refusal()
}

// FindRunsInUse returns the requested runs from which a model version was registered.
func (s *Server) FindRunsInUse(
	ctx context.Context, in *registrypeerv1.FindRunsInUseRequest,
) (*registrypeerv1.FindRunsInUseResponse, error) {
	used, err := s.Models.RunsInUse(ctx, s.Pool, in.GetRunIds())
	if err != nil {
		return nil, err
	}
	return &registrypeerv1.FindRunsInUseResponse{RunIds: used}, nil
}

// FindArtifactsInUse returns the requested artifacts from which a model version was registered.
func (s *Server) FindArtifactsInUse(
	ctx context.Context, in *registrypeerv1.FindArtifactsInUseRequest,
) (*registrypeerv1.FindArtifactsInUseResponse, error) {
	used, err := s.Models.ArtifactsInUse(ctx, s.Pool, in.GetRunIds(), in.GetArtifactIds())
	if err != nil {
		return nil, err
	}
	return &registrypeerv1.FindArtifactsInUseResponse{ArtifactIds: used}, nil
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
		return nil
	}
	if err := v.CheckUse(ctx, s.Pool); fault.HasCode(err, dataset.CodeProtected) {
		out.Unreadable = append(out.Unreadable, text)
		return nil
	} else if err != nil {
		return err
	}
	out.Model = model.ToInput(m, v)
	out.Protected = out.GetProtected() || v.Protected
	out.ProtectedDatasets = append(out.ProtectedDatasets, v.ProtectedDatasets...)
	return nil
}
