package recipe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	commonv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/codepackage"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
)

// Server implements RecipeService.
type Server struct {
	registryv1.UnimplementedRecipeServiceServer

	Pool     *pgxpool.Pool
	Store    Store
	Packages codepackage.Store
	Projects access.Projects
	Blobs    blob.Store
	Seeder   *Seeder
	Once     *idempotency.Once
	Events   *event.Log
	Audit    *audit.Log
	Clock    clock.Clock

	contents Contents
}

// SubjectKind is the kind of recipes in audit entries.
const SubjectKind = "recipe"

// ListRecipes lists every version that the caller can see.
func (s *Server) ListRecipes(ctx context.Context, in *registryv1.ListRecipesRequest) (*registryv1.ListRecipesResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	if err := s.Seeder.Await(ctx); err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, s.Pool, authn.ScopeOf(ctx), Filter{Project: in.GetProject()}, p, &s.contents)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListRecipesResponse{}
	for _, v := range found {
		out.Recipes = append(out.Recipes, toListed(v))
	}
	return out, request.SetMore(ctx, more)
}

// GetRecipe returns the newest active version.
func (s *Server) GetRecipe(ctx context.Context, in *registryv1.GetRecipeRequest) (*registryv1.Recipe, error) {
	if err := s.Seeder.Await(ctx); err != nil {
		return nil, err
	}
	name := in.GetNamespace() + "/" + in.GetName()
	heads, err := s.Store.Heads(ctx, s.Pool, authn.ScopeOf(ctx), name)
	if err != nil {
		return nil, err
	}
	newest := Newest(heads)
	switch {
	case len(heads) == 0:
		return nil, fault.Absentf("recipe", name)
	case newest == nil:
		return nil, fault.New(fault.Absent, "", "recipe %s has no active version, only %s; name one of them", name, list(heads))
	}
	v, err := s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), name, newest.Manifest.Version)
	if err != nil {
		return nil, err
	}
	return ToProto(v), nil
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
	shipped, err := s.Store.Shipped(ctx, s.Pool)
	if err != nil {
		return nil, err
	}
	catalog, err := CatalogDigest(shipped)
	if err != nil {
		return nil, err
	}
	return lockToProto(v, catalog)
}

// ListRecipeDownloads returns a signed URL of the files of one version.
func (s *Server) ListRecipeDownloads(ctx context.Context, in *registryv1.ListRecipeDownloadsRequest) (*registryv1.ListRecipeDownloadsResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	v, err := s.version(ctx, in.GetNamespace()+"/"+in.GetName(), in.GetVersion())
	if err != nil {
		return nil, err
	}
	tree, err := dataset.Download(ctx, s.Blobs, "recipe.tar", blob.Info{Key: v.TreeKey(), Size: v.TreeBytes, SHA256: v.TreeSHA256})
	if err != nil {
		return nil, err
	}
	files := []*commonv1.Download{tree}
	files, more := request.CutPage(files[min(len(files), p.Offset):], p)
	return &registryv1.ListRecipeDownloadsResponse{Files: files}, request.SetMore(ctx, more)
}

func (s *Server) version(ctx context.Context, name, version string) (*Version, error) {
	if err := s.Seeder.Await(ctx); err != nil {
		return nil, err
	}
	v, err := s.Store.Get(ctx, s.Pool, authn.ScopeOf(ctx), name, version)
	if !fault.Is(err, fault.Absent) {
		return v, err
	}
	heads, headsErr := s.Store.Heads(ctx, s.Pool, authn.ScopeOf(ctx), name)
	if headsErr != nil || len(heads) == 0 {
		return nil, err
	}
	return nil, fault.New(fault.Absent, "", "recipe %s has no version %s, only %s", name, version, list(heads))
}

// list returns the newest versions by their numbers, each with its state unless it is active.
func list(versions []*Version) string {
	const most = 5
	sorted := slices.SortedFunc(slices.Values(versions), func(a, b *Version) int {
		if less(b.Manifest.Version, a.Manifest.Version) {
			return -1
		}
		return 1
	})
	var texts []string
	for _, v := range sorted[:min(len(sorted), most)] {
		text := v.Manifest.Version
		if v.State != StateActive {
			text += " (" + v.State + ")"
		}
		texts = append(texts, text)
	}
	if len(sorted) > most {
		texts = append(texts, fmt.Sprintf("%d older ones", len(sorted)-most))
	}
	return strings.Join(texts, ", ")
}
