package run_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// Each parameter of the request must reach its filter.
func TestServer_ListRuns_filters(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.describe()
	at := timestamppb.New(fixtures.Now().Add(4 * time.Minute))
	const missing = "run_01jd000000000000000000000z"
	for name, c := range map[string]struct {
		req  *jobsv1.ListRunsRequest
		want []string
	}{
		"none":           {&jobsv1.ListRunsRequest{}, []string{first}},
		"all":            {&jobsv1.ListRunsRequest{State: new("all")}, []string{fourth, first}},
		"finished":       {&jobsv1.ListRunsRequest{State: new("finished"), Archived: new("all")}, []string{third, first}},
		"state":          {&jobsv1.ListRunsRequest{State: new("running")}, []string{fourth}},
		"project":        {&jobsv1.ListRunsRequest{Project: new("prj_2"), Archived: new("true")}, []string{third}},
		"owner":          {&jobsv1.ListRunsRequest{Owner: new("usr_b-name")}, nil},
		"recipe":         {&jobsv1.ListRunsRequest{Recipe: new("sft/lora")}, []string{first}},
		"q":              {&jobsv1.ListRunsRequest{Q: new("gamma"), Archived: new("all")}, []string{third}},
		"tag":            {&jobsv1.ListRunsRequest{Tag: []string{"GOOD ", "sft"}}, []string{first}},
		"label":          {&jobsv1.ListRunsRequest{Label: []string{"team=x"}}, []string{first}},
		"other label":    {&jobsv1.ListRunsRequest{Label: []string{"team=y"}}, nil},
		"protected":      {&jobsv1.ListRunsRequest{Protected: new(true)}, nil},
		"created after":  {&jobsv1.ListRunsRequest{CreatedAfter: at, State: new("all")}, []string{fourth}},
		"created before": {&jobsv1.ListRunsRequest{CreatedBefore: at, State: new("all")}, []string{first}},
		"sort":           {&jobsv1.ListRunsRequest{Sort: new("name"), State: new("all")}, []string{fourth, first}},
		"after":          {&jobsv1.ListRunsRequest{After: new("2026-12-01T00:00:00Z~" + missing), State: new("all")}, []string{fourth, first}},
		"after all":      {&jobsv1.ListRunsRequest{After: new("2001-01-01T00:00:00Z~" + fourth), State: new("all")}, nil},
	} {
		list, err := h.server.ListRuns(alice(t.Context()), c.req)
		require.NoError(t, err, name)
		var got []string
		for _, r := range list.GetRuns() {
			got = append(got, r.GetId())
		}
		require.Equal(t, c.want, got, name)
	}
	list, err := h.server.ListRuns(alice(t.Context()), &jobsv1.ListRunsRequest{})
	require.NoError(t, err)
	r := list.GetRuns()[0]
	require.Equal(t, []string{"good", "sft"}, r.GetTags())
	require.Equal(t, map[string]string{"team": "x", "n": "1"}, r.GetLabels())
	require.Nil(t, r.Notes)
	require.EqualValues(t, 1, r.GetVersion())
	for name, req := range map[string]*jobsv1.ListRunsRequest{
		"malformed ID": {After: new("job_x")}, "ID in another order": {After: new(fourth), Sort: new("name")},
		"year 0": {After: new("0000-01-01T00:00:00Z~" + fourth)}, "end in year 0": {After: new("0000-01-01T00:00:00Z~" + fourth), Sort: new("ended_at")},
		"no time": {After: new("x~" + fourth)}, "no time of an end": {After: new("x~" + fourth), Sort: new("ended_at")}, "bad tag": {Tag: []string{"a,b"}},
	} {
		_, err := h.server.ListRuns(alice(t.Context()), req)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
	}
}

func TestServer_ListProjectTags(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.describe()
	h.exec(`UPDATE run SET project_id = CASE project_id WHEN 'prj_1' THEN $1 ELSE $2 END, visibility = CASE project_id WHEN 'prj_1' THEN 'team' ELSE 'all' END`,
		project, shown)
	member := user(t.Context(), "usr_c", project, authn.ProjectViewer)
	list, err := h.server.ListProjectTags(member, &jobsv1.ListProjectTagsRequest{ProjectId: project, Q: new("GO")})
	require.NoError(t, err)
	require.Len(t, list.GetTags(), 1)
	require.Equal(t, "good", list.GetTags()[0].GetTag())
	require.EqualValues(t, 2, list.GetTags()[0].GetRuns())
	list, err = h.server.ListProjectTags(user(t.Context(), "usr_d"), &jobsv1.ListProjectTagsRequest{ProjectId: shown})
	require.NoError(t, err)
	require.Len(t, list.GetTags(), 1)

	var texts []string
	const missing = "prj_01jd0000000000000000000009"
	for _, id := range []string{project, missing} { // a hidden project must look like a missing one
		_, err = h.server.ListProjectTags(user(t.Context(), "usr_d"), &jobsv1.ListProjectTagsRequest{ProjectId: id})
		require.True(t, fault.Is(err, fault.Absent), "%v", err)
		texts = append(texts, err.Error())
	}
	require.Equal(t, []string{"no such project: " + project, "no such project: " + missing}, texts)
	_, err = h.server.ListProjectTags(member, &jobsv1.ListProjectTagsRequest{ProjectId: "search"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}
