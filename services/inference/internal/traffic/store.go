package traffic

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Store is the table of calls.
type Store struct{ Pool *pgxpool.Pool }

var columns = []string{ //nolint:gochecknoglobals // a constant list.
	"request_id", "at", "deployment_id", "revision_id", "revision_number", "token_id", "token_name", "replica_id", "method",
	"path", "status", "outcome", "stream", "requested_model", "response_model", "prompt_tokens", "completion_tokens",
	"usage_source", "finish_reason", "ttft_ms", "duration_ms", "request_bytes", "response_bytes",
}

func (c *Call) values() []any {
	return []any{
		c.RequestID, c.At, c.DeploymentID, c.RevisionID, c.RevisionNumber, c.TokenID, c.TokenName, c.ReplicaID, c.Method,
		c.Path, c.Status, c.Outcome, c.Stream, c.RequestedModel, c.ResponseModel, c.PromptTokens, c.CompletionTokens,
		c.UsageSource, c.FinishReason, c.TTFT, c.Duration, c.RequestBytes, c.ResponseBytes,
	}
}

func (c *Call) targets() []any {
	return []any{
		&c.RequestID, &c.At, &c.DeploymentID, &c.RevisionID, &c.RevisionNumber, &c.TokenID, &c.TokenName, &c.ReplicaID, &c.Method,
		&c.Path, &c.Status, &c.Outcome, &c.Stream, &c.RequestedModel, &c.ResponseModel, &c.PromptTokens, &c.CompletionTokens,
		&c.UsageSource, &c.FinishReason, &c.TTFT, &c.Duration, &c.RequestBytes, &c.ResponseBytes,
	}
}

// Copy stores calls.
func (s *Store) Copy(ctx context.Context, calls []*Call) error { return copyInto(ctx, s.Pool, calls) }

// copier is a pool or a transaction.
type copier interface {
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error)
}

func copyInto(ctx context.Context, to copier, calls []*Call) error {
	_, err := to.CopyFrom(ctx, pgx.Identifier{"call"}, columns,
		pgx.CopyFromSlice(len(calls), func(i int) ([]any, error) { return calls[i].values(), nil }))
	if err != nil {
		return fmt.Errorf("store %d calls: %w", len(calls), err)
	}
	return nil
}

// Replay stores the calls of a segment, once: a segment that was replayed before changes nothing.
func (s *Store) Replay(ctx context.Context, segment string, calls []*Call) error {
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO replayed_segment (name) VALUES ($1) ON CONFLICT DO NOTHING`, segment)
		if err != nil {
			return fmt.Errorf("mark the segment: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return copyInto(ctx, tx, calls)
	})
}

// daysAhead is how many days have their partition, yesterday's and today's included.
const daysAhead = 9

// EnsurePartitions makes the partitions that the next days need.
func (s *Store) EnsurePartitions(ctx context.Context) error {
	_, err := s.Pool.Exec(ctx, `SELECT ensure_call_partitions((now() AT TIME ZONE 'UTC')::date - 1, $1)`, daysAhead)
	if err != nil {
		return fmt.Errorf("make partitions: %w", err)
	}
	return nil
}

const list = `
	SELECT request_id, at, deployment_id, revision_id, revision_number, token_id, token_name, replica_id, method, path,
	       status, outcome, stream, requested_model, response_model, prompt_tokens, completion_tokens, usage_source,
	       finish_reason, ttft_ms, duration_ms, request_bytes, response_bytes
	FROM call WHERE deployment_id = $1 AND ($2 = '' OR token_id = $2)
	ORDER BY at DESC, request_id DESC LIMIT $3 OFFSET $4`

// List answers calls of a deployment, newest first; an empty token means any.
func (s *Store) List(ctx context.Context, deployment, token string, p page.Page) ([]*Call, error) {
	rows, err := s.Pool.Query(ctx, list, deployment, token, p.Limit, p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list calls: %w", err)
	}
	calls, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Call, error) {
		c := &Call{}
		return c, row.Scan(c.targets()...)
	})
	if err != nil {
		return nil, fmt.Errorf("list calls: %w", err)
	}
	return calls, nil
}
