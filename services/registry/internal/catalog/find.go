package catalog

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
)

// FindServer implements SearchService for the kinds of the registry.
type FindServer struct {
	searchv1.UnimplementedSearchServiceServer
	Pool *pgxpool.Pool
}

// Search implements SearchService.
func (s *FindServer) Search(ctx context.Context, req *searchv1.SearchRequest) (*searchv1.SearchResponse, error) {
	search := access.Search{Text: req.GetQ(), Kinds: req.GetKinds(), Project: req.GetProject(), Limit: int(cmp.Or(req.GetLimit(), access.SearchLimit))}
	hits, err := search.Find(ctx, s.Pool, authn.ScopeOf(ctx), tables())
	if err != nil {
		return nil, err
	}
	resp := &searchv1.SearchResponse{}
	for _, h := range hits {
		resp.Results = append(resp.Results, &searchv1.SearchResult{
			Kind: h.Kind, Id: h.ID, Title: h.Title, Project: h.Project, Snippet: search.Snippet(h), Score: h.Score,
		})
	}
	return resp, nil
}

// tables returns the tables that are searched.
func tables() []access.SearchTable {
	const kept = ` AND deleted_at IS NULL`
	return []access.SearchTable{
		access.OwnedTable("dataset", "dataset", "description", ""),
		access.OwnedTable("model", "model", "description", kept),
		access.OwnedTable("deployment", "deployment", "description", kept),
		access.OwnedTable("rubric", "rubric", "description", ""),
		access.OwnedTable("environment", "environment", "description", kept),
	}
}
