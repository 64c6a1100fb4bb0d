package rubric

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

const versionColumns = `id, rubric_id, version, status, digest, content, created_at, published_at`

// InsertVersion stores a new draft with the next number. If the rubric already has a version with the same digest, it
// returns that version and sets fresh to false.
func (s Store) InsertVersion(ctx context.Context, tx pgx.Tx, v *Version, content []byte) (kept *Version, fresh bool, err error) {
	// The row lock serializes the numbering of versions.
	err = tx.QueryRow(ctx, `SELECT next_version FROM rubric WHERE id = $1 FOR UPDATE`, v.RubricID).Scan(&v.Number)
	if err != nil {
		return nil, false, fmt.Errorf("read the next version number of a rubric: %w", err)
	}
	existing, err := pg.One[Version](tx.Query(ctx, `SELECT `+versionColumns+` FROM rubric_version WHERE rubric_id = $1 AND digest = $2`, v.RubricID, v.Digest))
	if err == nil {
		return existing, false, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return nil, false, fmt.Errorf("find a version of a rubric by digest: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO rubric_version (`+versionColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		v.ID, v.RubricID, v.Number, v.Status, v.Digest, content, v.CreatedAt, v.PublishedAt)
	if err != nil {
		return nil, false, fmt.Errorf("insert a version of a rubric: %w", err)
	}
	if _, err := tx.Exec(ctx, `UPDATE rubric SET next_version = $2 + 1 WHERE id = $1`, v.RubricID, v.Number); err != nil {
		return nil, false, fmt.Errorf("update the next version number of a rubric: %w", err)
	}
	return v, true, nil
}

// Publish publishes a draft. It returns false if the version is already published. The current version of the rubric is
// the highest published one.
func (Store) Publish(ctx context.Context, tx pgx.Tx, v *Version, at time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE rubric_version SET status = 'published', published_at = $2 WHERE id = $1 AND status = 'draft'`, v.ID, at)
	if err != nil {
		return false, fmt.Errorf("publish a version of a rubric: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	_, err = tx.Exec(ctx, `UPDATE rubric SET current_version = greatest(current_version, $2) WHERE id = $1`, v.RubricID, v.Number)
	if err != nil {
		return false, fmt.Errorf("set the current version of a rubric: %w", err)
	}
	return true, nil
}

// Version returns one version.
func (Store) Version(ctx context.Context, q pg.Querier, rubricID string, number int32) (*Version, error) {
	v, err := pg.One[Version](q.Query(ctx, `SELECT `+versionColumns+` FROM rubric_version WHERE rubric_id = $1 AND version = $2`, rubricID, number))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(VersionKind, strconv.Itoa(int(number)))
	}
	if err != nil {
		return nil, fmt.Errorf("load a version of a rubric: %w", err)
	}
	return v, nil
}

// Versions returns the versions of a rubric, newest first.
func (Store) Versions(ctx context.Context, q pg.Querier, rubricID string, p request.Page) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+versionColumns+` FROM rubric_version WHERE rubric_id = $1
		ORDER BY version DESC LIMIT $2 OFFSET $3`, rubricID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list versions of a rubric: %w", err)
	}
	found, err := pg.All[Version](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("list versions of a rubric: %w", err)
	}
	return found, nil
}

// Resolve finds a published version by its reference. It returns nil values if no such version is visible in the scope.
func (s Store) Resolve(ctx context.Context, q pg.Querier, scope authn.Scope, r ref.Ref) (*Rubric, *Version, error) {
	rubric, err := pg.One[Rubric](q.Query(ctx, `SELECT `+columns+` FROM rubric WHERE `+access.Visible+` AND project = $4 AND name = $5`,
		access.Args(scope, r.Project, r.Name)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("resolve a rubric: %w", err)
	}
	number, ok := r.Number()
	if r.Version == ref.Latest && rubric.Current != nil {
		number, ok = *rubric.Current, true
	}
	if !ok {
		return nil, nil, nil
	}
	v, err := s.Version(ctx, q, rubric.ID, number)
	if fault.Is(err, fault.Absent) || (err == nil && v.Status != StatusPublished) {
		return nil, nil, nil
	}
	return rubric, v, err
}
