package runsearch

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// claim returns the runs whose reports are due: those that have started and whose copy is not complete. A run that was
// tried less than a minute ago is due only if it has ended since.
func (Store) claim(ctx context.Context, q pg.Querier) ([]*due, error) {
	found, err := pg.All[due](q.Query(ctx, `WITH claimed AS (
			UPDATE run SET summary_tried_at = clock_timestamp() WHERE id IN (
				SELECT id FROM run WHERE NOT summary_final AND data_expired_at IS NULL AND (started_at IS NOT NULL OR ended_at IS NOT NULL)
					AND (summary_tried_at IS NULL OR summary_tried_at < ended_at OR summary_tried_at < clock_timestamp() - $1::interval)
				ORDER BY summary_tried_at NULLS FIRST, id LIMIT $2 FOR UPDATE SKIP LOCKED)
			RETURNING id, summary_tried_at AS now
		)
		SELECT c.id, coalesce(s.position, 0) AS position, c.now, r.goals FROM claimed c JOIN run r ON r.id = c.id
			LEFT JOIN run_summary s ON s.run_id = c.id ORDER BY c.id`, again, maxClaim))
	if err != nil {
		return nil, fmt.Errorf("find the runs to summarize: %w", err)
	}
	return found, nil
}

// position returns a run with the position of its last copy.
func (Store) position(ctx context.Context, q pg.Querier, runID string) (*due, error) {
	d, err := pg.One[due](q.Query(ctx, `SELECT $1::text AS id, coalesce((SELECT position FROM run_summary WHERE run_id = $1), 0) AS position,
		clock_timestamp() AS now, (SELECT goals FROM run WHERE id = $1) AS goals`, runID))
	if err != nil {
		return nil, fmt.Errorf("read the position of the summary of a run: %w", err)
	}
	return d, nil
}

// putOff delays the next copy of a run.
func (Store) putOff(ctx context.Context, q pg.Querier, runID string, pause time.Duration) error {
	if _, err := q.Exec(ctx, `UPDATE run SET summary_tried_at = clock_timestamp() + $2::interval WHERE id = $1`, runID, pause); err != nil {
		return fmt.Errorf("put off the summary of a run: %w", err)
	}
	return nil
}

