package team

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
)

// find returns kind, title, project and snippet of each result for a user who reads.
func (b *harness) find(user string, req *searchv1.SearchRequest) (found []string) {
	b.t.Helper()
	resp, err := (&FindServer{Pool: b.pool}).Search(b.as(user, authn.NeedRead), req)
	require.NoError(b.t, err)
	for _, r := range resp.GetResults() {
		found = append(found, fmt.Sprintf("%s %s %s %s", r.GetKind(), r.GetTitle(), r.GetProject(), r.GetSnippet()))
	}
	return found
}

func TestFindServer_Search(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	vision := b.make("vision")
	b.do(`INSERT INTO project (id, key, name, description, visibility, team_id, created_at) VALUES
		('prj_1', 'vision-a', '视觉模型', 'Trains the towers of the lighthouse', 'team', $1, now()),
		('prj_2', 'open', 'Vision for all', 'Everyone', 'all', NULL, now())`, vision.GetId())
	b.do(`UPDATE account SET display_name = 'Visionary Eve' WHERE id = $1`, eve)
	vis := &searchv1.SearchRequest{Q: "vision"}
	require.Equal(t, []string{"project 视觉模型 vision-a ", "team Team vision  ", "project Vision for all open "}, b.find(lea, vis))
	require.Equal(t, []string{"project Vision for all open "}, b.find(eve, vis), "neither the team nor its project")
	require.Equal(t, []string{"project 视觉模型 vision-a ", "team Team vision  ", "project Vision for all open ", "user eve  "}, b.find(root, vis))
	require.Equal(t, []string{"project 视觉模型 vision-a "}, b.find(maxi, &searchv1.SearchRequest{Q: "模型"}))
	require.Empty(t, b.find(eve, &searchv1.SearchRequest{Q: "模型"}))
	require.Equal(t, []string{"project 视觉模型 vision-a Trains the towers of the lighthouse"}, b.find(maxi, &searchv1.SearchRequest{Q: "lighthouse towers"}))
	require.Empty(t, b.find(eve, &searchv1.SearchRequest{Q: "lighthouse"}))
	require.Equal(t, []string{"project 视觉模型 vision-a "}, b.find(root, &searchv1.SearchRequest{Q: "vision", Project: new("prj_1")}))
	require.Equal(t, []string{"team Team vision  "}, b.find(lea, &searchv1.SearchRequest{Q: vision.GetId()}))
	require.Empty(t, b.find(eve, &searchv1.SearchRequest{Q: vision.GetId()}))
	require.Equal(t, []string{"user eve  "}, b.find(root, &searchv1.SearchRequest{Q: "eve", Kinds: []string{"user"}}))
	require.Empty(t, b.find(lea, &searchv1.SearchRequest{Q: "eve", Kinds: []string{"user"}}), "only admins list users")
}
