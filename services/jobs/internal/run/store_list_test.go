package run_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// list returns the last letters of the IDs of the runs that an admin finds.
func (h *harness) list(f run.Filter) string {
	h.Helper()
	runs, err := run.Store{}.List(h.Context(), h.pool, access.ServiceScope(), f, request.Page{Limit: 100})
	require.NoError(h, err)
	var b strings.Builder
	for _, r := range runs {
		require.Nil(h, r.Notes, "lists must not read notes")
		b.WriteString(r.ID[len(r.ID)-1:])
	}
	return b.String()
}

// describe gives the four runs of the harness names, recipes, tags and labels. The second run is protected, and the third
// is archived.
func (h *harness) describe() {
	h.Helper()
	h.exec(`UPDATE run SET name = 'Beta_50%', tags = '{good,sft}', labels = '{"team": "x", "n": "1"}', recipe_lock = '{"name": "sft/lora"}' WHERE id = $1`, first)
	h.exec(`UPDATE run SET name = 'alpha', tags = '{sft}', labels = '{"team": "y"}', protected = true, ended_at = ended_at + interval '1 hour' WHERE id = $1`, second)
	h.exec(`UPDATE run SET name = 'gamma', archived_at = now() WHERE id = $1`, third)
	h.exec(`UPDATE run SET name = 'Beta', tags = '{good}' WHERE id = $1`, fourth)
}

func TestStore_List_filters(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.describe()
	at := func(minutes int) *time.Time { return new(fixtures.Now().Add(time.Duration(minutes) * time.Minute)) }
	for name, c := range map[string]struct {
		filter run.Filter
		want   string
	}{
		"none":               {run.Filter{}, "dba"},
		"finished":           {run.Filter{State: "finished"}, "ba"},
		"state":              {run.Filter{State: "failed"}, "b"},
		"live state":         {run.Filter{State: "running"}, "d"},
		"project key":        {run.Filter{Project: "prj-name"}, ""},
		"project ID":         {run.Filter{Project: "prj_1"}, "da"},
		"owner":              {run.Filter{Owner: "usr_b-name"}, "b"},
		"recipe":             {run.Filter{Recipe: "sft/lora"}, "a"},
		"part of the recipe": {run.Filter{Recipe: "sft"}, ""},
		"part of a name":     {run.Filter{Text: "bETA"}, "da"},
		"wildcards":          {run.Filter{Text: "a_5"}, "a"},
		"a wildcard alone":   {run.Filter{Text: "e%a"}, ""},
		"run ID":             {run.Filter{Text: second}, "b"},
		"job ID":             {run.Filter{Text: "job_" + second}, "b"},
		"tag":                {run.Filter{Tags: []string{"good"}}, "da"},
		"two tags":           {run.Filter{Tags: []string{"good", "sft"}}, "a"},
		"label":              {run.Filter{Labels: []string{"team"}}, "ba"},
		"label and value":    {run.Filter{Labels: []string{"team=x"}}, "a"},
		"two labels":         {run.Filter{Labels: []string{"team=x", "n"}}, "a"},
		"protected":          {run.Filter{Protected: new(true)}, "b"},
		"not protected":      {run.Filter{Protected: new(false)}, "da"},
		"archived":           {run.Filter{Archived: "true"}, "c"},
		"also archived":      {run.Filter{Archived: "all"}, "dcba"},
		"not archived":       {run.Filter{Archived: "false"}, "dba"},
		"from a time":        {run.Filter{CreatedFrom: at(2)}, "db"},
		"before a time":      {run.Filter{CreatedTo: at(2)}, "a"},
		"by name":            {run.Filter{Sort: "name"}, "bda"},
		"by end":             {run.Filter{Sort: "ended_at", Archived: "all"}, "dbca"},
	} {
		require.Equal(t, c.want, h.list(c.filter), name)
	}
	h.exec(`UPDATE run SET project = 'search' WHERE id = $1`, second)
	require.Equal(t, "b", h.list(run.Filter{Project: "search"}))
}

