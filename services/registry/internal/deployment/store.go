package deployment

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
)

// Store reads and writes deployments.
type Store struct{}

const columns = `d.id, d.name, d.owner_id, d.owner_name, d.project_id, d.project, d.visibility, d.state,
	d.promoted_revision_id, d.previous_revision_id,
	(SELECT r.number FROM revision r WHERE r.id = d.promoted_revision_id), d.created_at`

func scan(row pgx.Row) (*Deployment, error) {
	d := &Deployment{}
	err := row.Scan(&d.ID, &d.Name, &d.UserID, &d.UserName, &d.ProjectID, &d.Project, &d.Visibility, &d.State,
		&d.PromotedID, &d.PreviousID, &d.PromotedNumber, &d.CreatedAt)
	return d, err
}

// Insert keeps a new deployment; a name that the project has is a conflict.
func (*Store) Insert(ctx context.Context, tx pgx.Tx, d *Deployment) error {
	_, err := tx.Exec(ctx, `INSERT INTO deployment (id, name, owner_id, owner_name, project_id, project, visibility, state, created_at,
			visibility_version)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		d.ID, d.Name, d.UserID, d.UserName, d.ProjectID, d.Project, d.Visibility, d.State, d.CreatedAt,
		d.VisibilityVersion)
	if pg.IsUnique(err, "deployment_name_key") {
		return fault.New(fault.Conflict, "deployment_exists", "project %s has a deployment %s already", d.Project, d.Name)
	}
	if err != nil {
		return fmt.Errorf("keep a deployment: %w", err)
	}
	return nil
}

// Get answers a deployment that the scope sees.
func (*Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Deployment, error) {
	d, err := scan(q.QueryRow(ctx, `SELECT `+columns+` FROM deployment d WHERE `+own.Visible+` AND id = $4`, own.Args(scope, id)...))
	return one(d, err, id)
}

// Lock loads a deployment for a change and keeps other changes out until the transaction ends.
func (*Store) Lock(ctx context.Context, tx pgx.Tx, id string) (*Deployment, error) {
	d, err := scan(tx.QueryRow(ctx, `SELECT `+columns+` FROM deployment d WHERE id = $1 FOR UPDATE OF d`, id))
	return one(d, err, id)
}

func one(d *Deployment, err error, id string) (*Deployment, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load a deployment: %w", err)
	}
	return d, nil
}

// List answers the deployments that the scope sees, newest first.
func (*Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, p page.Page) ([]*Deployment, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM deployment d WHERE `+own.Visible+`
		ORDER BY created_at DESC, id DESC LIMIT $4 OFFSET $5`, own.Args(scope, p.Ask(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list deployments: %w", err)
	}
	return collect(rows)
}

// All answers every deployment, for what inference serves by.
func (*Store) All(ctx context.Context, q pg.Querier) ([]*Deployment, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM deployment d ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("read all deployments: %w", err)
	}
	return collect(rows)
}

func collect(rows pgx.Rows) ([]*Deployment, error) {
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Deployment, error) { return scan(row) })
	if err != nil {
		return nil, fmt.Errorf("read deployments: %w", err)
	}
	return found, nil
}

// Promote moves the pointer of a locked deployment, and raises its route epoch.
func (*Store) Promote(ctx context.Context, tx pgx.Tx, d *Deployment, revisionID string) error {
	tag, err := tx.Exec(ctx, `UPDATE deployment SET promoted_revision_id = $2, previous_revision_id = promoted_revision_id,
		route_epoch = route_epoch + 1 WHERE id = $1 AND promoted_revision_id IS NOT DISTINCT FROM $3`, d.ID, revisionID, d.PromotedID)
	if err != nil {
		return fmt.Errorf("promote a revision: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fault.New(fault.Conflict, "promoted_meanwhile", "another revision of deployment %s was promoted meanwhile", d.ID)
	}
	return nil
}
