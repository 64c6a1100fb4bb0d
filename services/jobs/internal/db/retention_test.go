package db_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness is a database with rows of two ages: old ones, which ended before the time `before`, and young ones.
type harness struct {
	t      *testing.T
	db     *pgtest.DB
	pool   *pgxpool.Pool
	before time.Time
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	d := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations})
	return &harness{t: t, db: d, pool: d.Pool("jobs"), before: time.Now().Add(-24 * time.Hour)}
}

func (h *harness) exec(sql string, args ...any) {
	h.t.Helper()
	_, err := h.pool.Exec(h.t.Context(), sql, args...)
	require.NoError(h.t, err)
}

func (h *harness) ids(sql string) (ids []string) {
	h.t.Helper()
	require.NoError(h.t, h.pool.QueryRow(h.t.Context(), `SELECT coalesce(array_agg(x ORDER BY x), '{}') FROM (`+sql+`) t (x)`).Scan(&ids))
	return ids
}

// rule is one of the functions under test.
type rule func(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error)

// apply runs the rule in steps of one row until nothing is left, and returns the number of rows.
func (h *harness) apply(r rule) (total int64) {
	h.t.Helper()
	for {
		n, err := r(h.t.Context(), h.pool, h.before, 1)
		require.NoError(h.t, err)
		require.LessOrEqual(h.t, n, int64(1), "a step deleted more rows than its limit")
		if total += n; n == 0 {
			return total
		}
	}
}

const jobSQL = `INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec, spec_digest,
	template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, end_reason, queued_at, ended_at, seq)
	SELECT 'job_' || n, 'run_' || n, 'n', 'usr_1', 'o', 'prj_1', 'p', 'team', '{}', 50, '{}', '', '', '[]', 0, 0, 1, 1, 1, now(),
		CASE WHEN $2::timestamptz IS NULL THEN 'running' ELSE 'succeeded' END, 'done', now(), $2, 1 FROM unnest($1::text[]) n`

const workSQL = `INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, job_id, attempt, owner_id, project_id,
	phase, created_at, updated_at, released_at) VALUES ($1, $2, 1, 1, 'gone', now(), '', 'cpu', 0, 1, $3, 1, 'usr_1', 'prj_1', $4, now(), $5, $6)`

func TestDeleteJobs_withAttemptsAndWorks(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	old := h.before.Add(-time.Minute)
	h.exec(jobSQL, []string{"old1", "old2", "held", "copied"}, old)
	h.exec(jobSQL, []string{"young"}, time.Now())
	h.exec(jobSQL, []string{"live"}, nil)
	h.exec(`INSERT INTO run (id, job_id, name, owner_id, owner_name, project_id, project, visibility, state, recipe_lock, bindings, recipe_digest,
		spec_digest, created_at) SELECT run_id, id, name, owner_id, owner_name, project_id, project, visibility, state, '{}', '{}', '', '', now() FROM job`)
	h.exec(`INSERT INTO attempt (id, job_id, number, state, created_at) SELECT 'att_' || id || n, id, n, 'succeeded', now() FROM job, generate_series(1, 3) n`)
	h.exec(`INSERT INTO drain_pause (job_id, attempt, asked_at) SELECT id, 1, now() FROM job`)
	h.exec(workSQL, "wrk_old1", "attempt", "job_old1", "gone", old, old)
	h.exec(workSQL, "wrk_held", "attempt", "job_held", "exited", old, nil)
	h.exec(workSQL, "wrk_live", "attempt", "job_live", "running", old, nil)

	h.exec(`UPDATE run SET labels = NULL WHERE id = 'run_copied'`)

	require.EqualValues(t, 2, h.apply(db.DeleteJobs))
	require.Len(t, h.ids(`SELECT id FROM job WHERE id = 'job_copied'`), 1, "a job must stay until its run has its labels")
	h.exec(`UPDATE run SET labels = '{}' WHERE id = 'run_copied'`)
	require.EqualValues(t, 1, h.apply(db.DeleteJobs))
	left := []string{"job_held", "job_live", "job_young"}
	require.Equal(t, left, h.ids(`SELECT id FROM job`), "a job must stay while one of its works is not released")
	require.Equal(t, left, h.ids(`SELECT DISTINCT job_id FROM attempt`))
	require.Equal(t, left, h.ids(`SELECT job_id FROM drain_pause`))
	require.Equal(t, []string{"wrk_held", "wrk_live"}, h.ids(`SELECT id FROM work`))
	require.Len(t, h.ids(`SELECT id FROM run`), 6, "runs must outlive their jobs")
}