func TestStore_List_pagesAfterRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.describe()
	h.exec(`UPDATE run SET created_at = '2026-11-21', name = 'same', ended_at = CASE id WHEN $1 THEN NULL ELSE '2026-11-22'::timestamptz END`, third)
	for sort, want := range map[string]string{"": "dcba", "created_at": "dcba", "name": "abcd", "ended_at": "cdba"} {
		f, seen := run.Filter{Archived: "all", Sort: sort}, ""
		for len(seen) < len(want) {
			runs, err := run.Store{}.List(t.Context(), h.pool, access.ServiceScope(), f, request.Page{Limit: 1})
			require.NoError(t, err)
			require.NotEmpty(t, runs, "%s: %s", sort, seen)
			require.NoError(t, f.SetAfter(new(f.Position(runs[0]))))
			seen += f.After[len(f.After)-1:]
			h.exec(`UPDATE run SET visibility = 'team' WHERE id = $1`, f.After) // the position is not looked up
		}
		require.Equal(t, want, seen, sort)
		require.Empty(t, h.list(f), "no run must follow the last one")
	}
	stranger := access.ServiceScope()
	stranger.Admin = false
	for _, after := range []string{first, "run_01jd000000000000000000000z"} { // a hidden run must look like a missing one
		f := run.Filter{Archived: "all"}
		require.NoError(t, f.SetAfter(&after))
		runs, err := run.Store{}.List(t.Context(), h.pool, stranger, f, request.Page{Limit: 1})
		require.NoError(t, err)
		require.Empty(t, runs)
	}
}

// fill inserts copies of the first run. One in a thousand is rare in every respect.
func (h *harness) fill(n int) {
	h.Helper()
	_, err := h.owner.Exec(h.Context(), `ALTER TABLE run DISABLE TRIGGER record_new_run`) // no stream follows these runs
	require.NoError(h, err)
	const chunk = 10_000
	for from := 0; from < n; from += chunk {
		h.exec(`INSERT INTO run (id, job_id, name, owner_id, owner_name, project_id, project, visibility, state, attempts, recipe_lock, bindings,
				recipe_digest, spec_digest, end_reason, created_at, ended_at, protected, tags, labels, archived_at)
			SELECT 'run_' || i, 'job_' || i, CASE WHEN rare THEN 'Rare_50% one ' || i ELSE 'usual ' || md5(i::text) END, owner_id,
				CASE WHEN rare THEN 'rare' ELSE owner_name END, CASE WHEN rare THEN 'prj_rare' ELSE project_id END, CASE WHEN rare THEN 'rare' ELSE project END,
				visibility, CASE WHEN rare THEN 'failed' ELSE 'succeeded' END, 1,
				CASE WHEN rare THEN '{"name": "rare/one"}'::json ELSE '{"name": "sft/lora"}'::json END, bindings, recipe_digest, spec_digest, end_reason,
				created_at - make_interval(secs => i), ended_at - make_interval(secs => i), rare, CASE WHEN rare THEN '{rare}' WHEN i % 10 = 0 THEN ARRAY['n' || i % 50] ELSE '{}' END,
				CASE WHEN rare THEN '{"rare": "x"}' ELSE jsonb_build_object('n', (i % 50)::text) END, CASE WHEN i % 1000 = 8 THEN now() END
			FROM run, generate_series($2::int, $3) i, LATERAL (SELECT i % 1000 = 7 AS rare) r WHERE run.id = $1`, first, from+1, min(from+chunk, n))
	}
	_, err = h.owner.Exec(h.Context(), `ANALYZE run`)
	require.NoError(h, err)
}

