package groupcommit

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// DeleteDigests deletes the oldest digests that were stored before the given time, at most limit of them, and returns
// their number. A repeat of a request whose digest is deleted is still recognized as a repeat, but its body is no
// longer compared.
func DeleteDigests(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	tag, err := q.Exec(ctx, `DELETE FROM request_digest WHERE (run_id, stream, writer, seq) IN (
		SELECT run_id, stream, writer, seq FROM request_digest WHERE created_at < $1 ORDER BY created_at LIMIT $2
		FOR UPDATE SKIP LOCKED)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete old digests of requests: %w", err)
	}
	return tag.RowsAffected(), nil
}
