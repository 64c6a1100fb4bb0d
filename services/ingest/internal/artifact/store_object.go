package artifact

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

const (
	// ObjectPrefix is the beginning of the keys of all objects that artifacts refer to.
	ObjectPrefix = "runs/"
	// LockObjectsSQL is a statement. Until the transaction that executed it ends, no other transaction can add or remove
	// references to objects.
	LockObjectsSQL = `SELECT pg_advisory_xact_lock(hashtextextended('ingest objects', 0))`
)

// UnusedObjects returns those of the given keys to which no artifact refers and that are not held.
func UnusedObjects(ctx context.Context, q pg.Querier, keys []string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT k FROM unnest($1::text[]) k
		WHERE NOT EXISTS (SELECT FROM object_hold h WHERE h.key = k AND h.held_until > clock_timestamp())
			AND NOT EXISTS (SELECT FROM artifact a WHERE a.run_id = split_part(k, '/', 2) AND a.path = 'blob://' || k AND a.released_at IS NULL)`, keys)
	if err != nil {
		return nil, fmt.Errorf("find unused objects: %w", err)
	}
	unused, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find unused objects: %w", err)
	}
	return unused, nil
}

// Holds protects objects from deletion while no artifact refers to them yet, and counts the bytes that each run
// uploads.
type Holds struct {
	Pool *pgxpool.Pool
	// For is the length of a hold. It must exceed the validity of an upload URL and the time that a client needs to
	// register an uploaded object.
	For   time.Duration
	Quota *groupcommit.Quota
}

// Extend extends the hold of an object, and reports whether the object has a hold that is still valid. Callers must
// call Extend before they check whether the object exists.
func (h *Holds) Extend(ctx context.Context, key string) (held bool, err error) {
	tag, err := h.Pool.Exec(ctx, `UPDATE object_hold SET held_until = greatest(held_until, clock_timestamp() + $2::interval)
		WHERE key = $1 AND held_until > clock_timestamp()`, key, h.For)
	if err != nil {
		return false, fmt.Errorf("extend the hold of an object: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// Hold protects an object from deletion for a while, and adds its size to the total size of the run's artifacts, unless
// the size was added before. If the total would then exceed the run's limit, Hold returns a Refused fault and changes
// nothing. It stores the path that the client gave for the object, unless it is empty, and returns the stored path. If
// the object, or an artifact with it, has another path, it returns errTaken and changes nothing.
func (h *Holds) Hold(ctx context.Context, runID, key, given string, size int64) (stored string, err error) {
	err = pg.InTx(ctx, h.Pool, func(ctx context.Context, tx pgx.Tx) error {
		// The size of a registered object was added before, even if its hold has been deleted since.
		var added *int64
		var known *string
		err := tx.QueryRow(ctx, `INSERT INTO object_hold AS h (key, held_until, name) VALUES ($1, clock_timestamp() + $2::interval, nullif($4, ''))
			ON CONFLICT (key) DO UPDATE SET held_until = greatest(h.held_until, excluded.held_until), name = coalesce(h.name, excluded.name)
			RETURNING coalesce(h.bytes, (SELECT size_bytes FROM artifact a WHERE a.run_id = $3 AND a.path = 'blob://' || $1 AND a.released_at IS NULL LIMIT 1)),
				coalesce(h.name, ''), (SELECT name FROM artifact a WHERE a.run_id = $3 AND a.path = 'blob://' || $1 LIMIT 1)`,
			key, h.For, runID, given).Scan(&added, &stored, &known)
		if err != nil {
			return fmt.Errorf("hold an object: %w", err)
		}
		if given != "" && (stored != given || known != nil && *known != given) {
			return errTaken
		}
		if stored == "" && known != nil {
			stored = *known
		}
		more := size + groupcommit.ArtifactCost
		if added != nil {
			more = size - *added
		}
		if more <= 0 {
			return nil
		}
		tag, err := tx.Exec(ctx, `WITH r AS (UPDATE run SET artifact_bytes = artifact_bytes + $3
				WHERE id = $1 AND ($5::bigint = 0 OR artifact_bytes + $3 <= $5) RETURNING id)
			UPDATE object_hold SET bytes = $4 FROM r WHERE key = $2`, runID, key, more, size, h.Quota.Limit(groupcommit.Artifacts))
		if err != nil {
			return fmt.Errorf("add the size of an object to the run's artifacts: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return h.Quota.Refuse(ctx, groupcommit.Artifacts)
		}
		return nil
	})
	return stored, err
}

// DeleteBefore deletes the holds that ended before the given time, at most limit of them. It returns how many it
// deleted.
func (h *Holds) DeleteBefore(ctx context.Context, before time.Time, limit int) (int64, error) {
	tag, err := h.Pool.Exec(ctx, `DELETE FROM object_hold WHERE key IN (
		SELECT key FROM object_hold WHERE held_until < $1 ORDER BY held_until LIMIT $2 FOR UPDATE SKIP LOCKED)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete ended holds: %w", err)
	}
	return tag.RowsAffected(), nil
}
