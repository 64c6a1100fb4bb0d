package transfer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/playground"
)

// kind is a table of objects with owners, and the statements that count and transfer them.
type kind struct{ name, count, move string }

// The kinds that have names of their own, which are the names of their tables.
const (
	kindDeployment = "deployment"
	kindPlayground = "playground_session"
)

// subject returns the subject kind in events and audit entries.
func (k kind) subject() string {
	if k.name == kindPlayground {
		return playground.SubjectKind
	}
	return k.name
}

// kinds returns all kinds in the order in which their rows are locked.
func kinds() []kind {
	return []kind{
		{
			"dataset", `SELECT count(*) FROM dataset WHERE owner_id = $1`,
			`UPDATE dataset SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 RETURNING id`,
		},
		{
			"model", `SELECT count(*) FROM model WHERE owner_id = $1 AND deleted_at IS NULL`,
			`UPDATE model SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 AND deleted_at IS NULL RETURNING id`,
		},
		{
			"package", `SELECT count(*) FROM package WHERE owner_id = $1`,
			`UPDATE package SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 RETURNING id`,
		},
		{
			"environment", `SELECT count(*) FROM environment WHERE owner_id = $1 AND deleted_at IS NULL`,
			`UPDATE environment SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 AND deleted_at IS NULL RETURNING id`,
		},
		{
			"rubric", `SELECT count(*) FROM rubric WHERE owner_id = $1`,
			`UPDATE rubric SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 RETURNING id`,
		},
		{
			"solution", `SELECT count(*) FROM solution WHERE owner_id = $1`,
			`UPDATE solution SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 RETURNING id`,
		},
		{
			"solution_application", `SELECT count(*) FROM solution_application WHERE owner_id = $1`,
			`UPDATE solution_application SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 RETURNING id`,
		},
		{
			kindDeployment, `SELECT count(*) FROM deployment WHERE owner_id = $1 AND deleted_at IS NULL`,
			`UPDATE deployment SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 AND deleted_at IS NULL RETURNING id`,
		},
		{
			kindPlayground, `SELECT count(*) FROM playground_session WHERE owner_id = $1`,
			`UPDATE playground_session SET owner_id = $2, owner_name = $3 WHERE owner_id = $1 RETURNING id`,
		},
	}
}

func (k kind) transfer(ctx context.Context, tx pgx.Tx, from string, to Person) ([]string, error) {
	rows, err := tx.Query(ctx, k.move, from, to.ID, to.Name)
	if err != nil {
		return nil, fmt.Errorf("transfer every %s: %w", k.name, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("transfer every %s: %w", k.name, err)
	}
	return ids, nil
}

// transferPlans changes the owner in the plans of revisions, so that engines that start later belong to the new owner.
func transferPlans(ctx context.Context, tx pgx.Tx, from, to string) error {
	_, err := tx.Exec(ctx, `UPDATE revision SET plan = jsonb_set(plan::jsonb, '{owner_id}', to_jsonb($2::text))::json
		WHERE plan->>'owner_id' = $1`, from, to)
	if err != nil {
		return fmt.Errorf("transfer the plans of engines: %w", err)
	}
	return nil
}

func count(ctx context.Context, q pg.Querier, userID string) ([]Count, error) {
	var counts []Count
	for _, k := range kinds() {
		c := Count{Kind: k.name}
		if err := q.QueryRow(ctx, k.count, userID).Scan(&c.Count); err != nil {
			return nil, fmt.Errorf("count every %s of a user: %w", k.name, err)
		}
		counts = append(counts, c)
	}
	return counts, nil
}
