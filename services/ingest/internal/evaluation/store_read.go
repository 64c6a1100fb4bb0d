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
