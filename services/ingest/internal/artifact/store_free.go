package artifact

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// removedArtifact is an artifact whose object is to be deleted. Released means that it does not refer to the object any more.
type removedArtifact struct {
	Artifact

	Released bool
}

// due returns artifacts that were removed long enough ago, those that were removed first.
func (f *Freer) due(ctx context.Context) ([]*removedArtifact, error) {
	due, err := pg.All[removedArtifact](f.Pool.Query(ctx, `SELECT `+columns+`, released_at IS NOT NULL AS released FROM artifact
		WHERE removed_at IS NOT NULL AND freed_at IS NULL AND removed_at < clock_timestamp() - $1::interval ORDER BY removed_at, id LIMIT $2`,
		freeAfter, freedAtOnce))
	if err != nil {
		return nil, fmt.Errorf("list removed checkpoints: %w", err)
	}
	return due, nil
}

// release restores the artifacts that are in use. The others stop referring to their objects, which are not held any more.
func (f *Freer) release(ctx context.Context, used, ids, keys []string) error {
	return pg.InTx(ctx, f.Pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE artifact SET removed_at = NULL, kept_at = clock_timestamp() WHERE id = ANY($1) AND released_at IS NULL`, used)
		if err != nil {
			return fmt.Errorf("restore the checkpoints that are in use: %w", err)
		}
		tag, err := tx.Exec(ctx, `UPDATE artifact SET released_at = clock_timestamp() WHERE id = ANY($1) AND removed_at IS NOT NULL AND released_at IS NULL`, ids)
		if err != nil {
			return fmt.Errorf("release the objects of removed checkpoints: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil // an earlier call has released them; a hold is newer
		}
		if _, err := tx.Exec(ctx, `DELETE FROM object_hold WHERE key = ANY($1)`, keys); err != nil {
			return fmt.Errorf("delete the holds of removed checkpoints: %w", err)
		}
		return nil
	})
}

// settle marks released artifacts as freed whose objects are not held, and lowers the totals of their runs by the sizes of
// the objects to which no other artifact refers. It returns the number of artifacts and the sum of these sizes. Call it after
// the objects were deleted. The path of an object has its kind, so only checkpoints refer to it.
func (f *Freer) settle(ctx context.Context, ids []string) (count, bytes int64, err error) {
	err = f.Pool.QueryRow(ctx, `WITH freed AS (UPDATE artifact a SET freed_at = clock_timestamp()
			WHERE id = ANY($1) AND released_at IS NOT NULL AND freed_at IS NULL
				AND NOT EXISTS (SELECT FROM object_hold h WHERE h.key = substr(a.path, length('blob://') + 1) AND h.held_until > clock_timestamp())
			RETURNING run_id, path, size_bytes),
		object AS (SELECT DISTINCT run_id, path, size_bytes FROM freed f WHERE NOT EXISTS
			(SELECT FROM artifact o WHERE o.run_id = f.run_id AND o.kind = 'checkpoint' AND o.path = f.path AND o.released_at IS NULL)),
		total AS (SELECT run_id, sum(size_bytes)::bigint AS bytes FROM object GROUP BY run_id),
		lowered AS (UPDATE run SET artifact_bytes = greatest(0, artifact_bytes - total.bytes) FROM total WHERE run.id = total.run_id)
		SELECT (SELECT count(*) FROM freed), (SELECT coalesce(sum(bytes), 0)::bigint FROM total)`, ids).Scan(&count, &bytes)
	if err != nil {
		return 0, 0, fmt.Errorf("record the deletion of checkpoints: %w", err)
	}
	return count, bytes, nil
}
