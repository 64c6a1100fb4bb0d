package evaluation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads evaluations.
type Store struct{ Pool pg.Querier }

// Head returns the head of a run's evaluation, or nil if the run reported no evaluation.
func (s *Store) Head(ctx context.Context, runID string) (*Head, error) {
	var h Head
	var version *string
	err := s.Pool.QueryRow(ctx, `SELECT name, version, head, tasks_total, rollouts_per_task, pass_reward, started_at
		FROM evaluation WHERE run_id = $1`, runID).
		Scan(&h.Name, &version, &h.Parts, &h.TasksTotal, &h.RolloutsPerTask, &h.PassReward, &h.StartedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // a run without an evaluation is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("load an evaluation: %w", err)
	}
	h.Version = value(version)
	return &h, nil
}

const rolloutColumns = `SELECT task, number, attempt, reward, passed, masked, parts, task_group, turns, tool_calls, prompt_tokens,
	completion_tokens, cost, seconds, stop, error, trace, reported_at FROM rollout WHERE run_id = $1 ORDER BY task, number`

// Rollouts returns all rollouts of a run, sorted by task and number.
func (s *Store) Rollouts(ctx context.Context, runID string) ([]Rollout, error) {
	return s.collect(ctx, rolloutColumns+` LIMIT $2`, runID, maxRollouts)
}

// List returns a page of a run's rollouts, sorted by task and number, and whether another page follows.
func (s *Store) List(ctx context.Context, runID string, p request.Page) ([]Rollout, bool, error) {
	all, err := s.collect(ctx, rolloutColumns+` LIMIT $2 OFFSET $3`, runID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, false, err
	}
	all, more := request.CutPage(all, p)
	return all, more, nil
}

func (s *Store) collect(ctx context.Context, sql string, args ...any) ([]Rollout, error) {
	rows, err := s.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read rollouts: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Rollout, err error) {
		var parts []byte
		err = row.Scan(&r.Task, &r.Number, &r.Attempt, &r.Reward, &r.Passed, &r.Masked, &parts, &r.Group, &r.Turns, &r.ToolCalls,
			&r.PromptTokens, &r.CompletionTokens, &r.Cost, &r.Seconds, &r.Stop, &r.Error, &r.Trace, &r.At)
		if err == nil && parts != nil {
			err = json.Unmarshal(parts, &r.Parts)
		}
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read rollouts: %w", err)
	}
	return all, nil
}

// maxRound is the maximum number of samples of a round that are searched for prompts.
const maxRound = 200

// Prompt is the prompt of a sample: the digest of its JSON.
type Prompt struct {
	Digest  [32]byte
	attempt int32
	rank    int32
	step    int64
	chunk   int32
	index   int32
}

// Prompts returns the prompts of the first samples of a round, in their order, each once. If step is nil, the round is
// the last one of the run.
func (s *ValidationStore) Prompts(ctx context.Context, runID string, step *int64) ([]Prompt, error) {
	var attempt, rank int32
	var at int64
	err := s.Pool.QueryRow(ctx, `SELECT v.step, v.attempt, v.rank`+visible("$3", "NULL")+` AND ($2::bigint IS NULL OR v.step = $2)
		ORDER BY v.step DESC LIMIT 1`, runID, step, 0).Scan(&at, &attempt, &rank)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find a validation round: %w", err)
	}
	rows, err := s.Pool.Query(ctx, `SELECT sha256(convert_to(user_text, 'UTF8')), chunk_index, index FROM every_sample
		WHERE run_id = $1 AND attempt = $2 AND rank = $5 AND step = $3 AND user_text IS NOT NULL ORDER BY chunk_index, index LIMIT $4`,
		runID, attempt, at, maxRound, rank)
	if err != nil {
		return nil, fmt.Errorf("list the prompts of a round: %w", err)
	}
	var found []Prompt
	seen := map[[32]byte]bool{}
	var digest []byte
	p := Prompt{attempt: attempt, rank: rank, step: at}
	_, err = pgx.ForEachRow(rows, []any{&digest, &p.chunk, &p.index}, func() error {
		if copy(p.Digest[:], digest); !seen[p.Digest] {
			found = append(found, p)
			seen[p.Digest] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the prompts of a round: %w", err)
	}
	return found, nil
}

// Sample returns the sample of a prompt. Its texts are the first characters of their JSON, at most most; env and extra are
// left out.
func (s *ValidationStore) Sample(ctx context.Context, runID string, p Prompt, most int) (*Sample, error) {
	out := &Sample{Step: p.step}
	err := s.Pool.QueryRow(ctx, `SELECT left(user_text, $6), left(assistant, $6), reward FROM every_sample
		WHERE run_id = $1 AND attempt = $2 AND rank = $7 AND step = $3 AND chunk_index = $4 AND index = $5`,
		runID, p.attempt, p.step, p.chunk, p.index, most, p.rank).Scan(&out.User, &out.Assistant, &out.Reward)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nil means that the sample was replaced meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("read a sample: %w", err)
	}
	return out, nil
}
