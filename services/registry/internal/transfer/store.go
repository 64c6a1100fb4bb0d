package transfer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/playground"
)

// kind is a table of objects with owners, together with the statements that count and transfer the objects. One
// transfer statement changes a bounded number of objects.
type kind struct{ name, count, move string }

// The names of those kinds to which other code refers. They are also the names of their tables.
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
			`UPDATE dataset SET owner_id = $2, owner_name = $3 WHERE owner_id = $1
				AND id IN (SELECT id FROM dataset WHERE owner_id = $1 ORDER BY id LIMIT 500) RETURNING id`,
		},
		{
			"model", `SELECT count(*) FROM model WHERE owner_id = $1 AND deleted_at IS NULL`,
			`UPDATE model SET owner_id = $2, owner_name = $3 WHERE owner_id = $1
				AND id IN (SELECT id FROM model WHERE owner_id = $1 AND deleted_at IS NULL ORDER BY id LIMIT 500) RETURNING id`,
		},
		{
			"package", `SELECT count(*) FROM package WHERE owner_id = $1`,
			`UPDATE package SET owner_id = $2, owner_name = $3 WHERE owner_id = $1
				AND id IN (SELECT id FROM package WHERE owner_id = $1 ORDER BY id LIMIT 500) RETURNING id`,
		},
		{
			"environment", `SELECT count(*) FROM environment WHERE owner_id = $1 AND deleted_at IS NULL`,
			`UPDATE environment SET owner_id = $2, owner_name = $3 WHERE owner_id = $1
				AND id IN (SELECT id FROM environment WHERE owner_id = $1 AND deleted_at IS NULL ORDER BY id LIMIT 500) RETURNING id`,
		},
		{
			"rubric", `SELECT count(*) FROM rubric WHERE owner_id = $1`,
			`UPDATE rubric SET owner_id = $2, owner_name = $3 WHERE owner_id = $1
				AND id IN (SELECT id FROM rubric WHERE owner_id = $1 ORDER BY id LIMIT 500) RETURNING id`,
		},
		{
			"recipe", `SELECT count(*) FROM recipe WHERE owner_id = $1`,
			`UPDATE recipe SET owner_id = $2, owner_name = $3 WHERE owner_id = $1
				AND id IN (SELECT id FROM recipe WHERE owner_id = $1 ORDER BY id LIMIT 500) RETURNING id`,
		},
		{
			"solution", `SELECT count(*) FROM solution WHERE owner_id = $1`,
			`UPDATE solution SET owner_id = $2, owner_name = $3 WHERE owner_id = $1
				AND id IN (SELECT id FROM solution WHERE owner_id = $1 ORDER BY id LIMIT 500) RETURNING id`,
		},
		{
			"solution_application", `SELECT count(*) FROM solution_application WHERE owner_id = $1`,
			`UPDATE solution_application SET owner_id = $2, owner_name = $3 WHERE owner_id = $1
				AND id IN (SELECT id FROM solution_application WHERE owner_id = $1 ORDER BY id LIMIT 500) RETURNING id`,
		},
		{
			kindDeployment, `SELECT count(*) FROM deployment WHERE owner_id = $1 AND deleted_at IS NULL`,
			`UPDATE deployment SET owner_id = $2, owner_name = $3 WHERE owner_id = $1
				AND id IN (SELECT id FROM deployment WHERE owner_id = $1 AND deleted_at IS NULL ORDER BY id LIMIT 500) RETURNING id`,
		},
		{
			kindPlayground, `SELECT count(*) FROM playground_session WHERE owner_id = $1`,
			`UPDATE playground_session SET owner_id = $2, owner_name = $3 WHERE owner_id = $1
				AND id IN (SELECT id FROM playground_session WHERE owner_id = $1 ORDER BY id LIMIT 500) RETURNING id`,
		},
	}
}

func (k kind) transfer(ctx context.Context, tx pgx.Tx, from string, to Person) ([]string, error) {
	rows, err := tx.Query(ctx, k.move, from, to.ID, to.Name)
	if err != nil {
		return nil, fmt.Errorf("transfer each %s: %w", k.name, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("transfer each %s: %w", k.name, err)
	}
	return ids, nil
}

// transferPlans changes the owner in the plans of all revisions of the given deployments or sessions, so that engines
// that start later belong to the new owner.
func transferPlans(ctx context.Context, tx pgx.Tx, of []string, from, to string) error {
	_, err := tx.Exec(ctx, `UPDATE revision SET plan = jsonb_set(plan::jsonb, '{owner_id}', to_jsonb($3::text))::json
		WHERE deployment_id = ANY($1) AND plan->>'owner_id' = $2`, of, from, to)
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
