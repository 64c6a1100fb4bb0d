package db_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// objectHarness is a harness with an object store that a sweeper cleans.
type objectHarness struct {
	*harness
	store   *objectstore.FileStore
	sweeper *retention.Sweeper
	// deleting is called before an object is deleted, while the lock is held.
	deleting func(key string)
}

func newObjectHarness(t *testing.T) *objectHarness {
	t.Helper()
	h := &objectHarness{harness: newHarness(t)}
	var err error
	h.store, err = objectstore.OpenFiles(objectstore.FileConfig{
		Root: t.TempDir(), Limit: 1 << 20, Clock: clock.Real(), IDs: id.NewSource(clock.Real(), rand.Reader),
		PublicURL: func() string { return "" }, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.store.Close()) })
	h.sweeper = &retention.Sweeper{Objects: h, Pool: h.pool, Prefix: db.ObjectPrefix, LockSQL: db.LockObjectsSQL, Unused: db.UnusedObjects}
	h.exec(`INSERT INTO dataset (id, name, owner_id, owner_name, project_id, project, visibility, description, format, created_at)
		VALUES ('ds_1', 'd', 'u', 'o', 'prj_1', 'p', 'team', '', 'files', now())`)
	return h
}

// List implements retention.Objects.
func (h *objectHarness) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	return h.store.List(ctx, prefix, after, limit)
}

// Delete implements retention.Objects.
func (h *objectHarness) Delete(ctx context.Context, key string) error {
	if h.deleting != nil {
		h.deleting(key)
	}
	return h.store.Delete(ctx, key)
}

// put stores an object under each key.
func (h *objectHarness) put(keys ...string) {
	h.t.Helper()
	sum := sha256.Sum256([]byte("x"))
	for _, key := range keys {
		require.NoError(h.t, h.store.Put(h.t.Context(), key, strings.NewReader("x"), 1, hex.EncodeToString(sum[:])))
	}
}

func (h *objectHarness) keys() (keys []string) {
	h.t.Helper()
	found, err := h.store.List(h.t.Context(), "", "", 100)
	require.NoError(h.t, err)
	for _, info := range found {
		keys = append(keys, info.Key)
	}
	return keys
}

const versionSQL = `INSERT INTO dataset_version (id, dataset_id, version, state, digest, files, bytes, manifest, creator_id, created_at, apart)
	VALUES ($1, 'ds_1', $1, $2, '', 1, 1, json_build_array(json_build_object('path', 'p', 'size', 1, 'sha256', $3::text)), 'u', now(), $4)`

