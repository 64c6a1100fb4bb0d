package recipe

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Server implements RecipeService.
type Server struct {
	registryv1.UnimplementedRecipeServiceServer

	Pool   *pgxpool.Pool
	Store  Store
	Seeder *Seeder
	Audit  *audit.Log

	contents Contents
}

// SubjectKind is the kind of recipes in audit entries.
const SubjectKind = "recipe"

// ListRecipes lists every version in the catalog.
func (s *Server) ListRecipes(ctx context.Context, in *registryv1.ListRecipesRequest) (*registryv1.ListRecipesResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	if err := s.Seeder.Await(ctx); err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, s.Pool, p, &s.contents)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListRecipesResponse{}
	for _, v := range found {
		out.Recipes = append(out.Recipes, ToProto(v))
	}
	return out, request.SetMore(ctx, more)
}

// GetRecipe returns the newest active version.
func (s *Server) GetRecipe(ctx context.Context, in *registryv1.GetRecipeRequest) (*registryv1.Recipe, error) {
	if err := s.Seeder.Await(ctx); err != nil {
		return nil, err
	}
	name := in.GetNamespace() + "/" + in.GetName()
	found, err := s.Store.VersionsOf(ctx, s.Pool, name)
	if err != nil {
		return nil, err
	}
	newest := Newest(found)
	if newest == nil {
		return nil, fault.Absentf("recipe", name)
	}
	return ToProto(newest), nil
}

// GetRecipeVersion returns one version.
func (s *Server) GetRecipeVersion(ctx context.Context, in *registryv1.GetRecipeVersionRequest) (*registryv1.Recipe, error) {
	v, err := s.version(ctx, in.GetNamespace()+"/"+in.GetName(), in.GetVersion())
	if err != nil {
		return nil, err
	}
	return ToProto(v), nil
}

// GetRecipeLock returns the recipe.lock.json of one version.
func (s *Server) GetRecipeLock(ctx context.Context, in *registryv1.GetRecipeLockRequest) (*registryv1.RecipeLockDocument, error) {
	v, err := s.version(ctx, in.GetNamespace()+"/"+in.GetName(), in.GetVersion())
	if err != nil {
		return nil, err
	}
	all, err := s.Store.All(ctx, s.Pool)
	if err != nil {
		return nil, err
	}
	catalog, err := CatalogDigest(all)
	if err != nil {
		return nil, err
	}
	return lockToProto(v, catalog)
}

func (s *Server) version(ctx context.Context, name, version string) (*Version, error) {
	if err := s.Seeder.Await(ctx); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, s.Pool, name, version)
}