func TestDeleteWorks_onlyReleasedOnes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	old, now := h.before.Add(-time.Minute), time.Now()
	for i, w := range []struct {
		kind, phase string
		updated     time.Time
		released    any
	}{
		{"attempt", "gone", old, old},
		{"attempt", "exited", old, old},
		{"attempt", "gone", now, now},
		{"attempt", "running", old, nil},
		{"engine", "gone", old, old},
		{"engine", "gone", now, now},
		{"engine", "exited", old, old},
		{"engine", "gone", old, nil},
	} {
		h.exec(workSQL, fmt.Sprintf("wrk_%d", i), w.kind, "", w.phase, w.updated, w.released)
	}
	require.EqualValues(t, 2, h.apply(db.DeleteWorks))
	require.EqualValues(t, 1, h.apply(db.DeleteEngines))
	require.Equal(t, []string{"wrk_2", "wrk_3", "wrk_5", "wrk_6", "wrk_7"}, h.ids(`SELECT id FROM work`))
}

func TestDeleteTokens_onlyEndedOnes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	old, later := h.before.Add(-time.Minute), time.Now().Add(time.Hour)
	h.exec(`INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_1', 'f', 'agent', 'active', '{cpu}', now())`)
	h.exec(`INSERT INTO join_token (id, fleet_id, hash, max_uses, expires_at, revoked_at, created_at) SELECT i, 'flt_1', sha256(i::bytea), 1, e, r, now()
		FROM (VALUES ('expired', $1::timestamptz, NULL::timestamptz), ('revoked', $2, $1), ('valid', $2, NULL), ('fresh', now(), NULL)) v (i, e, r)`, old, later)
	h.exec(`INSERT INTO ingest_token (hash, job_id, run_id, attempt, work_id, created_at, expires_at)
		SELECT sha256(i::bytea), i, '', 1, i, now(), e FROM (VALUES ('expired', $1::timestamptz), ('valid', $2), ('fresh', now())) v (i, e)`, old, later)
	require.EqualValues(t, 2, h.apply(db.DeleteJoinTokens))
	require.Equal(t, []string{"fresh", "valid"}, h.ids(`SELECT id FROM join_token`))
	require.EqualValues(t, 1, h.apply(db.DeleteIngestTokens))
	require.Equal(t, []string{"fresh", "valid"}, h.ids(`SELECT job_id FROM ingest_token`))
}

func TestDeleteShares_withPins(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`INSERT INTO share (id, kind, owner_id, owner_name, hash, prefix, targets, runs, fields, pinned, created_at, expires_at, revoked_at)
		SELECT i, 'job', 'usr_1', 'o', sha256(i::bytea), '', '{job_1}', '{run_1}', '{}', true, now(), e, r
		FROM (VALUES ('expired', $1::timestamptz, NULL::timestamptz), ('revoked', NULL, $1), ('forever', NULL, NULL), ('fresh', now(), NULL)) v (i, e, r)`,
		h.before.Add(-time.Minute))
	h.exec(`INSERT INTO share_pin (share_id, run, part, data) SELECT id, 0, 'run', '' FROM share`)
	require.EqualValues(t, 2, h.apply(db.DeleteShares))
	require.Equal(t, []string{"forever", "fresh"}, h.ids(`SELECT id FROM share`))
	require.Equal(t, []string{"forever", "fresh"}, h.ids(`SELECT share_id FROM share_pin`))
}

// The rules must find the few old rows of a large table by an index.
func TestRetention_usesIndexesAtManyRows(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`INSERT INTO ingest_token (hash, job_id, run_id, attempt, work_id, created_at, expires_at)
		SELECT sha256(n::text::bytea), '', '', 1, n, now(), now() + n * interval '1 second' FROM generate_series(1, 200000) n`)
	h.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, phase, created_at,
		updated_at, released_at) SELECT 'wrk_' || n, CASE n % 2 WHEN 0 THEN 'engine' ELSE 'attempt' END, 1, 1, 'gone', now(), '', 'cpu', 0, 1, 'usr_1',
		'prj_1', 'gone', now(), now(), now() FROM generate_series(1, 100000) n`)
	h.exec(`INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec, spec_digest,
		template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, end_reason, queued_at, ended_at, seq)
		SELECT 'job_' || n, 'run_' || n, 'n', 'usr_1', 'o', 'prj_1', 'p', 'team', '{}', 50, '{}', '', '', '[]', 0, 0, 1, 1, 1, now(), 'succeeded',
		'done', now(), now(), 1 FROM generate_series(1, 30000) n`)
	h.exec(`INSERT INTO attempt (id, job_id, number, state, created_at) SELECT 'att_' || n, 'job_' || n, 1, 'succeeded', now() FROM generate_series(1, 30000) n`)
	_, err := h.db.OwnerPool("jobs").Exec(t.Context(), `ANALYZE`)
	require.NoError(t, err)
	for name, r := range map[string]rule{"ingest_token": db.DeleteIngestTokens, "work": db.DeleteWorks, "engine": db.DeleteEngines, "job": db.DeleteJobs} {
		plan := pgtest.Explain(t, h.pool, func(q pg.Querier) error {
			_, err := r(t.Context(), q, h.before, 1000)
			return err
		})
		require.NotContains(t, plan, "Seq Scan on ingest_token", name)
		require.NotContains(t, plan, "Seq Scan on work", name)
		require.NotContains(t, plan, "Seq Scan on job", name)
		require.NotContains(t, plan, "Seq Scan on attempt", name)
	}
}
