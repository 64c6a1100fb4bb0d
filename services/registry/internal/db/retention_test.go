package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

type harness struct {
	t      *testing.T
	pool   *pgxpool.Pool
	before time.Time
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
	return &harness{t: t, pool: pool, before: time.Now().Add(-24 * time.Hour)}
}

func (h *harness) exec(sql string, args ...any) {
	h.t.Helper()
	_, err := h.pool.Exec(h.t.Context(), sql, args...)
	require.NoError(h.t, err)
}

func (h *harness) ids(table string) (ids []string) {
	h.t.Helper()
	require.NoError(h.t, h.pool.QueryRow(h.t.Context(), `SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM `+table).Scan(&ids))
	return ids
}

// apply runs a retention rule in steps of one row and returns the number of deleted rows.
func (h *harness) apply(rule func(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error)) (total int64) {
	h.t.Helper()
	for {
		n, err := rule(h.t.Context(), h.pool, h.before, 1)
		require.NoError(h.t, err)
		require.LessOrEqual(h.t, n, int64(1), "a step must not delete more rows than its limit")
		if total += n; n == 0 {
			return total
		}
	}
}

func TestDeleteDatasetUploads_abandonedOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`INSERT INTO dataset (id, name, owner_id, owner_name, project_id, project, visibility, description, format, created_at)
		VALUES ('ds', 'd', 'u', 'o', 'p', 'p', 'team', '', 'files', now())`)
	h.exec(`INSERT INTO dataset_version (id, dataset_id, version, state, digest, files, bytes, manifest, creator_id, created_at, upload_until)
		SELECT i, 'ds', i, s, '', 0, 0, '[]', 'u', now(), u FROM (VALUES ('old1', 'uploading', $1::timestamptz), ('old2', 'uploading', $1),
			('young', 'uploading', now()), ('ready', 'ready', $1), ('archived', 'archived', $1)) v (i, s, u)`, h.before.Add(-time.Minute))
	require.EqualValues(t, 2, h.apply(db.DeleteDatasetUploads))
	require.Equal(t, []string{"archived", "ready", "young"}, h.ids("dataset_version"))
}

func TestDeletePackages_unusedOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`INSERT INTO package (id, owner_id, owner_name, project_id, project, visibility, sha256, size_bytes, state, created_at)
		SELECT i, 'u', 'o', 'p', 'p', 'team', '', 0, s, c FROM (VALUES ('left', 'uploading', $1::timestamptz), ('refused', 'refused', $1),
			('accepted', 'accepted', $1), ('young', 'uploading', now())) v (i, s, c)`, h.before.Add(-time.Minute))
	require.EqualValues(t, 2, h.apply(db.DeletePackages))
	require.Equal(t, []string{"accepted", "young"}, h.ids("package"))
}

func TestDeleteEnvironments_withVersions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	old := h.before.Add(-time.Minute)
	h.exec(`INSERT INTO environment (id, name, owner_id, owner_name, project_id, project, visibility, description, created_at, deleted_at)
		SELECT i, i, 'u', 'o', 'p', 'p', 'team', '', now(), d FROM (VALUES ('deleted', $1::timestamptz), ('kept', NULL), ('young', now())) v (i, d)`, old)
	h.exec(`INSERT INTO environment_version (id, environment_id, version, state, digest, manifest, taskset_sha256, package_sha256, package_bytes, creator_id,
		created_at) SELECT e || '-' || s, e, s, s, '', '{}', '', '', 0, 'u', $1 FROM unnest('{deleted,kept}'::text[]) e, unnest('{ready,uploading,invalid}'::text[]) s`, old)
	require.EqualValues(t, 2, h.apply(db.DeleteEnvironmentUploads))
	require.EqualValues(t, 1, h.apply(db.DeleteEnvironments))
	require.Equal(t, []string{"kept", "young"}, h.ids("environment"))
	require.Equal(t, []string{"kept-invalid", "kept-ready"}, h.ids("environment_version"))
}

func TestDeleteDeployments_beforeTheirModels(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	old := h.before.Add(-time.Minute)
	h.exec(`INSERT INTO model (id, name, owner_id, owner_name, project_id, project, visibility, description, task, created_at, deleted_at)
		SELECT i, i, 'u', 'o', 'p', 'p', 'team', '', 'chat', now(), d FROM (VALUES ('m1', $1::timestamptz), ('m2', $1), ('m3', NULL)) v (i, d)`, old)
	h.exec(`INSERT INTO model_version (id, model_id, version, status, lifecycle, run_id, artifact_id, format, digest, size_bytes, uri, file, packed, facts,
		created_at) SELECT id || '-v', id, 1, 'ready', 'candidate', 'run', '', 'gguf', id, 0, '', '', false, '{}', now() FROM model`)
	h.exec(`INSERT INTO deployment (id, name, owner_id, owner_name, project_id, project, visibility, state, created_at, deleted_at)
		SELECT i, i, 'u', 'o', 'p', 'p', 'team', 'serving', now(), d FROM (VALUES ('gone', $1::timestamptz), ('stopping', $1), ('live', NULL)) v (i, d)`, old)
	h.exec(`INSERT INTO revision (id, deployment_id, number, state, model_id, model_version, serving, serving_digest, plan, work_id, desired, created_at)
		SELECT d || '-r', d, 1, 'stopped', m, 1, '{}', '', '{}', d, w, now()
		FROM (VALUES ('gone', 'm1', 'gone'), ('stopping', 'm2', 'running'), ('live', 'm3', 'running')) v (d, m, w)`)
	h.exec(`INSERT INTO deployment_token (id, deployment_id, name, prefix, hash, created_at, revoked_at)
		SELECT id || n, id, '', '', sha256((id || n)::bytea), now(), CASE n WHEN 1 THEN $1::timestamptz END FROM deployment, generate_series(1, 2) n`, old)
	used, err := model.Store{}.RunsInUse(t.Context(), h.pool, []string{"run", "another"})
	require.NoError(t, err)
	require.Equal(t, []string{"run"}, used, "the data of a run stays while one of its models has a row")
	require.Zero(t, h.apply(db.DeleteModels), "revisions refer to both deleted models")
	require.EqualValues(t, 3, h.apply(db.DeleteTokens))
	require.EqualValues(t, 1, h.apply(db.DeleteDeployments))
	require.EqualValues(t, 1, h.apply(db.DeleteModels))
	require.Equal(t, []string{"live", "stopping"}, h.ids("deployment"))
	require.Equal(t, []string{"live-r", "stopping-r"}, h.ids("revision"))
	require.Equal(t, []string{"live2", "stopping2"}, h.ids("deployment_token"))
	require.Equal(t, []string{"m2", "m3"}, h.ids("model"))
	require.Equal(t, []string{"m2-v", "m3-v"}, h.ids("model_version"))
}
