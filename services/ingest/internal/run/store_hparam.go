package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// maxTotal is the maximum number of hyperparameters of a run. maxText is the maximum total size, in bytes, of their
// names and values. One response contains all hyperparameters of a run.
const (
	maxTotal = 10_000
	maxText  = 1 << 20
)

// WriteHParams merges hyperparameters into those of a rank of the run. A value of rank 0 that is replaced by a different
// value is added to the history. WriteHParams refuses the hyperparameters if the rank, or what readers see of all ranks,
// would then exceed maxTotal or maxText.
func WriteHParams(params []report.Param, rank int32) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, _ *pgx.Batch, r *groupcommit.Run) error {
		keys, values := make([][]byte, len(params)), make([]string, len(params))
		for i, p := range params {
			keys[i], values[i] = []byte(p.Key), string(p.Value)
		}
		if err := check(ctx, tx, r.ID, rank, keys, values); err != nil {
			return err
		}
		if rank > 0 {
			return mergeOfRank(ctx, tx, r, rank, keys, values)
		}
		_, err := tx.Exec(ctx, `INSERT INTO hparam_history (run_id, key, value, attempt, updated_at, replaced_at)
			SELECT h.run_id, h.key, h.value, h.attempt, h.updated_at, $4 FROM hparam h
			JOIN unnest($2::bytea[], $3::text[]) n(key, value) ON n.key = h.key
			WHERE h.run_id = $1 AND h.value <> n.value`, r.ID, keys, values, r.Now)
		if err != nil {
			return fmt.Errorf("store replaced hyperparameters: %w", err)
		}
		_, err = tx.Exec(ctx, `INSERT INTO hparam AS h (run_id, key, value, attempt, updated_at, ranked)
			SELECT $1, n.key, n.value, $4, $5, true FROM unnest($2::bytea[], $3::text[]) n(key, value)
			ON CONFLICT (run_id, key) DO UPDATE SET value = excluded.value, ranked = true,
				attempt = CASE WHEN h.value = excluded.value THEN h.attempt ELSE $4 END,
				updated_at = CASE WHEN h.value = excluded.value THEN h.updated_at ELSE $5 END
			WHERE h.value <> excluded.value OR NOT h.ranked`, r.ID, keys, values, r.Attempt, r.Now)
		if err != nil {
			return fmt.Errorf("merge hyperparameters: %w", err)
		}
		return nil
	}
}

// mergeOfRank merges hyperparameters into those of a rank that is not 0.
func mergeOfRank(ctx context.Context, tx pgx.Tx, r *groupcommit.Run, rank int32, keys [][]byte, values []string) error {
	_, err := tx.Exec(ctx, `INSERT INTO rank_hparam AS h (run_id, rank, key, value, attempt, updated_at)
		SELECT $1, $6, n.key, n.value, $4, $5 FROM unnest($2::bytea[], $3::text[]) n(key, value)
		ON CONFLICT (run_id, rank, key) DO UPDATE SET value = excluded.value, attempt = $4, updated_at = $5
		WHERE h.value <> excluded.value`, r.ID, keys, values, r.Attempt, r.Now, rank)
	if err != nil {
		return fmt.Errorf("merge the hyperparameters of a rank: %w", err)
	}
	return nil
}

// check refuses hyperparameters if the rank, or what readers see of all ranks, would then have too many. It measures them
// before they are stored, because a write must refuse before it changes a row.
func check(ctx context.Context, tx pgx.Tx, runID string, rank int32, keys [][]byte, values []string) error {
	var count, size int64
	err := tx.QueryRow(ctx, `SELECT count(*), coalesce(sum(length(key) + octet_length(value)), 0) FROM (
			SELECT key, value FROM every_hparam WHERE run_id = $1 AND rank = $4 AND NOT key = ANY($2::bytea[])
			UNION ALL SELECT * FROM unnest($2::bytea[], $3::text[])) merged`, runID, keys, values, rank).Scan(&count, &size)
	if err == nil && count <= maxTotal && size <= maxText {
		// Usually only rank 0 reports hyperparameters, or the ranks report the same ones, so that what readers see of all
		// ranks is rank 0's and need not be measured. Values of rank 0 that may be another rank's count only if no rank has
		// reported the parameter since.
		err = tx.QueryRow(ctx, `SELECT count(*), coalesce(sum(length(key) + octet_length(value)), 0) FROM (
				SELECT DISTINCT ON (key) key, value FROM (
					SELECT key, value, rank, ranked FROM every_hparam WHERE run_id = $1 AND NOT (rank = $4 AND key = ANY($2::bytea[]))
					UNION ALL SELECT n.key, n.value, $4, true FROM unnest($2::bytea[], $3::text[]) n(key, value)) every
				ORDER BY key, ranked DESC, rank) shown
			WHERE CASE $4::int WHEN 0 THEN EXISTS (SELECT FROM rank_hparam WHERE run_id = $1)
				ELSE EXISTS (SELECT FROM unnest($2::bytea[]) n(key) WHERE NOT EXISTS (SELECT FROM hparam h
					WHERE h.run_id = $1 AND h.key = n.key AND h.ranked)) END`,
			runID, keys, values, rank).Scan(&count, &size)
	}
	if err != nil {
		return fmt.Errorf("measure hyperparameters: %w", err)
	}
	if count > maxTotal || size > maxText {
		return groupcommit.Refuse(fault.New(fault.Refused, "hparams_limit",
			"hparams: a run has at most %d hyperparameters with %d bytes in total", maxTotal, maxText))
	}
	return nil
}

