package runsearch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// fill inserts copies of the first run, each with two hyperparameters and a metric. One in a thousand is rare in every
// respect.
func (h *harness) fill(n int) {
	h.Helper()
	_, err := h.owner.Exec(h.Context(), `ALTER TABLE run DISABLE TRIGGER record_new_run`) // no stream follows these runs
	require.NoError(h, err)
	const chunk = 5_000
	for from := 0; from < n; from += chunk {
		to := min(from+chunk, n)
		h.exec(`INSERT INTO run (id, job_id, name, owner_id, owner_name, project_id, project, visibility, state, attempts, recipe_lock, bindings,
				recipe_digest, spec_digest, end_reason, created_at, started_at, ended_at, tags, labels, summary_final)
			SELECT 'run_' || lpad(i::text, 26, '0'), 'job_' || i, CASE WHEN rare THEN 'Rare one ' || i ELSE 'usual ' || md5(i::text) END, owner_id,
				CASE WHEN rare THEN 'rare' ELSE owner_name END, project_id, CASE WHEN rare THEN 'rare' ELSE project END, visibility,
				CASE WHEN rare THEN 'failed' ELSE 'succeeded' END, 1, CASE WHEN rare THEN '{"name": "rare/one"}'::json ELSE '{"name": "sft/lora"}' END,
				bindings, recipe_digest, spec_digest, end_reason, created_at - make_interval(secs => i), started_at - make_interval(secs => i),
				ended_at - make_interval(secs => i), CASE WHEN rare THEN '{rare}' ELSE '{}'::text[] END,
				CASE WHEN rare THEN '{"rare": "x"}' ELSE '{}'::jsonb END, true
			FROM run, generate_series($2::int, $3) i, LATERAL (SELECT i % 1000 = 7 AS rare) r WHERE run.id = $1`, runID(1), from+1, to)
		h.exec(`INSERT INTO run_hparam SELECT 'run_' || lpad(i::text, 26, '0'), k, CASE k WHEN 'lr' THEN i::text ELSE '"v' || i % 1000 || '"' END,
			CASE k WHEN 'lr' THEN i END FROM generate_series($1::int, $2) i, unnest('{lr,name}'::text[]) k`, from+1, to)
		h.exec(`INSERT INTO run_metric SELECT 'run_' || lpad(i::text, 26, '0'), 'loss', i % 5000, i % 7000, i FROM generate_series($1::int, $2) i`, from+1, to)
	}
	h.exec(`UPDATE run_metric SET best = min`)
	_, err = h.owner.Exec(h.Context(), `ANALYZE run, run_hparam, run_metric`)
	require.NoError(h, err)
}

// Each filter and each order must use indexes at 100,000 runs.
func TestStore_search_usesIndexesAtManyRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.fill(100_000)
	const deep = "run_00000000000000000000090000"
	for name, c := range map[string]struct {
		filter, sort string
		after        *place
		found        int
	}{
		"all":              {"", "", nil, 50},
		"all, deep":        {"", "", &place{ID: deep}, 50},
		"started":          {"", "started_at", nil, 50},
		"ended":            {"", "ended_at", &place{ID: deep}, 50},
		"by name":          {"", "name", &place{ID: deep}, 50},
		"by owner":         {"", "owner", &place{ID: deep}, 50},
		"by project":       {"", "project", &place{ID: deep}, 50},
		"by state":         {"", "state", &place{ID: deep}, 50},
		"by recipe":        {"", "recipe", &place{ID: deep}, 50},
		"by metric":        {"", "metric.loss.last", nil, 50},
		"by metric, deep":  {"", "metric.loss.min", &place{ID: deep, Value: "3000"}, 50},
		"by best":          {"", "metric.loss.best", &place{ID: deep, Value: "3000"}, 50},
		"by hparam":        {"", "hparam.lr", &place{ID: deep, Value: "9e4"}, 50},
		"no such metric":   {"", "metric.none.last", nil, 50},
		"id":               {`{"field":"id","value":"` + deep + `"}`, "", nil, 1},
		"owner":            {`{"field":"owner","value":"rare"}`, "", nil, 50},
		"project":          {`{"field":"project","value":"rare"}`, "", nil, 50},
		"recipe":           {`{"field":"recipe","value":"rare/one"}`, "", nil, 50},
		"state":            {`{"field":"state","value":"running"}`, "", nil, 1},
		"tag":              {`{"field":"tag","value":"rare"}`, "", nil, 50},
		"label":            {`{"field":"label.rare","value":"x"}`, "", nil, 50},
		"name":             {`{"field":"name","op":"contains","value":"rare on"}`, "", nil, 50},
		"two owners":       {`{"field":"owner","op":"in","value":["rare","none"]}`, "", nil, 50},
		"hparam number":    {`{"field":"hparam.lr","op":"lt","value":20}`, "", nil, 19},
		"hparam text":      {`{"field":"hparam.name","value":"v7"}`, "", nil, 50},
		"metric":           {`{"field":"metric.loss.max","op":"le","value":30}`, "", nil, 30},
		"best":             {`{"field":"metric.loss.best","op":"le","value":0}`, "", nil, 14},
		"metric and order": {`{"field":"metric.loss.max","op":"le","value":30}`, "hparam.lr", nil, 30},
	} {
		o, err := orderOf(c.sort, "")
		require.NoError(t, err, name)
		q := &query{filter: []byte(c.filter), order: o, after: c.after, limit: 50}
		var took time.Duration
		reads := pgtest.Measure(t, h.pool, func(db pg.Querier) error {
			began := time.Now()
			hits, err := Store{}.search(t.Context(), db, access.ServiceScope(), q)
			took = time.Since(began)
			require.Len(t, hits, c.found, name)
			return err
		})
		t.Logf("%s: %v", name, took.Round(time.Millisecond))
		for _, table := range []string{"run", "run_hparam", "run_metric"} {
			require.NotContains(t, reads.Whole, table, "%s: %s", name, reads.Plan)
		}
		require.LessOrEqual(t, reads.Rows, 1000, "%s: %s", name, reads.Plan)
	}
	plan := pgtest.Explain(t, h.pool, func(db pg.Querier) error {
		due, err := Store{}.claim(t.Context(), db)
		require.Len(t, due, 4, "only the runs that are not complete are due")
		return err
	})
	require.Contains(t, plan, "run_unsummarized", plan)
	requireAggregatePlan(t, h)
	requireFindPlan(t, h)
}
