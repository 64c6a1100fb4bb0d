package evaluation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// maxRollouts is the maximum number of rollouts of a run. Each response of GetAgentEvaluation is computed from all
// rollouts of the run.
const maxRollouts = 100_000

// Write stores the evaluation and the rollouts of a benchmark payload. A reported value replaces the value of an
// earlier payload, and a rollout replaces the earlier rollout with the same task and number, unless
// a lower rank of the attempt reported that one. A run evaluates only one
// benchmark: Write refuses a payload with another name, and a payload with which the run would have more than
// maxRollouts rollouts.
func Write(b *report.Benchmark) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, _ *pgx.Batch, r *groupcommit.Run) error {
		if b.Evaluation == nil && b.Rollouts == nil {
			return nil
		}
		parts, err := head(ctx, tx, b, r)
		if err != nil {
			return err
		}
		total, err := countWith(ctx, tx, b.Rollouts, r)
		if err != nil {
			return err
		}
		if err := storeHead(ctx, tx, b, parts, r); err != nil {
			return err
		}
		r.Rollouts = total
		return storeRollouts(ctx, tx, b, r)
	}
}

// countWith returns the number of the run's rollouts after the given ones are stored. It refuses more than maxRollouts.
func countWith(ctx context.Context, tx pgx.Tx, rollouts []report.Rollout, r *groupcommit.Run) (*int32, error) {
	if len(rollouts) == 0 {
		return r.Rollouts, nil
	}
	stored, err := counted(ctx, tx, r.Rollouts, `SELECT count(*) FROM rollout WHERE run_id = $1`, r.ID)
	if err != nil {
		return nil, err
	}
	tasks, numbers := make([]string, len(rollouts)), make([]int32, len(rollouts))
	for i := range rollouts {
		tasks[i], numbers[i] = rollouts[i].Task, rollouts[i].Number
	}
	var replaced int32
	err = tx.QueryRow(ctx, `SELECT count(*) FROM unnest($2::text[], $3::int[]) n(task, number)
		JOIN rollout o ON o.run_id = $1 AND o.task = n.task AND o.number = n.number`, r.ID, tasks, numbers).Scan(&replaced)
	if err != nil {
		return nil, fmt.Errorf("count replaced rollouts: %w", err)
	}
	total := stored + int32(len(rollouts)) - replaced
	if total > maxRollouts {
		return nil, groupcommit.Refuse(fault.New(fault.Refused, "rollout_limit", "benchmark: a run has at most %d rollouts", maxRollouts))
	}
	return &total, nil
}

// head returns the head of the run's evaluation, with the head of a payload merged into it. It refuses a payload of
// another benchmark.
func head(ctx context.Context, tx pgx.Tx, b *report.Benchmark, r *groupcommit.Run) (string, error) {
	var h Head
	err := tx.QueryRow(ctx, `SELECT name, head FROM evaluation WHERE run_id = $1`, r.ID).Scan(&h.Name, &h.Parts)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("load an evaluation: %w", err)
	}
	if err == nil && h.Name != b.Name {
		return "", groupcommit.Refuse(fault.New(fault.Conflict, "evaluation", "benchmark: the run already evaluates the benchmark %s", h.Name))
	}
	if b.Evaluation == nil {
		return merge(h.Parts, nil)
	}
	return merge(h.Parts, b.Evaluation.Head)
}

func storeHead(ctx context.Context, tx pgx.Tx, b *report.Benchmark, parts string, r *groupcommit.Run) error {
	e := b.Evaluation
	if e == nil {
		e = &report.Evaluation{}
	}
	_, err := tx.Exec(ctx, `INSERT INTO evaluation AS e (run_id, name, version, head, tasks_total, rollouts_per_task, pass_reward, started_at)
		VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, $8) ON CONFLICT (run_id) DO UPDATE SET
			version = coalesce(excluded.version, e.version), head = excluded.head, tasks_total = coalesce(excluded.tasks_total, e.tasks_total),
			rollouts_per_task = coalesce(excluded.rollouts_per_task, e.rollouts_per_task),
			pass_reward = coalesce(excluded.pass_reward, e.pass_reward)`,
		r.ID, b.Name, b.Version, parts, e.TasksTotal, e.RolloutsPerTask, e.PassReward, r.Now)
	if err != nil {
		return fmt.Errorf("store an evaluation: %w", err)
	}
	return nil
}

