package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// ObjectPrefix is the beginning of the keys of all objects that rows of this schema refer to, except recipes. Objects
// of recipes are never deleted: there is only one for each version of a recipe.
const ObjectPrefix = "projects/"

// LockObjectsSQL takes the exclusive lock on references to objects until the end of the transaction.
const LockObjectsSQL = `SELECT pg_advisory_xact_lock(hashtextextended('registry objects', 0))`

// UnusedObjects returns the keys to which no row refers. It does not return keys of unknown form. Invalid versions of
// environments and refused packages do not refer to their objects.
func UnusedObjects(ctx context.Context, q pg.Querier, keys []string) ([]string, error) {
	rows, err := q.Query(ctx, `
		WITH part AS (SELECT k, split_part(k, '/', 2) AS project, split_part(k, '/', 3) AS kind, split_part(k, '/', 4) AS third,
			split_part(k, '/', 5) AS fourth FROM unnest($1::text[]) k)
		SELECT k FROM part p WHERE kind IN ('blobs', 'packs', 'protected', 'packages', 'tasksets', 'environments', 'models')
			AND NOT EXISTS (SELECT FROM object_hold h WHERE h.key = p.k AND h.held_until > clock_timestamp())
			AND NOT CASE kind
				WHEN 'blobs' THEN EXISTS (SELECT FROM dataset_version v JOIN dataset d ON d.id = v.dataset_id
					WHERE registry.manifest_digests(v.manifest) @> ARRAY[p.third] AND NOT v.apart AND d.project_id = p.project)
				WHEN 'protected' THEN EXISTS (SELECT FROM dataset_version v
					WHERE registry.manifest_digests(v.manifest) @> ARRAY[p.fourth] AND v.dataset_id = p.third)
				WHEN 'packs' THEN EXISTS (SELECT FROM dataset_version v
					WHERE v.dataset_id = p.third AND v.packs @> jsonb_build_array(jsonb_build_object('sha256', p.fourth)))
				WHEN 'models' THEN EXISTS (SELECT FROM model_version v
					WHERE v.model_id = p.third AND registry.manifest_digests(v.files) @> ARRAY[p.fourth])
				WHEN 'packages' THEN EXISTS (SELECT FROM package c
					WHERE c.project_id = p.project AND c.sha256 = p.third AND c.state <> 'refused')
				WHEN 'tasksets' THEN EXISTS (SELECT FROM environment_version v JOIN environment e ON e.id = v.environment_id
					WHERE v.taskset_sha256 = p.third AND v.state <> 'invalid' AND e.project_id = p.project)
				ELSE EXISTS (SELECT FROM environment_version v JOIN environment e ON e.id = v.environment_id
					WHERE v.package_sha256 = p.third AND v.package_sha256 <> '' AND v.state <> 'invalid' AND e.project_id = p.project)
			END`, keys)
	if err != nil {
		return nil, fmt.Errorf("find unused objects: %w", err)
	}
	unused, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find unused objects: %w", err)
	}
	return unused, nil
}

// HoldObjects prevents the deletion of objects for the duration d, although no row refers to them yet. To ensure that
// objects are not deleted after a lookup, call HoldObjects before the lookup.
func HoldObjects(ctx context.Context, q pg.Querier, d time.Duration, keys ...string) error {
	_, err := q.Exec(ctx, `INSERT INTO object_hold AS h (key, held_until)
		SELECT k, clock_timestamp() + $2::interval FROM (SELECT DISTINCT unnest($1::text[]) AS k) AS keys ORDER BY k
		ON CONFLICT (key) DO UPDATE SET held_until = greatest(h.held_until, excluded.held_until)`, keys, d)
	if err != nil {
		return fmt.Errorf("hold objects: %w", err)
	}
	return nil
}

// DeleteHolds deletes holds that ended before the given time, at most limit of them, and returns their number.
func DeleteHolds(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "ended holds of objects", `
		WITH old AS (DELETE FROM object_hold WHERE key IN (SELECT key FROM object_hold WHERE held_until < $1
			ORDER BY held_until LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING key)
		SELECT count(*) FROM old`, before, limit)
}