// HParamStore reads hyperparameters.
type HParamStore struct{ Pool pg.Querier }

// Get returns the hyperparameters of a rank of a run as one JSON object, sorted by name. If rank is nil, each is that of the
// lowest rank that reported it; a value that is older than ranks counts only if no rank has reported the parameter since.
func (s *HParamStore) Get(ctx context.Context, runID string, rank *int32) ([]byte, error) {
	sql, args := `SELECT key, value FROM shown_hparam WHERE run_id = $1 ORDER BY key`, []any{runID}
	if rank != nil {
		sql, args = `SELECT key, value FROM every_hparam WHERE run_id = $1 AND rank = $2 ORDER BY key`, append(args, *rank)
	}
	rows, err := s.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read hyperparameters: %w", err)
	}
	var out bytes.Buffer
	out.WriteByte('{')
	var key []byte
	var value string
	_, err = pgx.ForEachRow(rows, []any{&key, &value}, func() error {
		name, err := json.Marshal(string(key))
		if err != nil {
			return err
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(name)
		out.WriteByte(':')
		out.WriteString(value)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read hyperparameters: %w", err)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// Has reports whether a rank of the run has all of the given hyperparameters with these values.
func (s *HParamStore) Has(ctx context.Context, runID string, rank int32, params []report.Param) (bool, error) {
	keys, values := make([][]byte, len(params)), make([]string, len(params))
	for i, p := range params {
		keys[i], values[i] = []byte(p.Key), string(p.Value)
	}
	var missing bool
	err := s.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM unnest($2::bytea[], $3::text[]) n(key, value)
		WHERE NOT EXISTS (SELECT FROM every_hparam h WHERE h.run_id = $1 AND h.rank = $4 AND h.key = n.key AND h.value = n.value))`,
		runID, keys, values, rank).Scan(&missing)
	if err != nil {
		return false, fmt.Errorf("look for hyperparameters: %w", err)
	}
	return !missing, nil
}

// Differing is a hyperparameter with its values as JSON, by run. Shortened are the runs whose values were cut.
type Differing struct {
	Key       string
	Values    map[string]string
	Shortened map[string]bool
}

// maxShown is the maximum number of characters of a value in a comparison.
const maxShown = 4096

// Differing returns the hyperparameters that differ between runs or that some of them lack, sorted by key: at most limit,
// with at most room bytes of values. more reports whether there are others.
func (s *HParamStore) Differing(ctx context.Context, runs []string, limit, room int) (found []Differing, more bool, err error) {
	rows, err := s.Pool.Query(ctx, `SELECT h.key, h.run_id, left(h.value, $4) FROM (
			SELECT key FROM shown_hparam WHERE run_id = ANY($1) GROUP BY key
			HAVING count(*) < cardinality($1::text[]) OR count(DISTINCT value) > 1 ORDER BY key LIMIT $3 + 1
		) d JOIN shown_hparam h ON h.key = d.key AND h.run_id = ANY($2) ORDER BY h.key, h.run_id`, runs, runs, limit, maxShown+1)
	if err != nil {
		return nil, false, fmt.Errorf("compare hyperparameters: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var key []byte
		var runID, value string
		if err := rows.Scan(&key, &runID, &value); err != nil {
			return nil, false, fmt.Errorf("compare hyperparameters: %w", err)
		}
		if room -= len(value); room < 0 || len(found) > limit {
			break
		}
		if n := len(found); n == 0 || found[n-1].Key != string(key) {
			found = append(found, Differing{Key: string(key), Values: map[string]string{}, Shortened: map[string]bool{}})
		}
		d := &found[len(found)-1]
		if utf8.RuneCountInString(value) > maxShown {
			_, last := utf8.DecodeLastRuneInString(value)
			value, d.Shortened[runID] = value[:len(value)-last], true
		}
		d.Values[runID] = value
	}
	if room < 0 || len(found) > limit {
		return found[:len(found)-1], true, nil // the last one may be incomplete
	}
	return found, false, rows.Err()
}

// HParamChange is a value that a later report replaced. Value is JSON.
type HParamChange struct {
	Key                    string
	Value                  []byte
	Attempt                int32
	ReportedAt, ReplacedAt time.Time
}

// Changes returns a page of the replaced values, newest replacement first, and whether another page follows.
func (s *HParamStore) Changes(ctx context.Context, runID string, p request.Page) ([]HParamChange, bool, error) {
	rows, err := s.Pool.Query(ctx, `SELECT key, value, attempt, updated_at, replaced_at FROM hparam_history WHERE run_id = $1
		ORDER BY n DESC LIMIT $2 OFFSET $3`, runID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, false, fmt.Errorf("list replaced hyperparameters: %w", err)
	}
	changes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c HParamChange, err error) {
		var key []byte
		err = row.Scan(&key, &c.Value, &c.Attempt, &c.ReportedAt, &c.ReplacedAt)
		c.Key = string(key)
		return c, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("list replaced hyperparameters: %w", err)
	}
	changes, more := request.CutPage(changes, p)
	return changes, more, nil
}