// save stores a copy, unless a newer one is stored or the run was deleted.
func (Store) save(ctx context.Context, tx pgx.Tx, s *summary) error {
	tag, err := tx.Exec(ctx, `INSERT INTO run_summary AS s (run_id, position, as_of, hparams_left_out, metrics_left_out, rows, shown, copied_at)
			SELECT id, $2, $3, $4, $5, $7, $8, $3 FROM run WHERE id = $1 FOR KEY SHARE
		ON CONFLICT (run_id) DO UPDATE SET position = excluded.position, copied_at = excluded.copied_at,
			as_of = greatest(s.as_of, excluded.as_of), hparams_left_out = excluded.hparams_left_out,
			metrics_left_out = CASE WHEN $6 THEN s.metrics_left_out ELSE excluded.metrics_left_out END,
			rows = CASE WHEN $6 THEN s.rows ELSE excluded.rows END, shown = CASE WHEN $6 THEN s.shown ELSE excluded.shown END
		WHERE s.position <= excluded.position AND coalesce(s.copied_at, s.as_of) <= excluded.copied_at`,
		s.runID, s.position, s.asOf, s.paramsLeftOut, s.metricsLeftOut, s.unchanged, s.rows, s.shown)
	if err != nil {
		return fmt.Errorf("store the summary of a run: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return nil
	}
	if err := saveParams(ctx, tx, s); err != nil {
		return err
	}
	if !s.unchanged {
		if err := saveMetrics(ctx, tx, s); err != nil {
			return err
		}
	}
	if !s.final {
		return nil
	}
	if _, err := tx.Exec(ctx, `UPDATE run SET summary_final = true WHERE id = $1 AND ended_at IS NOT NULL AND NOT summary_final`, s.runID); err != nil {
		return fmt.Errorf("complete the summary of a run: %w", err)
	}
	return nil
}

func saveParams(ctx context.Context, tx pgx.Tx, s *summary) error {
	if _, err := tx.Exec(ctx, `DELETE FROM run_hparam WHERE run_id = $1 AND NOT key = ANY($2::text[])`, s.runID, s.params); err != nil {
		return fmt.Errorf("remove hyperparameters from the summary of a run: %w", err)
	}
	_, err := tx.Exec(ctx, `INSERT INTO run_hparam AS h (run_id, key, value, number)
			SELECT $1, n.* FROM unnest($2::text[], $3::text[], $4::double precision[]) n
		ON CONFLICT (run_id, key) DO UPDATE SET value = excluded.value, number = excluded.number WHERE h.value <> excluded.value`,
		s.runID, s.params, s.values, s.numbers)
	if err != nil {
		return fmt.Errorf("store the hyperparameters of a run: %w", err)
	}
	return nil
}

func saveMetrics(ctx context.Context, tx pgx.Tx, s *summary) error {
	if _, err := tx.Exec(ctx, `DELETE FROM run_metric WHERE run_id = $1 AND NOT key = ANY($2::text[])`, s.runID, s.metrics); err != nil {
		return fmt.Errorf("remove metrics from the summary of a run: %w", err)
	}
	_, err := tx.Exec(ctx, `INSERT INTO run_metric AS m (run_id, key, last, min, max, best, last_step)
			SELECT $1, n.* FROM unnest($2::text[], $3::double precision[], $4::double precision[], $5::double precision[], $6::double precision[],
				$7::bigint[]) n
		ON CONFLICT (run_id, key) DO UPDATE SET last = excluded.last, min = excluded.min, max = excluded.max, best = excluded.best,
			last_step = excluded.last_step
		WHERE (m.last, m.min, m.max, m.best, m.last_step)
			IS DISTINCT FROM (excluded.last, excluded.min, excluded.max, excluded.best, excluded.last_step)`,
		s.runID, s.metrics, s.last, s.min, s.max, s.best, s.lastStep)
	if err != nil {
		return fmt.Errorf("store the metrics of a run: %w", err)
	}
	return nil
}

// bestOf returns the best of the values of a metric; nil without a goal, or if no value is a number.
func bestOf(goal string, low, high *float64) *float64 {
	switch goal {
	case "minimize":
		return low
	case "maximize":
		return high
	}
	return nil
}

// state is what is known of the copy of a run's reports.
type state struct {
	RunID          string
	AsOf           time.Time
	HparamsLeftOut int32
	MetricsLeftOut bool
}

// states returns the states of the runs by run ID. The caller has checked that the user may read the runs.
func (Store) states(ctx context.Context, q pg.Querier, runs []string) (map[string]*state, error) {
	found, err := pg.All[state](q.Query(ctx, `SELECT run_id, as_of, hparams_left_out, metrics_left_out FROM run_summary WHERE run_id = ANY($1)`, runs))
	if err != nil {
		return nil, fmt.Errorf("read when runs were summarized: %w", err)
	}
	out := make(map[string]*state, len(found))
	for _, c := range found {
		out[c.RunID] = c
	}
	return out, nil
}

// values returns the columns of the runs, as JSON by run ID and column. The caller has checked that the user may read
// the runs.
func (Store) values(ctx context.Context, q pg.Querier, runs []string, columns map[string]fact) (map[string]map[string]json.RawMessage, error) {
	out := make(map[string]map[string]json.RawMessage, len(runs))
	for _, id := range runs {
		out[id] = map[string]json.RawMessage{}
	}
	params, series := keysOf(columns)
	if len(params) > 0 {
		rows, err := q.Query(ctx, `SELECT run_id, key, value FROM run_hparam WHERE run_id = ANY($1) AND key = ANY($2)`, runs, params)
		var id, key, value string
		err = forEach(rows, err, []any{&id, &key, &value}, func() { out[id]["hparam."+key] = json.RawMessage(value) })
		if err != nil {
			return nil, fmt.Errorf("read the hyperparameters of runs: %w", err)
		}
	}
	if len(series) > 0 {
		rows, err := q.Query(ctx, `SELECT run_id, key, last, min, max, best FROM run_metric WHERE run_id = ANY($1) AND key = ANY($2)`, runs, series)
		var id, key string
		var last, low, high, best *float64
		err = forEach(rows, err, []any{&id, &key, &last, &low, &high, &best}, func() {
			for column, x := range map[string]*float64{"last": last, "min": low, "max": high, "best": best} {
				if x != nil {
					out[id]["metric."+key+"."+column] = number(*x)
				}
			}
		})
		if err != nil {
			return nil, fmt.Errorf("read the metrics of runs: %w", err)
		}
	}
	return out, nil
}

func forEach(rows pgx.Rows, err error, into []any, fn func()) error {
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		fn()
		return nil
	})
	return err
}

func keysOf(columns map[string]fact) (params, series []string) {
	for _, t := range columns {
		if t.table == hparams {
			params = append(params, t.key)
		} else {
			series = append(series, t.key)
		}
	}
	return params, series
}

// number returns a number as JSON. NaN and the infinities are strings, as in all responses.
func number(x float64) json.RawMessage {
	if data, err := json.Marshal(x); err == nil {
		return data
	}
	text := strconv.FormatFloat(x, 'g', -1, 64)
	switch text {
	case "+Inf":
		text = "Infinity"
	case "-Inf":
		text = "-Infinity"
	}
	return json.RawMessage(strconv.Quote(text))
}
