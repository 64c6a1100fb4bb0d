package codepackage

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Store reads and writes packages.
type Store struct{}

const columns = `id, owner_id, owner_name, project_id, project, visibility, sha256, size_bytes, state, gate, refusal, too_large, created_at`

// Insert stores a new package.
func (Store) Insert(ctx context.Context, tx pgx.Tx, b *Bundle) error {
	_, err := tx.Exec(ctx, `INSERT INTO package (`+columns+`, visibility_version)
		VALUES (@id, @owner_id, @owner_name, @project_id, @project, @visibility, @sha256, @size_bytes, @state, @gate, @refusal, @too_large, @created_at,
			@visibility_version)`, pgx.StrictNamedArgs{
		"id": b.ID, "owner_id": b.UserID, "owner_name": b.UserName, "project_id": b.ProjectID, "project": b.Project,
		"visibility": b.Visibility, "sha256": b.SHA256, "size_bytes": b.Size, "state": b.State, "gate": b.Gate, "refusal": b.Text,
		"too_large": b.TooLarge, "created_at": b.CreatedAt, "visibility_version": b.VisibilityVersion,
	})
	if err != nil {
		return fmt.Errorf("insert a package: %w", err)
	}
	return nil
}

// Get returns a package visible to the scope.
func (Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Bundle, error) {
	b, err := pg.One[Bundle](q.Query(ctx, `SELECT `+columns+` FROM package WHERE `+access.Visible+` AND id = $4`, access.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load a package: %w", err)
	}
	return b, nil
}

// Accepted returns the accepted package of a project with the given digest, or nil if there is none.
func (Store) Accepted(ctx context.Context, q pg.Querier, projectID, sha256 string) (*Bundle, error) {
	b, err := pg.One[Bundle](q.Query(ctx, `SELECT `+columns+` FROM package WHERE project_id = $1 AND sha256 = $2 AND state = 'accepted'
		ORDER BY created_at, id LIMIT 1`, projectID, sha256))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no match is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("find a package by digest: %w", err)
	}
	return b, nil
}

// Settle stores the result of the inspection. It returns false if another call has already stored a result.
func (Store) Settle(ctx context.Context, tx pgx.Tx, b *Bundle) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE package SET state = $2, gate = $3, refusal = $4, too_large = $5 WHERE id = $1 AND state = 'uploading'`,
		b.ID, b.State, b.Gate, b.Text, b.TooLarge)
	if err != nil {
		return false, fmt.Errorf("store the inspection of a package: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}
