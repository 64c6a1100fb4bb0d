package evaluation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// WriteValidation stores one chunk of a round of a rank. A repeated chunk replaces the earlier chunk. The first chunk
// determines the number of chunks in the round: WriteValidation refuses a later chunk with another total.
func WriteValidation(v *report.Validation) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		rank, of := value(v.Rank), "" // the beginning of the names of the rank's tables
		if rank > 0 {
			of = "rank_"
		}
		tag, err := tx.Exec(ctx, `INSERT INTO `+of+`validation_round AS v (run_id, attempt, rank, step, total_chunks, avg_reward, accuracy, created_at, ranked)
			VALUES ($1, $2, $8, $3, $4, $5, $6, $7, true) ON CONFLICT ON CONSTRAINT `+of+`validation_round_pkey DO UPDATE
			SET avg_reward = coalesce($5, v.avg_reward), accuracy = coalesce($6, v.accuracy), ranked = true WHERE v.total_chunks = $4`,
			r.ID, r.Attempt, v.Step, v.Total, v.AvgReward, v.Accuracy, r.Now, rank)
		if err != nil {
			return fmt.Errorf("store a validation round: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return otherTotal(ctx, tx, v, r)
		}
		r.ReportSteps(batch, v.Step)
		rewarded, sum := rewards(v.Samples)
		batch.Queue(`INSERT INTO `+of+`validation_chunk (run_id, attempt, rank, step, chunk_index, samples, rewarded, reward_sum)
			VALUES ($1, $2, $8, $3, $4, $5, $6, $7) ON CONFLICT ON CONSTRAINT `+of+`validation_chunk_pkey
			DO UPDATE SET samples = $5, rewarded = $6, reward_sum = $7`, r.ID, r.Attempt, v.Step, v.Chunk, len(v.Samples), rewarded, sum, rank)
		batch.Queue(`DELETE FROM `+of+`sample WHERE run_id = $1 AND attempt = $2 AND rank = $5 AND step = $3 AND chunk_index = $4`,
			r.ID, r.Attempt, v.Step, v.Chunk, rank)
		for i, s := range v.Samples {
			batch.Queue(`INSERT INTO `+of+`sample (run_id, attempt, rank, step, chunk_index, index, user_text, assistant, env, reward, extra, prompt)
				VALUES ($1, $2, $12, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, r.ID, r.Attempt, v.Step, v.Chunk, i,
				text(s.User), text(s.Assistant), text(s.Env), s.Reward, text(s.Extra), promptOf(s.User), rank)
		}
		return nil
	}
}

// otherTotal returns the refusal of a chunk whose total differs from the total of its round.
func otherTotal(ctx context.Context, tx pgx.Tx, v *report.Validation, r *groupcommit.Run) error {
	var total int32
	err := tx.QueryRow(ctx, `SELECT total_chunks FROM every_validation_round WHERE run_id = $1 AND attempt = $2 AND step = $3 AND rank = $4`,
		r.ID, r.Attempt, v.Step, value(v.Rank)).Scan(&total)
	if err != nil {
		return fmt.Errorf("load a validation round: %w", err)
	}
	return groupcommit.Refuse(fault.New(fault.Conflict, "total_chunks",
		"validation: the round of step %d has %d chunks, not %d", v.Step, total, v.Total))
}

// rewards returns the number of finite rewards of the samples and their sum.
func rewards(samples []report.Sample) (n int, sum float64) {
	for _, s := range samples {
		if s.Reward != nil && !math.IsNaN(*s.Reward) && !math.IsInf(*s.Reward, 0) {
			n++
			sum += *s.Reward
		}
	}
	return n, sum
}

// promptLength is the length in bytes of the digest of a prompt.
const promptLength = 16

func promptOf(user []byte) []byte {
	if user == nil {
		return nil
	}
	sum := sha256.Sum256(user)
	return sum[:promptLength]
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
	Attempt, Rank          int32
	AvgReward, Accuracy    *float64
	Samples, Chunks, Total int32
	At                     time.Time
	MeanReward             *float64
}

// Sample is one conversation of a round. Index is its position in the round, from 0. User, Assistant, Env and Extra are
// JSON, or nil if not reported.
type Sample struct {
	Step                        int64
	Attempt, Rank, Index        int32
	Place                       id.Sample
	User, Assistant, Env, Extra []byte
	Reward                      *float64
	Prompt                      []byte // a digest of User, or nil
}

// ValidationStore reads rounds and their samples.
type ValidationStore struct{ Pool pg.Querier }

// AllAttempts selects the rounds of all attempts.
const AllAttempts = -1

// visible selects the rounds of a run that readers see. The given parameters of the statement are an attempt and a rank.
// Of attempt 0, a round is left out if a newer attempt hides its step (the view attempt_bound) or has reported a round of
// the same step; AllAttempts selects all. If the rank is null, it is the lowest one that has reported a round. Rounds that
// are older than ranks count as those of the lowest rank, unless that rank has reported a round of the same step and attempt.
func visible(attempt, rank string) string {
	ofShown := func(round string) string {
		return `CASE WHEN ` + round + `.ranked THEN ` + round + `.rank ELSE l.lowest END = l.shown`
	}
	return ` FROM (SELECT lowest, coalesce(` + rank + `::int, lowest) AS shown FROM
			(SELECT coalesce(min(o.rank), 0) AS lowest FROM every_validation_round o WHERE o.run_id = $1 AND o.ranked) ranks) l
		JOIN every_validation_round v ON v.run_id = $1 WHERE v.rank IN (0, l.shown) AND ` + ofShown("v") + `
		AND (v.ranked OR NOT EXISTS (SELECT FROM every_validation_round s
			WHERE s.run_id = $1 AND s.attempt = v.attempt AND s.rank = l.shown AND s.step = v.step AND s.ranked))
		AND CASE ` + attempt + `::int WHEN -1 THEN true
		WHEN 0 THEN NOT EXISTS (SELECT FROM attempt_bound b WHERE b.run_id = $1 AND b.attempt > v.attempt AND b.hidden_from <= v.step)
			AND NOT EXISTS (SELECT FROM every_validation_round n WHERE n.run_id = $1 AND n.attempt > v.attempt AND n.step = v.step AND ` + ofShown("n") + `)
		ELSE v.attempt = ` + attempt + ` END`
}

// Rounds returns a page of a run's rounds, ordered by step and attempt, and whether another page follows. The attempt is
// one of the run, AllAttempts, or 0 for the rounds that newer attempts do not hide. If rank is nil,
// the rounds are those of the lowest rank that has reported one.
func (s *ValidationStore) Rounds(ctx context.Context, runID string, attempt int32, rank *int32, p request.Page) ([]Round, bool, error) {
	rows, err := s.Pool.Query(ctx, `SELECT v.step, v.attempt, v.rank, v.avg_reward, v.accuracy, v.total_chunks, v.created_at,
			(SELECT count(*) FROM every_validation_chunk c WHERE c.run_id = $1 AND c.attempt = v.attempt AND c.rank = v.rank AND c.step = v.step),
			(SELECT coalesce(sum(c.samples), 0) FROM every_validation_chunk c WHERE c.run_id = $1 AND c.attempt = v.attempt AND c.rank = v.rank AND c.step = v.step),
			(SELECT sum(c.reward_sum) / nullif(sum(c.rewarded), 0) FROM every_validation_chunk c
				WHERE c.run_id = $1 AND c.attempt = v.attempt AND c.rank = v.rank AND c.step = v.step HAVING bool_and(c.rewarded IS NOT NULL))`+
		visible("$4", "$5")+` ORDER BY v.step, v.attempt LIMIT $2 OFFSET $3`, runID, p.FetchLimit(), p.Offset, attempt, rank)
	if err != nil {
		return nil, false, fmt.Errorf("list validation rounds: %w", err)
	}
	rounds, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Round, err error) {
		err = row.Scan(&r.Step, &r.Attempt, &r.Rank, &r.AvgReward, &r.Accuracy, &r.Total, &r.At, &r.Chunks, &r.Samples, &r.MeanReward)
		return r, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("list validation rounds: %w", err)
	}
	rounds, more := request.CutPage(rounds, p)
	return rounds, more, nil
}
