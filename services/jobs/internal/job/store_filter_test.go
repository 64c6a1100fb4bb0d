package job_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// fill inserts copies of a job. One in a thousand has another state, owner, project, label and name.
func (b *harness) fill(t *testing.T, like *job.Job, n int) {
	t.Helper()
	const chunk = 10_000
	for from := 0; from < n; from += chunk {
		_, err := b.pool.Exec(t.Context(), `INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority,
				spec, spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, ended_at, end_reason, queued_at, seq)
			SELECT 'job_' || i, 'run_' || i, CASE WHEN i % 1000 = 7 THEN 'Rare_50% one ' || i ELSE 'usual ' || md5(i::text) END, owner_id,
				CASE WHEN i % 1000 = 7 THEN 'rare' ELSE owner_name END, CASE WHEN i % 1000 = 7 THEN 'prj_rare' ELSE project_id END,
				CASE WHEN i % 1000 = 7 THEN 'rare' ELSE project END, visibility,
				CASE WHEN i % 1000 = 7 THEN '{"rare": "x"}' ELSE jsonb_build_object('n', (i % 50)::text) END, priority, spec, spec_digest, template, pools,
				gpus, retry_max, running_s, starting_s, queued_s, created_at - make_interval(secs => i),
				CASE WHEN i % 1000 = 7 THEN 'succeeded' ELSE 'queued' END, CASE WHEN i % 1000 = 7 THEN now() END,
				CASE WHEN i % 1000 = 7 THEN 'completed' ELSE '' END, queued_at, seq
			FROM job, generate_series($2::int, $3) i WHERE job.id = $1`, like.ID, from, min(from+chunk, n)-1)
		require.NoError(t, err)
	}
}

// Each single filter, and a page deep in the list, must use an index and read only few of many jobs.
func TestStore_List_usesIndexesAtManyJobs(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	newest := b.insert(t)
	b.fill(t, newest, 100_000)
	db := b.db.OwnerPool("jobs")
	_, err := db.Exec(t.Context(), `ANALYZE job`)
	require.NoError(t, err)
	var deep time.Time
	require.NoError(t, db.QueryRow(t.Context(), `SELECT created_at FROM job WHERE id = 'job_90000'`).Scan(&deep))
	for name, c := range map[string]struct {
		filter job.Filter
		found  int
	}{
		"state":             {job.Filter{State: job.Succeeded}, 50},
		"project key":       {job.Filter{Project: "rare"}, 50},
		"project ID":        {job.Filter{Project: "prj_rare"}, 50},
		"owner":             {job.Filter{Owner: "rare"}, 50},
		"label and value":   {job.Filter{Labels: []string{"rare=x"}}, 50},
		"label name":        {job.Filter{Labels: []string{"rare"}}, 50},
		"part of a name":    {job.Filter{Text: "rE_50% o"}, 50},
		"job ID":            {job.Filter{Text: newest.ID}, 1},
		"run ID":            {job.Filter{Text: newest.RunID}, 1},
		"no such text":      {job.Filter{Text: "rare%one"}, 0},
		"after a job":       {job.Filter{AfterTime: deep, After: "job_90000"}, 50},
		"created before":    {job.Filter{CreatedTo: &deep}, 50},
		"a time of a state": {job.Filter{State: job.Succeeded, CreatedFrom: &deep}, 50},
		"a short time":      {job.Filter{CreatedFrom: &deep, CreatedTo: new(deep.Add(2 * time.Second))}, 2},
		"state after a job": {job.Filter{State: job.Queued, AfterTime: deep, After: "job_90000"}, 50},
	} {
		for _, offset := range []int{0, 10} {
			reads := pgtest.Measure(t, b.pool, func(q pg.Querier) error {
				jobs, err := b.store.List(t.Context(), q, access.ServiceScope(), c.filter, request.Page{Limit: 49, Offset: offset})
				if offset == 0 {
					require.Len(t, jobs, c.found, name)
				}
				return err
			})
			require.Empty(t, reads.Whole, "%s: %s", name, reads.Plan)
			require.LessOrEqual(t, reads.Rows, 500, "%s: %s", name, reads.Plan)
		}
	}
}

func TestStore_List_pagesAfterJob(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	var all []string
	for range 7 {
		all = append([]string{b.insert(t).ID}, all...)
	}
	_, err := b.pool.Exec(t.Context(), `UPDATE job SET created_at = '2026-11-21'`) // jobs of the same time are in the order of their IDs
	require.NoError(t, err)
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(b, a) })
	var seen []string
	f := job.Filter{}
	for {
		jobs, err := b.store.List(t.Context(), b.pool, access.ServiceScope(), f, request.Page{Limit: 1})
		require.NoError(t, err)
		page, more := request.CutPage(jobs, request.Page{Limit: 1})
		for _, j := range page {
			seen, f.AfterTime, f.After = append(seen, j.ID), j.CreatedAt, j.ID
		}
		if b.insert(t); !more {
			break
		}
	}
	require.Equal(t, all, seen, "jobs that are added meanwhile must not shift the pages")

	hidden := b.insert(t)
	_, err = b.pool.Exec(t.Context(), `UPDATE job SET visibility = 'team' WHERE id = $1`, hidden.ID)
	require.NoError(t, err)
	stranger := authn.Scope{UserID: "usr_9", Projects: []string{}}
	for _, after := range []string{hidden.ID, b.ids.New(id.Job)} { // a hidden job must look like a missing one
		jobs, err := b.store.List(t.Context(), b.pool, stranger, job.Filter{AfterTime: id.Time(after), After: after}, request.Page{Limit: 1})
		require.NoError(t, err)
		require.Len(t, jobs, 2, "the page and a job more: those that the caller may see")
		require.False(t, slices.ContainsFunc(jobs, func(j *job.Job) bool { return j.ID == hidden.ID }))
	}
}
