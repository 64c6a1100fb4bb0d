package evaluation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// WriteValidation stores one chunk of a round. A repeated chunk replaces the earlier chunk. The first chunk determines
// the number of chunks in the round: WriteValidation refuses a later chunk with another total.
func WriteValidation(v *report.Validation) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		tag, err := tx.Exec(ctx, `INSERT INTO validation_round AS v (run_id, attempt, step, total_chunks, avg_reward, accuracy, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (run_id, attempt, step) DO UPDATE
			SET avg_reward = coalesce($5, v.avg_reward), accuracy = coalesce($6, v.accuracy) WHERE v.total_chunks = $4`,
			r.ID, r.Attempt, v.Step, v.Total, v.AvgReward, v.Accuracy, r.Now)
		if err != nil {
			return fmt.Errorf("store a validation round: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return otherTotal(ctx, tx, v, r)
		}
		batch.Queue(`INSERT INTO validation_chunk (run_id, attempt, step, chunk_index, samples) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (run_id, attempt, step, chunk_index) DO UPDATE SET samples = $5`, r.ID, r.Attempt, v.Step, v.Chunk, len(v.Samples))
		batch.Queue(`DELETE FROM sample WHERE run_id = $1 AND attempt = $2 AND step = $3 AND chunk_index = $4`,
			r.ID, r.Attempt, v.Step, v.Chunk)
		for i, s := range v.Samples {
			batch.Queue(`INSERT INTO sample (run_id, attempt, step, chunk_index, index, user_text, assistant, env, reward, extra)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, r.ID, r.Attempt, v.Step, v.Chunk, i,
				text(s.User), text(s.Assistant), text(s.Env), s.Reward, text(s.Extra))
		}
		return nil
	}
}

// otherTotal refuses a chunk whose round has another number of chunks than the chunk states.
func otherTotal(ctx context.Context, tx pgx.Tx, v *report.Validation, r *groupcommit.Run) error {
	var total int32
	err := tx.QueryRow(ctx, `SELECT total_chunks FROM validation_round WHERE run_id = $1 AND attempt = $2 AND step = $3`,
		r.ID, r.Attempt, v.Step).Scan(&total)
	if err != nil {
		return fmt.Errorf("load a validation round: %w", err)
	}
	return groupcommit.Refuse(fault.New(fault.Conflict, "total_chunks",
		"validation: the round of step %d has %d chunks, not %d", v.Step, total, v.Total))
}

func text(raw []byte) *string {
	if raw == nil {
		return nil
	}
	s := string(raw)
	return &s
}

// Round is a validation round with the number of samples and chunks that have arrived.
type Round struct {
	Step                   int64
	Attempt                int32
	AvgReward, Accuracy    *float64
	Samples, Chunks, Total int32
	At                     time.Time
}

// Sample is one conversation of a round. Index is its position in the round, from 0. User, Assistant, Env and Extra are
// JSON, or nil if not reported.
type Sample struct {
	Step                        int64
	Index                       int32
	User, Assistant, Env, Extra []byte
	Reward                      *float64
}

// ValidationStore reads rounds and their samples.
type ValidationStore struct{ Pool pg.Querier }

// visible excludes a round if a newer attempt reported a round of the same or an earlier step.
const visible = ` FROM validation_round v WHERE v.run_id = $1 AND NOT EXISTS (SELECT 1 FROM validation_round n
	WHERE n.run_id = $1 AND n.attempt > v.attempt AND n.step <= v.step)`

// Rounds returns a page of a run's rounds, ordered by step, and whether another page follows.
func (s *ValidationStore) Rounds(ctx context.Context, runID string, p request.Page) ([]Round, bool, error) {
	rows, err := s.Pool.Query(ctx, `SELECT v.step, v.attempt, v.avg_reward, v.accuracy, v.total_chunks, v.created_at,
			(SELECT count(*) FROM validation_chunk c WHERE c.run_id = $1 AND c.attempt = v.attempt AND c.step = v.step),
			(SELECT coalesce(sum(c.samples), 0) FROM validation_chunk c WHERE c.run_id = $1 AND c.attempt = v.attempt AND c.step = v.step)`+
		visible+` ORDER BY v.step, v.attempt LIMIT $2 OFFSET $3`, runID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, false, fmt.Errorf("list validation rounds: %w", err)
	}
	rounds, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Round, err error) {
		err = row.Scan(&r.Step, &r.Attempt, &r.AvgReward, &r.Accuracy, &r.Total, &r.At, &r.Chunks, &r.Samples)
		return r, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("list validation rounds: %w", err)
	}
	rounds, more := request.CutPage(rounds, p)
	return rounds, more, nil
}

// Samples returns a page of a round's samples, in the order of their chunks, and whether another page follows. If step
// is nil, the round is the last one of the run.
func (s *ValidationStore) Samples(ctx context.Context, runID string, step *int64, p request.Page) ([]Sample, bool, error) {
	var attempt int32
	var at int64
	err := s.Pool.QueryRow(ctx, `SELECT v.step, v.attempt`+visible+` AND ($2::bigint IS NULL OR v.step = $2)
		ORDER BY v.step DESC LIMIT 1`, runID, step).Scan(&at, &attempt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("find a validation round: %w", err)
	}
	rows, err := s.Pool.Query(ctx, `SELECT user_text, assistant, env, reward, extra FROM sample
		WHERE run_id = $1 AND attempt = $2 AND step = $3 ORDER BY chunk_index, index LIMIT $4 OFFSET $5`,
		runID, attempt, at, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, false, fmt.Errorf("list samples: %w", err)
	}
	samples, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Sample, err error) {
		err = row.Scan(&s.User, &s.Assistant, &s.Env, &s.Reward, &s.Extra)
		return s, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("list samples: %w", err)
	}
	samples, more := request.CutPage(samples, p)
	for i := range samples {
		samples[i].Step, samples[i].Index = at, int32(p.Offset+i)
	}
	return samples, more, nil
}
