package model

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// LockVersion loads a version for a change.
func (Store) LockVersion(ctx context.Context, tx pgx.Tx, modelID string, number int32) (*Version, error) {
	v, err := scanVersion(tx.QueryRow(ctx, `SELECT `+versionShown+` FROM model_version WHERE model_id = $1 AND version = $2 FOR UPDATE`,
		modelID, number))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(VersionKind, strconv.Itoa(int(number)))
	}
	if err != nil {
		return nil, fmt.Errorf("load a version of a model: %w", err)
	}
	return v, nil
}

// SetLifecycle moves a version on, if it still is where it was.
func (Store) SetLifecycle(ctx context.Context, tx pgx.Tx, modelID string, number int32, from, to string) error {
	tag, err := tx.Exec(ctx, `UPDATE model_version SET lifecycle = $4 WHERE model_id = $1 AND version = $2 AND lifecycle = $3`,
		modelID, number, from, to)
	return moved(tag.RowsAffected(), err)
}

// Produce puts a candidate into production.
func (Store) Produce(ctx context.Context, tx pgx.Tx, modelID string, number int32, by string, at time.Time) error {
	tag, err := tx.Exec(ctx, `UPDATE model_version SET lifecycle = 'production', promoted_by = $3, promoted_at = $4
		WHERE model_id = $1 AND version = $2 AND lifecycle = 'candidate' AND status = 'ready'`, modelID, number, by, at)
	return moved(tag.RowsAffected(), err)
}

func moved(rows int64, err error) error {
	if err != nil {
		return fmt.Errorf("move a version of a model: %w", err)
	}
	if rows != 1 {
		return fault.New(fault.Conflict, "version_changed", "the version has changed meanwhile")
	}
	return nil
}

// SetAlias lets a name stand for a version.
func (Store) SetAlias(ctx context.Context, tx pgx.Tx, modelID, alias string, number int32) error {
	_, err := tx.Exec(ctx, `INSERT INTO model_alias (model_id, alias, version) VALUES ($1, $2, $3)
		ON CONFLICT (model_id, alias) DO UPDATE SET version = excluded.version`, modelID, alias, number)
	if err != nil {
		return fmt.Errorf("set an alias: %w", err)
	}
	return nil
}

// DropAlias takes a name away.
func (Store) DropAlias(ctx context.Context, tx pgx.Tx, modelID, alias string) error {
	tag, err := tx.Exec(ctx, `DELETE FROM model_alias WHERE model_id = $1 AND alias = $2`, modelID, alias)
	if err != nil {
		return fmt.Errorf("drop an alias: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.Absentf("alias", alias)
	}
	return nil
}

// Describe changes what is said of a model.
func (Store) Describe(ctx context.Context, tx pgx.Tx, modelID, description string) error {
	_, err := tx.Exec(ctx, `UPDATE model SET description = $2, row_version = row_version + 1 WHERE id = $1`, modelID, description)
	if err != nil {
		return fmt.Errorf("describe a model: %w", err)
	}
	return nil
}

// mostUsers bounds how many users of a version are named.
const mostUsers = 20

// Users names what stands on a version of a model, on any where number is 0: revisions whose engines shall run or
// that are promoted, of deployments and of playground sessions.
func (Store) Users(ctx context.Context, q pg.Querier, modelID string, number int32) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT CASE WHEN d.id IS NULL THEN 'playground session ' || r.deployment_id
			ELSE 'revision ' || r.number || ' of deployment ' || d.name || ' (' || d.id || ')' END
		FROM revision r LEFT JOIN deployment d ON d.id = r.deployment_id
		WHERE r.model_id = $1 AND ($2 = 0 OR r.model_version = $2)
			AND (r.desired = 'running' OR (d.promoted_revision_id = r.id AND d.deleted_at IS NULL))
		ORDER BY r.created_at, r.id LIMIT $3`, modelID, number, mostUsers)
	if err != nil {
		return nil, fmt.Errorf("look for who uses a model: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for who uses a model: %w", err)
	}
	return found, nil
}

// Delete takes a locked model away: its rows go where no revision refers to them, else they are kept out of sight.
func (Store) Delete(ctx context.Context, tx pgx.Tx, modelID string, at time.Time) error {
	var referred bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM revision WHERE model_id = $1)`, modelID).Scan(&referred); err != nil {
		return fmt.Errorf("look for what refers to a model: %w", err)
	}
	statements := []string{`DELETE FROM model_version WHERE model_id = $1`, `DELETE FROM model WHERE id = $1`}
	args := []any{modelID}
	if referred {
		statements, args = []string{`UPDATE model SET deleted_at = $2, row_version = row_version + 1 WHERE id = $1`}, append(args, at)
	}
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return fmt.Errorf("delete a model: %w", err)
		}
	}
	return nil
}

// InsertChange keeps a step of the history.
func (Store) InsertChange(ctx context.Context, tx pgx.Tx, c *Change) error {
	_, err := tx.Exec(ctx, `INSERT INTO model_history (id, model_id, at, action, version, previous_version, alias, actor, note)
		VALUES ($1, $2, $3, $4, $5, $6, NULLIF($7, ''), $8, $9)`, c.ID, c.ModelID, c.At, c.Action, c.Version, c.Previous, c.Alias, c.Actor, c.Note)
	if err != nil {
		return fmt.Errorf("keep a step of a model's history: %w", err)
	}
	return nil
}

// History answers the steps of a model, newest first; those by a time where it is set.
func (Store) History(ctx context.Context, q pg.Querier, modelID string, by *time.Time, p page.Page) ([]*Change, error) {
	rows, err := q.Query(ctx, `SELECT id, model_id, at, action, version, previous_version, coalesce(alias, ''), actor, note FROM model_history
		WHERE model_id = $1 AND ($2::timestamptz IS NULL OR at <= $2) ORDER BY seq DESC LIMIT $3 OFFSET $4`, modelID, by, p.Ask(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list a model's history: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Change, error) {
		c := &Change{}
		return c, row.Scan(&c.ID, &c.ModelID, &c.At, &c.Action, &c.Version, &c.Previous, &c.Alias, &c.Actor, &c.Note)
	})
	if err != nil {
		return nil, fmt.Errorf("list a model's history: %w", err)
	}
	return found, nil
}
