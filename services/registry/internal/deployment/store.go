package deployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads and writes deployments.
type Store struct{}

const columns = `d.id, d.name, d.owner_id, d.owner_name, d.project_id, d.project, d.visibility, d.state,
	d.promoted_revision_id, d.previous_revision_id, d.former_revision_ids,
	(SELECT r.number FROM revision r WHERE r.id = d.promoted_revision_id) AS promoted_number,
	(SELECT r.state FROM revision r WHERE r.id = d.promoted_revision_id) AS promoted_state,
	(SELECT r.reason FROM revision r WHERE r.id = d.promoted_revision_id) AS promoted_reason, d.created_at, d.description, d.row_version,
	d.pending_revision_id, (SELECT r.number FROM revision r WHERE r.id = d.pending_revision_id) AS pending_number, d.suspend_mode, d.suspended_at`

// kept is part of the WHERE condition of every read. It hides deleted deployments.
const kept = ` AND d.deleted_at IS NULL`

// Insert inserts a new deployment. A name that the project already uses is a conflict.
func (*Store) Insert(ctx context.Context, tx pgx.Tx, d *Deployment) error {
	_, err := tx.Exec(ctx, `INSERT INTO deployment (id, name, owner_id, owner_name, project_id, project, visibility, state, created_at,
			visibility_version, description)
		VALUES (@id, @name, @owner_id, @owner_name, @project_id, @project, @visibility, @state, @created_at, @visibility_version,
			@description)`, pgx.StrictNamedArgs{
		"id": d.ID, "name": d.Name, "owner_id": d.UserID, "owner_name": d.UserName, "project_id": d.ProjectID,
		"project": d.Project, "visibility": d.Visibility, "state": d.State, "created_at": d.CreatedAt,
		"visibility_version": d.VisibilityVersion, "description": d.Description,
	})
	if pg.IsUnique(err, "deployment_name_key") {
		return fault.New(fault.Conflict, "deployment_exists", "project %s already has a deployment %s", d.Project, d.Name)
	}
	if err != nil {
		return fmt.Errorf("insert a deployment: %w", err)
	}
	d.Version = 1
	return nil
}

// Get returns a deployment that is visible in the scope.
func (*Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Deployment, error) {
	d, err := pg.One[Deployment](q.Query(ctx, `SELECT `+columns+` FROM deployment d WHERE `+access.Visible+` AND id = $4`+kept, access.Args(scope, id)...))
	return one(d, err, id)
}

// OwnerOf returns the owner of a deployment, even if it is deleted.
func (*Store) OwnerOf(ctx context.Context, q pg.Querier, id string) (o access.Owner, err error) {
	err = q.QueryRow(ctx, `SELECT owner_id, owner_name, project_id, project, visibility FROM deployment WHERE id = $1`, id).
		Scan(&o.UserID, &o.UserName, &o.ProjectID, &o.Project, &o.Visibility)
	if errors.Is(err, pgx.ErrNoRows) {
		return o, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return o, fmt.Errorf("load the owner of a deployment: %w", err)
	}
	return o, nil
}

// Lock returns a deployment and locks its row until the transaction ends.
func (*Store) Lock(ctx context.Context, tx pgx.Tx, id string) (*Deployment, error) {
	d, err := pg.One[Deployment](tx.Query(ctx, `SELECT `+columns+` FROM deployment d WHERE id = $1`+kept+` FOR UPDATE OF d`, id))
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

// List returns the deployments that are visible in the scope, newest first.
func (*Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f access.Filter, p request.Page) ([]*Deployment, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM deployment d WHERE `+access.Filtered+kept+`
		ORDER BY created_at DESC, id DESC LIMIT $7 OFFSET $8`, f.Args(scope, p.FetchLimit(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list deployments: %w", err)
	}
	return collect(rows)
}

// After returns a page of all deployments, for the snapshot of inference: at most limit deployments with ids greater
// than the given id, in order of their ids.
func (*Store) After(ctx context.Context, q pg.Querier, after string, limit int) ([]*Deployment, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM deployment d WHERE id > $1`+kept+` ORDER BY id LIMIT $2`, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read a page of all deployments: %w", err)
	}
	return collect(rows)
}

// ByIDs returns the deployments with the given ids, of all owners.
func (*Store) ByIDs(ctx context.Context, q pg.Querier, ids []string) ([]*Deployment, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM deployment d WHERE id = ANY($1)`+kept, ids)
	if err != nil {
		return nil, fmt.Errorf("read deployments by their ids: %w", err)
	}
	return collect(rows)
}

func collect(rows pgx.Rows) ([]*Deployment, error) {
	found, err := pg.All[Deployment](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("read deployments: %w", err)
	}
	return found, nil
}

// Promote makes a revision the promoted one of a locked deployment, increments the deployment's route epoch and clears
// the pending revision. The argument former is the deployment's history after the promotion.
func (*Store) Promote(ctx context.Context, tx pgx.Tx, d *Deployment, revisionID string, former []string) error {
	tag, err := tx.Exec(ctx, `UPDATE deployment SET promoted_revision_id = $2, previous_revision_id = $4, former_revision_ids = $5,
		route_epoch = route_epoch + 1, row_version = row_version + 1, pending_revision_id = NULL
		WHERE id = $1 AND promoted_revision_id IS NOT DISTINCT FROM $3`, d.ID, revisionID, d.PromotedID, last(former), former)
	if err != nil {
		return fmt.Errorf("promote a revision: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fault.New(fault.Conflict, "promoted_meanwhile", "another request has promoted another revision of deployment %s; try again", d.ID)
	}
	return nil
}

// last returns the last of the ids, or nil if ids is empty.
func last(ids []string) *string {
	if len(ids) == 0 {
		return nil
	}
	return &ids[len(ids)-1]
}

// Save writes the mutable columns that Promote does not write, and increments the version. It returns a conflict if the
// version has changed since d was read.
func (*Store) Save(ctx context.Context, tx pgx.Tx, d *Deployment) error {
	tag, err := tx.Exec(ctx, `UPDATE deployment SET description = $3, state = $4, suspend_mode = $5, suspended_at = $6,
			pending_revision_id = $7, row_version = row_version + 1
		WHERE id = $1 AND row_version = $2`+keptRow, d.ID, d.Version, d.Description, d.State, d.SuspendMode, d.SuspendedAt, d.PendingID)
	return d.saved(tag.RowsAffected(), err)
}

// Delete marks a locked deployment as deleted, which hides it and frees its name.
func (*Store) Delete(ctx context.Context, tx pgx.Tx, d *Deployment, at time.Time) error {
	tag, err := tx.Exec(ctx, `UPDATE deployment SET deleted_at = $3, pending_revision_id = NULL, row_version = row_version + 1
		WHERE id = $1 AND row_version = $2`+keptRow, d.ID, d.Version, at)
	return d.saved(tag.RowsAffected(), err)
}

const keptRow = ` AND deleted_at IS NULL`

func (d *Deployment) saved(rows int64, err error) error {
	if err != nil {
		return fmt.Errorf("save a deployment: %w", err)
	}
	if rows != 1 {
		return fault.New(fault.Conflict, "deployment_changed", "deployment %s was changed by another request", d.ID)
	}
	d.Version++
	return nil
}

// Pending returns the id of the deployment whose pending revision has the given id, or "" if there is none.
func (*Store) Pending(ctx context.Context, q pg.Querier, revisionID string) (string, error) {
	var id string
	err := q.QueryRow(ctx, `SELECT id FROM deployment WHERE pending_revision_id = $1`+keptRow, revisionID).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find the deployment that waits for a revision: %w", err)
	}
	return id, nil
}
