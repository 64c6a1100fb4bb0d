package metric

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// exportTime is the maximum duration of the export of one series, which holds a snapshot of the database.
const exportTime = 10 * time.Minute

// maxExportKeys is the maximum number of series of an export that each read many points in rows.
const maxExportKeys = 256

// Export passes every point that readers see to visit, series by series in the order of their keys, each in the order of
// its steps. If keys is not empty, it passes only the series with these keys. With an attempt or a rank, it passes only their points;
// with AllAttempts, the points of each attempt, one attempt after another for each key. It stops at the first error of visit, and
// returns an Absent fault if the run's points are deleted before the end. The memory that it uses does not depend on the
// number of points. It waits like Charts, for each series.
func (s *Store) Export(ctx context.Context, runID string, keys []string, attempt int32, rank *int32, visit func(key string, p Seen) error) error {
	s = s.Showing(0, rank, 1)
	attempts, err := s.exported(ctx, runID, attempt)
	if err != nil {
		return err
	}
	ids, series, err := s.exportedKeys(ctx, runID, keys)
	if err != nil {
		return err
	}
	for i, id := range ids {
		for _, one := range attempts {
			if err := s.Showing(one, s.rank, 1).export(ctx, runID, id, func(p Seen) error { return visit(series[i].Key, p) }); err != nil {
				return err
			}
		}
	}
	return begin(ctx, s.pool, []*reading{{store: s, runID: runID, whole: true}}) // the keys may have been deleted before the first series
}

// exportedKeys returns the series of an export, of all keys if keys is empty: at most MaxSeries, since a run has no more.
func (s *Store) exportedKeys(ctx context.Context, runID string, keys []string) ([]int32, []Series, error) {
	ids, series, err := s.keys(ctx, runID, keys, request.Page{Limit: MaxSeries})
	if err == nil && len(ids) > maxExportKeys {
		err = s.exportable(ctx, runID, len(ids))
	}
	return ids, series, err
}

// exported returns the attempts whose points are exported one after another.
func (s *Store) exported(ctx context.Context, runID string, attempt int32) ([]int32, error) {
	if attempt != AllAttempts {
		return []int32{attempt}, nil
	}
	var last int32
	if err := s.pool.QueryRow(ctx, `SELECT attempt FROM run WHERE id = $1`, runID).Scan(&last); err != nil {
		return nil, fmt.Errorf("find the attempts to export: %w", err)
	}
	all := make([]int32, last)
	for i := range all {
		all[i] = int32(i) + 1
	}
	return all, nil
}

// exportable refuses an export of many keys whose series would each read too many points in rows. It permits as many as
// the compactor leaves in the rows of a closed run.
func (s *Store) exportable(ctx context.Context, runID string, keys int) error {
	var many bool
	err := s.pool.QueryRow(ctx, `SELECT (SELECT coalesce(sum(points), 0) FROM metric_batch WHERE run_id = $1)
		>= $2::bigint * (SELECT count(*) FROM metric_key WHERE run_id = $1)`, runID, leastBlock).Scan(&many)
	if err != nil {
		return fmt.Errorf("count the metrics to export: %w", err)
	}
	if many {
		return fault.New(fault.Refused, "export_keys", "%d keys, more than %d, can be exported when the run has ended and is compacted; name fewer with keys", keys, maxExportKeys)
	}
	return nil
}

func (s *Store) export(ctx context.Context, runID string, key int32, visit func(p Seen) error) error {
	leave, err := s.gate.Enter(ctx, run.CallerReader(ctx))
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	var failed error
	err = s.snapshot(ctx, func(ctx context.Context, db pgx.Tx) error {
		if _, err := db.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, exportTime.Milliseconds())); err != nil {
			return fmt.Errorf("permit an export its time: %w", err)
		}
		r := s.newReading(runID, []int32{key}, make([]Series, 1), All(Steps), 1)
		r.whole = true
		if err := begin(ctx, db, []*reading{r}); err != nil {
			return err
		}
		return r.inOrder(ctx, func(p Seen) {
			if failed == nil {
				if failed = visit(p); failed != nil {
					cancel()
				}
			}
		})
	})
	if failed != nil {
		return failed
	}
	return err
}
