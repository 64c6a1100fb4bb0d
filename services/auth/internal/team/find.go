package team

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
)

// FindServer implements SearchService for the kinds of auth.
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

// tables returns the tables that are searched. Only admins find users, because only they may list them.
func tables() []access.SearchTable {
	return []access.SearchTable{
		{
			Kind: "project", Table: "project", Name: `key || ' ' || name`, Title: `name`, Project: `key`, Text: `description`, At: `created_at`,
			Visible: `($1 OR (visibility = 'all' AND $2 <> '') OR id = ANY($3)) AND $5 IN ('', key, id)`,
		},
		{
			Kind: "team", Table: "team", Name: `key || ' ' || name`, Title: `name`, Project: `NULL`, At: `created_at`, OfTeams: true,
			Visible: `($1 OR ($2 <> '' AND id = ANY($3))) AND $5 = ''`,
		},
		{
			Kind: "user", Table: "account", Name: `username || ' ' || coalesce(display_name, '')`, Title: `username`, Project: `NULL`, At: `created_at`,
			Visible: `($1 AND $2 <> '' AND $3::text[] IS NOT NULL) AND $5 = ''`,
		},
	}
}