// merge adds parts to a JSON object. A part replaces an existing part with the same name. The text of each part is
// stored unchanged.
func merge(object []byte, parts map[string][]byte) (string, error) {
	all := map[string]json.RawMessage{}
	if len(object) > 0 {
		if err := json.Unmarshal(object, &all); err != nil {
			return "", fmt.Errorf("decode the head of an evaluation: %w", err)
		}
	}
	for name, raw := range parts {
		all[name] = raw
	}
	var out bytes.Buffer
	out.WriteByte('{')
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:%s", name, all[name])
	}
	out.WriteByte('}')
	return out.String(), nil
}

const rolloutSQL = `INSERT INTO rollout AS o (run_id, attempt, reported_at, rank, ranked, task, number, reward, passed, masked, parts, task_group,
		turns, tool_calls, prompt_tokens, completion_tokens, cost, seconds, stop, error, trace)
	SELECT $1, $2, $3, $20::int, true, * FROM unnest($4::text[], $5::int[], $6::float8[], $7::bool[], $8::bool[], $9::text[], $10::text[],
		$11::int[], $12::int[], $13::bigint[], $14::bigint[], $15::float8[], $16::float8[], $17::text[], $18::text[], $19::text[])
	ON CONFLICT (run_id, task, number) DO UPDATE SET attempt = excluded.attempt, reported_at = excluded.reported_at, rank = excluded.rank, ranked = true,
		reward = excluded.reward, passed = excluded.passed, masked = excluded.masked, parts = excluded.parts,
		task_group = excluded.task_group, turns = excluded.turns, tool_calls = excluded.tool_calls,
		prompt_tokens = excluded.prompt_tokens, completion_tokens = excluded.completion_tokens, cost = excluded.cost,
		seconds = excluded.seconds, stop = excluded.stop, error = excluded.error, trace = excluded.trace
	WHERE o.attempt < excluded.attempt OR o.attempt = excluded.attempt AND (o.rank >= excluded.rank OR o.rank = 0 AND NOT o.ranked)`

// storeRollouts writes all rollouts of a request in one statement, to which it passes one slice per column.
func storeRollouts(ctx context.Context, tx pgx.Tx, b *report.Benchmark, r *groupcommit.Run) error {
	rollouts := b.Rollouts
	n := len(rollouts)
	if n == 0 {
		return nil
	}
	var c struct {
		task                                   []string
		number                                 []int32
		reward, cost, seconds                  []*float64
		passed                                 []*bool
		masked                                 []bool
		parts, group, stop, error, trace       []*string
		turns, calls, promptTok, completionTok []*int64
	}
	c.task, c.number, c.masked = make([]string, n), make([]int32, n), make([]bool, n)
	for i := range rollouts {
		o := &rollouts[i]
		c.task[i], c.number[i], c.masked[i] = o.Task, o.Number, o.Masked
		c.reward, c.passed = append(c.reward, o.Reward), append(c.passed, o.Passed)
		c.cost, c.seconds = append(c.cost, o.Cost), append(c.seconds, o.Seconds)
		c.parts, c.group = append(c.parts, request.NonEmpty(string(o.Parts))), append(c.group, request.NonEmpty(o.Group))
		c.stop, c.error = append(c.stop, request.NonEmpty(o.Stop)), append(c.error, request.NonEmpty(o.Error))
		c.trace = append(c.trace, request.NonEmpty(o.Trace))
		c.turns, c.calls = append(c.turns, o.Turns), append(c.calls, o.ToolCalls)
		c.promptTok, c.completionTok = append(c.promptTok, o.PromptTokens), append(c.completionTok, o.CompletionTokens)
	}
	_, err := tx.Exec(ctx, rolloutSQL, r.ID, r.Attempt, r.Now, c.task, c.number, c.reward, c.passed, c.masked, c.parts, c.group,
		c.turns, c.calls, c.promptTok, c.completionTok, c.cost, c.seconds, c.stop, c.error, c.trace, value(b.Rank))
	if err != nil {
		return fmt.Errorf("store rollouts: %w", err)
	}
	return nil
}
