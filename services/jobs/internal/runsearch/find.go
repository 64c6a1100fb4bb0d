package runsearch

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
)

// FindServer implements SearchService for the kinds of the jobs service.
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

// tables returns the tables that are searched. All users may read nodes and fleets.
func tables() []access.SearchTable {
	const everyone = `($1 OR $2 <> '' OR cardinality($3::text[]) > 0) AND $5 = ''`
	return []access.SearchTable{
		access.OwnedTable("job", "job", "", ""),
		access.OwnedTable("run", "run", "", ""),
		{Kind: "node", Table: "node", Name: `name`, Title: `name`, Project: `NULL`, At: `joined_at`, Visible: everyone},
		{Kind: "fleet", Table: "fleet", Name: `name`, Title: `name`, Project: `NULL`, At: `created_at`, Visible: everyone},
	}
}
