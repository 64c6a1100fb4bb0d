package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/registry/internal/catalog"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestFindServer_Search(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
	long := strings.Repeat("before ", 20) + "the Lighthouse corpus " + strings.Repeat("after ", 40)
	for table, more := range map[string][2]string{
		"dataset":     {", format, protected, latest_version", ", 'jsonl', false, 0"},
		"model":       {", task, latest_version", ", 'chat', 0"},
		"deployment":  {", state", ", 'serving'"},
		"rubric":      {"", ""},
		"environment": {"", ""},
	} {
		for i, visibility := range []string{"team", "all"} {
			_, err := pool.Exec(t.Context(), `INSERT INTO `+table+` (id, name, owner_id, owner_name, project_id, project, visibility, description, created_at`+more[0]+`)
				VALUES ($1, $2, 'usr_alice', 'alice', 'prj_1', 'p1', $3, $4, $5`+more[1]+`)`,
				fmt.Sprintf("%s_%d", table, i), fmt.Sprintf("%s 数据 %s", table, visibility), visibility, long, fixtures.Now())
			require.NoError(t, err, table)
		}
	}
	server := &catalog.FindServer{Pool: pool}
	find := func(user string, req *searchv1.SearchRequest) (found []string, last *searchv1.SearchResult) {
		ctx := authn.NewContext(authn.WithNeed(t.Context(), authn.NeedRead), &authn.Caller{Kind: authn.KindUser, Subject: "usr_" + user, Role: authn.RoleOperator})
		resp, err := server.Search(ctx, req)
		require.NoError(t, err)
		for _, r := range resp.GetResults() {
			require.Equal(t, "p1", r.GetProject())
			found, last = append(found, r.GetKind()+" "+r.GetTitle()), r
		}
		return found, last
	}
	const kinds = 5
	for _, q := range []string{"数据", "lighthouse"} {
		mine, _ := find("alice", &searchv1.SearchRequest{Q: q})
		require.Len(t, mine, 2*kinds, q)
		others, last := find("eve", &searchv1.SearchRequest{Q: q})
		require.Len(t, others, kinds, "%s: only those that are visible to all", q)
		require.Contains(t, last.GetTitle(), "all")
	}
	one, last := find("eve", &searchv1.SearchRequest{Q: "corpus lighthouse", Kinds: []string{"model"}})
	require.Equal(t, []string{"model model 数据 all"}, one)
	require.True(t, strings.HasPrefix(last.GetSnippet(), "… ") && strings.HasSuffix(last.GetSnippet(), " …"), last.GetSnippet())
	require.Contains(t, last.GetSnippet(), "Lighthouse corpus")
	_, err = pool.Exec(t.Context(), `UPDATE model SET deleted_at = now()`)
	require.NoError(t, err)
	gone, _ := find("alice", &searchv1.SearchRequest{Q: "lighthouse", Kinds: []string{"model"}})
	require.Empty(t, gone, "deleted objects are not found")
}