func TestSweeper_Step_deletesOnlyUnusedObjects(t *testing.T) {
	t.Parallel()
	h := newObjectHarness(t)
	used := []string{
		"projects/prj_1/blobs/archived", "projects/prj_1/blobs/ready", "projects/prj_1/blobs/uploading",
		"projects/prj_1/environments/package", "projects/prj_1/models/mdl_1/weights", "projects/prj_1/packages/accepted", "projects/prj_1/packages/uploading",
		"projects/prj_1/packs/ds_1/pack",
		"projects/prj_1/protected/ds_1/secret", "projects/prj_1/tasksets/held", "projects/prj_1/tasksets/taskset",
		"projects/prj_1/unknown/kind", "recipes/sha256/tree.tar", "runs/run_1/1/checkpoint/x/y",
	}
	h.put(used...)
	h.put("projects/prj_1/blobs/nobody", "projects/prj_2/blobs/ready", "projects/prj_1/protected/ds_2/secret", "projects/prj_1/blobs/secret2",
		"projects/prj_1/packages/refused", "projects/prj_1/tasksets/invalid", "projects/prj_1/environments/nobody", "projects/prj_1/tasksets/ended",
		"projects/prj_1/packs/ds_1/ready", "projects/prj_1/packs/ds_2/pack", "projects/prj_1/models/mdl_1/nobody", "projects/prj_1/models/mdl_2/weights")
	for state, apart := range map[string]bool{"ready": false, "uploading": false, "archived": false} {
		h.exec(versionSQL, state, state, state, apart)
	}
	h.exec(`UPDATE dataset_version SET packs = '[{"sha256": "other", "size": 1}, {"sha256": "pack", "size": 1}]' WHERE id = 'ready'`)
	h.exec(versionSQL, "apart1", "ready", "secret", true)
	h.exec(versionSQL, "apart2", "ready", "secret2", true)
	h.exec(`INSERT INTO package (id, owner_id, owner_name, project_id, project, visibility, sha256, size_bytes, state, created_at)
		SELECT s, 'u', 'o', 'prj_1', 'p', 'team', s, 0, s, now() FROM unnest('{accepted,refused,uploading}'::text[]) s`)
	h.exec(`INSERT INTO environment (id, name, owner_id, owner_name, project_id, project, visibility, description, created_at)
		VALUES ('env_1', 'e', 'u', 'o', 'prj_1', 'p', 'team', '', now())`)
	h.exec(`INSERT INTO environment_version (id, environment_id, version, state, digest, manifest, taskset_sha256, package_sha256, package_bytes, creator_id,
		created_at) VALUES ('v1', 'env_1', '1', 'ready', '', '{}', 'taskset', 'package', 1, 'u', now()), ('v2', 'env_1', '2', 'invalid', '', '{}', 'invalid', '', 0, 'u', now())`)
	h.exec(`INSERT INTO model (id, name, owner_id, owner_name, project_id, project, visibility, description, task, created_at)
		SELECT m, m, 'u', 'o', 'prj_1', 'p', 'team', '', 'chat', now() FROM unnest('{mdl_1,mdl_2}'::text[]) m`)
	h.exec(`INSERT INTO model_version (id, model_id, version, status, lifecycle, run_id, artifact_id, format, digest, size_bytes, uri, file, packed, facts,
		created_at, files) VALUES ('mv_1', 'mdl_1', 1, 'ready', 'archived', '', '', 'peft', 'd', 1, 'u', '', false, '{}', now(), '[{"sha256": "x"}, {"sha256": "weights"}]')`)
	const held = "projects/prj_1/tasksets/held"
	require.NoError(t, db.HoldObjects(t.Context(), h.pool, time.Hour, held, "projects/prj_1/tasksets/ended", held), "files can have the same bytes")
	h.exec(`UPDATE object_hold SET held_until = now() - interval '1 hour' WHERE key LIKE '%ended'`)

	n, err := h.sweeper.Step(t.Context(), time.Now().Add(-time.Minute), 1000)
	require.NoError(t, err)
	require.Zero(t, n, "young objects are kept")
	n, err = h.sweeper.Step(t.Context(), time.Now().Add(time.Minute), 1000)
	require.NoError(t, err)
	require.EqualValues(t, 12, n)
	require.Equal(t, used, h.keys())
	require.EqualValues(t, 1, h.apply(func(ctx context.Context, q pg.Querier, _ time.Time, limit int) (int64, error) {
		return db.DeleteHolds(ctx, q, time.Now(), limit)
	}))
}

// An object is kept if a version that refers to it is committed after the sweeper's first lookup.
func TestSweeper_Step_referenceDuringSweep(t *testing.T) {
	t.Parallel()
	h := newObjectHarness(t)
	h.put("projects/prj_1/blobs/again")
	var once sync.Once
	h.sweeper.Unused = func(ctx context.Context, q pg.Querier, keys []string) ([]string, error) {
		unused, err := db.UnusedObjects(ctx, q, keys)
		once.Do(func() {
			require.Len(t, unused, 1)
			h.exec(versionSQL, "v1", "uploading", "again", false)
		})
		return unused, err
	}
	n, err := h.sweeper.Step(t.Context(), time.Now().Add(time.Minute), 1000)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Len(t, h.keys(), 1)
}

