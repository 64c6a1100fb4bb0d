package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// job inserts the job of a run.
func (h *harness) job(runID, labels string) {
	h.Helper()
	h.exec(`INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec, spec_digest, template,
			pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, queued_at, seq)
		VALUES ('job_' || $1, $1, 'n', 'usr_a', 'alice', 'prj_1', 'default', 'team', $2::text::jsonb, 50, '{}', '', '', '[]', 0, 0, 1, 1, 1, now(), 'queued', now(), 1)`,
		runID, labels)
}

// A run has the labels of its job from the beginning, follows their changes, and keeps them.
func TestRunKeepsLabelsOfJob(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`DELETE FROM run`)
	h.job("run_1", `{"a": "b"}`)
	h.exec(`INSERT INTO run (id, job_id, name, owner_id, owner_name, project_id, project, visibility, state, recipe_lock, bindings, recipe_digest,
		spec_digest, created_at) VALUES ('run_1', 'job_run_1', 'n', 'usr_a', 'alice', 'prj_1', 'default', 'team', 'queued', '{}', '{}', '', '', now())`)
	labels := func() map[string]string {
		r, err := run.Store{}.Get(t.Context(), h.pool, access.ServiceScope(), "run_1")
		require.NoError(t, err)
		return r.Labels
	}
	require.Equal(t, map[string]string{"a": "b"}, labels())
	h.exec(`UPDATE job SET labels = '{"c": "d"}'`)
	require.Equal(t, 1, h.count(`SELECT count(*) FROM run WHERE labels = '{"c": "d"}'`))
	h.exec(`DELETE FROM job`)
	require.Equal(t, map[string]string{"c": "d"}, labels())
}

// Runs that are older than the column have the labels of their jobs before and after these are copied.
func TestCopyRunLabels(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.job(first, `{"team": "x"}`)
	h.exec(`UPDATE run SET labels = NULL`)
	for range 2 {
		require.Equal(t, "a", h.list(run.Filter{Labels: []string{"team=x"}}))
		require.Empty(t, h.list(run.Filter{Labels: []string{"team=y"}}))
		r, err := run.Store{}.Get(t.Context(), h.pool, access.ServiceScope(), first)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"team": "x"}, r.Labels)
		require.NoError(t, db.CopyRunLabels(t.Context(), h.pool))
		require.Zero(t, h.count(`SELECT count(*) FROM run WHERE labels IS NULL`))
	}
	require.Equal(t, 3, h.count(`SELECT count(*) FROM run WHERE labels = '{}'`))
}
