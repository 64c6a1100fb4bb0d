package model

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// LockVersion returns a version and locks its row until the transaction ends.
func (Store) LockVersion(ctx context.Context, tx pgx.Tx, modelID string, number int32) (*Version, error) {
	v, err := pg.One[Version](tx.Query(ctx, `SELECT `+versionShown+` FROM model_version WHERE model_id = $1 AND version = $2 FOR UPDATE`,
		modelID, number))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(VersionKind, strconv.Itoa(int(number)))
	}
	if err != nil {
		return nil, fmt.Errorf("load a version of a model: %w", err)
	}
	return v, nil
}

// SetLifecycle changes the lifecycle of a version from one given state to another. It returns a conflict if the version
// is no longer in the first state. The caller has locked the model. Its latest version is then the newest ready one that is not archived.
func (Store) SetLifecycle(ctx context.Context, tx pgx.Tx, modelID string, number int32, from, to string) error {
	tag, err := tx.Exec(ctx, `UPDATE model_version SET lifecycle = $4 WHERE model_id = $1 AND version = $2 AND lifecycle = $3`,
		modelID, number, from, to)
	if err := moved(tag.RowsAffected(), err); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE model SET latest_version = (SELECT max(version) FROM model_version
		WHERE model_id = $1 AND status = 'ready' AND lifecycle <> 'archived') WHERE id = $1`, modelID)
	if err != nil {
		return fmt.Errorf("set the latest version of a model: %w", err)
	}
	return nil
}

// SetProduction puts a ready candidate into production.
func (Store) SetProduction(ctx context.Context, tx pgx.Tx, modelID string, number int32, by string, at time.Time) error {
	tag, err := tx.Exec(ctx, `UPDATE model_version SET lifecycle = 'production', promoted_by = $3, promoted_at = $4
		WHERE model_id = $1 AND version = $2 AND lifecycle = 'candidate' AND status = 'ready'`, modelID, number, by, at)
	return moved(tag.RowsAffected(), err)
}

func moved(rows int64, err error) error {
	if err != nil {
		return fmt.Errorf("change the lifecycle of a model version: %w", err)
	}
	if rows != 1 {
		return fault.New(fault.Conflict, "version_changed", "the version was changed by another request")
	}
	return nil
}

// SetAlias points an alias to a version.
func (Store) SetAlias(ctx context.Context, tx pgx.Tx, modelID, alias string, number int32) error {
	_, err := tx.Exec(ctx, `INSERT INTO model_alias (model_id, alias, version) VALUES ($1, $2, $3)
		ON CONFLICT (model_id, alias) DO UPDATE SET version = excluded.version`, modelID, alias, number)
	if err != nil {
		return fmt.Errorf("set an alias: %w", err)
	}
	return nil
}

// DropAlias deletes an alias.
func (Store) DropAlias(ctx context.Context, tx pgx.Tx, modelID, alias string) error {
	tag, err := tx.Exec(ctx, `DELETE FROM model_alias WHERE model_id = $1 AND alias = $2`, modelID, alias)
	if err != nil {
		return fmt.Errorf("delete an alias: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.Absentf("alias", alias)
	}
	return nil
}

// Describe changes the description of a model.
func (Store) Describe(ctx context.Context, tx pgx.Tx, modelID, description string) error {
	_, err := tx.Exec(ctx, `UPDATE model SET description = $2, row_version = row_version + 1 WHERE id = $1`, modelID, description)
	if err != nil {
		return fmt.Errorf("update the description of a model: %w", err)
	}
	return nil
}

// mostUsers is the maximum number of users in one list of the users of a version.
const mostUsers = 20

// Users returns up to mostUsers users of a model version, or of all versions if number is 0: the revisions of
// deployments and playground sessions that are wanted or promoted.
func (Store) Users(ctx context.Context, q pg.Querier, modelID string, number int32) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT CASE WHEN d.id IS NULL THEN 'playground session ' || r.deployment_id
			ELSE 'revision ' || r.number || ' of deployment ' || d.name || ' (' || d.id || ')' END
		FROM revision r LEFT JOIN deployment d ON d.id = r.deployment_id
		WHERE r.model_id = $1 AND ($2 = 0 OR r.model_version = $2)
			AND (r.desired = 'running' OR (d.promoted_revision_id = r.id AND d.deleted_at IS NULL))
		ORDER BY r.created_at, r.id LIMIT $3`, modelID, number, mostUsers)
	if err != nil {
		return nil, fmt.Errorf("find the users of a model: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find the users of a model: %w", err)
	}
	return found, nil
}

// Adapters returns up to mostUsers adapters of other models that belong to a version of the model. The names of those in
// other projects are not returned.
func (Store) Adapters(ctx context.Context, q pg.Querier, m *Model) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT CASE WHEN m.project_id = $4 THEN 'adapter mdl/' || m.project || '/' || m.name || '@' || v.version
			ELSE 'an adapter in another project' END
		FROM model_version v JOIN model m ON m.id = v.model_id
		WHERE starts_with(v.base, 'mdl/' || $1::text || '/' || $2::text || '@') AND m.id <> $3 AND m.deleted_at IS NULL
		ORDER BY v.created_at, v.id LIMIT $5`, m.Project, m.Name, m.ID, m.ProjectID, mostUsers)
	if err != nil {
		return nil, fmt.Errorf("find the adapters of a model: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find the adapters of a model: %w", err)
	}
	return found, nil
}

// Delete deletes the rows of a locked model. If a revision refers to the model, Delete only marks it as deleted.
func (Store) Delete(ctx context.Context, tx pgx.Tx, modelID string, at time.Time) error {
	var referred bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM revision WHERE model_id = $1)`, modelID).Scan(&referred); err != nil {
		return fmt.Errorf("find references to a model: %w", err)
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

// InsertChange inserts a history entry.
func (Store) InsertChange(ctx context.Context, tx pgx.Tx, c *Change) error {
	_, err := tx.Exec(ctx, `INSERT INTO model_history (id, model_id, at, action, version, previous_version, alias, actor, note)
		VALUES (@id, @model_id, @at, @action, @version, @previous_version, NULLIF(@alias, ''), @actor, @note)`, pgx.StrictNamedArgs{
		"id": c.ID, "model_id": c.ModelID, "at": c.At, "action": c.Action, "version": c.Version, "previous_version": c.Previous,
		"alias": c.Alias, "actor": c.Actor, "note": c.Note,
	})
	if err != nil {
		return fmt.Errorf("insert a history entry of a model: %w", err)
	}
	return nil
}

// History returns the history entries of a model, newest first. If by is not nil, entries later than *by are left out.
func (Store) History(ctx context.Context, q pg.Querier, modelID string, by *time.Time, p request.Page) ([]*Change, error) {
	rows, err := q.Query(ctx, `SELECT id, model_id, at, action, version, previous_version, coalesce(alias, ''), actor, note FROM model_history
		WHERE model_id = $1 AND ($2::timestamptz IS NULL OR at <= $2) ORDER BY seq DESC LIMIT $3 OFFSET $4`, modelID, by, p.FetchLimit(), p.Offset)
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
