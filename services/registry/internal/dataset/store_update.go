package dataset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Update changes what is said of a dataset; protection is never lifted, whatever protected says.
func (Store) Update(ctx context.Context, tx pgx.Tx, id string, description *string, protected bool) (*Dataset, error) {
	d, err := scan(tx.QueryRow(ctx, `UPDATE dataset SET description = coalesce($2, description), protected = protected OR $3
		WHERE id = $1 RETURNING `+columns, id, description, protected))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("change a dataset: %w", err)
	}
	return d, nil
}

// Archive takes a ready version out of use, and makes the one before it the newest; false where it is not ready.
func (Store) Archive(ctx context.Context, tx pgx.Tx, v *Version, at time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE dataset_version SET state = 'archived', archived_at = $2 WHERE id = $1 AND state = 'ready'`, v.ID, at)
	if err != nil {
		return false, fmt.Errorf("archive a version: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	_, err = tx.Exec(ctx, `UPDATE dataset SET latest_version = (SELECT version FROM dataset_version
		WHERE dataset_id = $1 AND state = 'ready' ORDER BY committed_at DESC, id DESC LIMIT 1) WHERE id = $1`, v.DatasetID)
	if err != nil {
		return false, fmt.Errorf("find the newest version: %w", err)
	}
	return true, nil
}