// While the sweeper deletes objects, no row can begin to refer to them: a writer waits and then finds that they are
// gone.
func TestSweeper_Step_writersWaitForDeletion(t *testing.T) {
	t.Parallel()
	h := newObjectHarness(t)
	h.put("projects/prj_1/blobs/old")
	write := func(sql string, args ...any) error {
		return pgx.BeginFunc(t.Context(), h.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `SET LOCAL lock_timeout = '50ms'`); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), sql, args...)
			return err
		})
	}
	writes := map[string][]any{
		versionSQL: {"v1", "uploading", "old", false},
		`INSERT INTO package (id, owner_id, owner_name, project_id, project, visibility, sha256, size_bytes, state, created_at)
			VALUES ('p', 'u', 'o', 'prj_1', 'p', 'team', 's', 0, 'uploading', now())`: nil,
		`INSERT INTO environment_version (id, environment_id, version, state, digest, manifest, taskset_sha256, package_sha256, package_bytes, creator_id,
			created_at) VALUES ('v1', 'env_1', '1', 'uploading', '', '{}', 't', '', 1, 'u', now())`: nil,
		`INSERT INTO object_hold (key, held_until) VALUES ('k', now())`: nil,
	}
	called := false
	h.deleting = func(string) {
		called = true
		for sql, args := range writes {
			var failed *pgconn.PgError
			require.ErrorAs(t, write(sql, args...), &failed, sql)
			require.Equal(t, "55P03", failed.Code, "%s must wait for the lock: %v", sql, failed)
		}
	}
	n, err := h.sweeper.Step(t.Context(), time.Now().Add(time.Minute), 1000)
	require.NoError(t, err)
	require.True(t, called)
	require.EqualValues(t, 1, n)
	require.NoError(t, write(versionSQL, "v1", "uploading", "old", false), "the lock is free again")
}

// A writer whose transaction is open makes the sweeper give up soon, so that other writers do not wait behind the
// sweeper.
func TestSweeper_Step_writerInProgress(t *testing.T) {
	t.Parallel()
	h := newObjectHarness(t)
	h.put("projects/prj_1/blobs/old")
	tx, err := h.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), versionSQL, "v1", "uploading", "old", false)
	require.NoError(t, err)
	_, err = h.sweeper.Step(t.Context(), time.Now().Add(time.Minute), 1000)
	require.ErrorContains(t, err, "lock the references to objects")
	require.NoError(t, tx.Commit(t.Context()))
	n, err := h.sweeper.Step(t.Context(), time.Now().Add(time.Minute), 1000)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Len(t, h.keys(), 1)
}

func TestUnusedObjects_usesIndexAtManyVersions(t *testing.T) {
	t.Parallel()
	h := newObjectHarness(t)
	h.exec(`INSERT INTO dataset_version (id, dataset_id, version, state, digest, files, bytes, manifest, creator_id, created_at)
		SELECT n, 'ds_1', n, 'ready', '', 1, 1, json_build_array(json_build_object('sha256', md5(n::text))), 'u', now() FROM generate_series(1, 20000) n`)
	keys := []string{"projects/prj_1/blobs/c4ca4238a0b923820dcc509a6f75849b", "projects/prj_1/blobs/none"}
	plan := pgtest.Explain(t, h.pool, func(q pg.Querier) error {
		_, err := db.UnusedObjects(t.Context(), q, keys)
		return err
	})
	require.NotContains(t, plan, "Seq Scan on dataset_version")
	unused, err := db.UnusedObjects(t.Context(), h.pool, keys)
	require.NoError(t, err)
	require.Equal(t, keys[1:], unused)
}

// Uploads of the same content are created and deleted while sweeps run continuously. An upload looks for the object
// after its row is committed, and uploads the object if it is missing. An object that an upload found or uploaded never
// disappears.
func TestSweeper_Step_racesUploads(t *testing.T) {
	t.Parallel()
	h := newObjectHarness(t)
	// The statement widens the time between the last look at the references and the deletion.
	h.deleting = func(string) { _, _ = h.pool.Exec(t.Context(), `SELECT count(*) FROM generate_series(1, 20000)`) }
	const key = "projects/prj_1/blobs/again"
	ctx, cancel := context.WithCancel(t.Context())
	var swept int64
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		for ctx.Err() == nil {
			n, _ := h.sweeper.Step(ctx, time.Now().Add(time.Hour), 1000) // it fails while an upload holds the lock
			swept += n
		}
	})
	for range 200 {
		h.exec(versionSQL, "v1", "uploading", "again", false)
		if _, err := h.store.Stat(t.Context(), key); err != nil {
			h.put(key)
		}
		for range 3 {
			_, err := h.store.Stat(t.Context(), key)
			require.NoError(t, err, "an object that a committed row refers to was deleted")
			h.exec(`SELECT 1`)
		}
		h.exec(`DELETE FROM dataset_version`)
	}
	cancel()
	sweeping.Wait()
	require.Positive(t, swept)
}