// Each single filter, each order, and a page deep in the list must use an index and read only few of many runs.
func TestStore_List_usesIndexesAtManyRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fill(100_000)
	const deep = "run_90000"
	var created, ended, named string
	require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT created_at::text, ended_at::text, name FROM run WHERE id = $1`, deep).Scan(&created, &ended, &named))
	for name, c := range map[string]struct {
		filter run.Filter
		found  int
	}{
		"default":                 {run.Filter{State: "finished"}, 50},
		"all":                     {run.Filter{Archived: "all"}, 50},
		"archived":                {run.Filter{Archived: "true"}, 50},
		"state":                   {run.Filter{State: "failed"}, 50},
		"live state":              {run.Filter{State: "running"}, 1},
		"project key":             {run.Filter{Project: "rare"}, 50},
		"project ID":              {run.Filter{Project: "prj_rare"}, 50},
		"owner":                   {run.Filter{Owner: "rare"}, 50},
		"recipe":                  {run.Filter{Recipe: "rare/one"}, 50},
		"label and value":         {run.Filter{Labels: []string{"rare=x"}}, 50},
		"label name":              {run.Filter{Labels: []string{"rare"}}, 50},
		"tag":                     {run.Filter{Tags: []string{"rare"}}, 50},
		"protected":               {run.Filter{Protected: new(true)}, 50},
		"part of a name":          {run.Filter{Text: "rE_50% o"}, 50},
		"run ID":                  {run.Filter{Text: first}, 1},
		"job ID":                  {run.Filter{Text: "job_" + first}, 1},
		"no such text":            {run.Filter{Text: "rare%one"}, 0},
		"after a run":             {run.Filter{AfterKey: created, After: deep}, 50},
		"created before":          {run.Filter{CreatedTo: new(fixtures.Now().Add(-90_000 * time.Second))}, 50},
		"created after":           {run.Filter{CreatedFrom: new(fixtures.Now().Add(-time.Minute))}, 50},
		"by name":                 {run.Filter{Sort: "name"}, 50},
		"by name after a run":     {run.Filter{Sort: "name", AfterKey: named, After: deep}, 50},
		"by end":                  {run.Filter{Sort: "ended_at"}, 50},
		"by end after a run":      {run.Filter{Sort: "ended_at", AfterKey: ended, After: deep}, 50},
		"finished after a run":    {run.Filter{State: "finished", AfterKey: created, After: deep}, 50},
		"rare project by name":    {run.Filter{Project: "rare", Sort: "name"}, 50},
		"tag of a rare project":   {run.Filter{Project: "rare", Tags: []string{"rare"}}, 50},
		"owner's runs in a state": {run.Filter{Owner: "rare", State: "failed"}, 50},
	} {
		for _, offset := range []int{0, 10} {
			reads := pgtest.Measure(t, h.pool, func(q pg.Querier) error {
				runs, err := run.Store{}.List(t.Context(), q, access.ServiceScope(), c.filter, request.Page{Limit: 49, Offset: offset})
				if offset == 0 {
					require.Len(t, runs, c.found, name)
				}
				return err
			})
			require.NotContains(t, reads.Whole, "run", "%s: %s", name, reads.Plan)
			require.LessOrEqual(t, reads.Rows, 500, "%s: %s", name, reads.Plan)
		}
	}
	for name, c := range map[string]struct {
		rows int
		read func(q pg.Querier) error
	}{
		"get by job": {500, func(q pg.Querier) error {
			_, err := run.Store{}.Get(t.Context(), q, access.ServiceScope(), "job_"+first)
			return err
		}},
		"tags": {20_000, func(q pg.Querier) error { // the tags of at most 10,000 runs are counted
			_, err := run.Store{}.Tags(t.Context(), q, access.ServiceScope(), "prj_1", "", request.Page{Limit: 50})
			return err
		}},
	} {
		reads := pgtest.Measure(t, h.pool, c.read)
		require.NotContains(t, reads.Whole, "run", "%s: %s", name, reads.Plan)
		require.LessOrEqual(t, reads.Rows, c.rows, "%s: %s", name, reads.Plan)
	}
}

// The tags of a project are counted over the runs that the caller may see.
func TestStore_Tags(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.describe()
	tags := func(projectID, prefix string, p request.Page) (out []run.TagCount) {
		found, err := run.Store{}.Tags(t.Context(), h.pool, access.ServiceScope(), projectID, prefix, p)
		require.NoError(t, err)
		for _, c := range found {
			out = append(out, *c)
		}
		return out
	}
	all := request.Page{Limit: 10}
	require.Equal(t, []run.TagCount{{"good", 2}, {"sft", 1}}, tags("prj_1", "", all))
	require.Equal(t, []run.TagCount{{"sft", 1}}, tags("prj_1", "sf", all))
	require.Equal(t, []run.TagCount{{"sft", 1}}, tags("prj_1", "", request.Page{Limit: 1, Offset: 1}))
	require.Equal(t, []run.TagCount{{"sft", 1}}, tags("prj_2", "", all))
	require.Empty(t, tags("prj_1", "%", all))
	require.True(t, slices.IsSortedFunc(tags("prj_1", "", all), func(a, b run.TagCount) int { return int(b.Runs - a.Runs) }))
}
