package share

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// lockRuns returns an Absent fault if one of the runs was deleted after it was checked. A run cannot be deleted until the
// transaction ends; its deletion then finds the link.
func (Store) lockRuns(ctx context.Context, tx pgx.Tx, runs []string) error {
	rows, err := tx.Query(ctx, `SELECT id FROM run WHERE id = ANY($1) ORDER BY id FOR KEY SHARE`, runs)
	if err != nil {
		return fmt.Errorf("lock the runs of a link: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("lock the runs of a link: %w", err)
	}
	for _, id := range runs {
		if !slices.Contains(found, id) {
			return fault.Absentf("run", id)
		}
	}
	return nil
}

// InsertPin stores one part of a pinned link's content for one of its runs.
func (Store) InsertPin(ctx context.Context, tx pgx.Tx, shareID string, run int, part string, data []byte) error {
	_, err := tx.Exec(ctx, `INSERT INTO share_pin (share_id, run, part, data) VALUES ($1, $2, $3, $4)`, shareID, run, part, data)
	if err != nil {
		return fmt.Errorf("pin a link: %w", err)
	}
	return nil
}

// Pin returns one part of a pinned link's content, or errGone if that part is not stored.
func (Store) Pin(ctx context.Context, q pg.Querier, shareID string, run int, part string) (data []byte, err error) {
	err = q.QueryRow(ctx, `SELECT data FROM share_pin WHERE share_id = $1 AND run = $2 AND part = $3`, shareID, run, part).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errGone()
	}
	if err != nil {
		return nil, fmt.Errorf("read a pinned link: %w", err)
	}
	return data, nil
}

// errGone returns the response for a link that shows nothing. It is the same as the response for an unknown path.
func errGone() error { return fault.New(fault.Absent, "", "Not Found") }
