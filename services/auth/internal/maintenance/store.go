package maintenance

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Store reads and writes the state.
type Store struct{}

const columns = `mode, message, until, changed_at, changed_by, changed_by_name`

// Load returns the current state.
func (Store) Load(ctx context.Context, q pg.Querier) (State, error) {
	return scan(q.QueryRow(ctx, `SELECT `+columns+` FROM maintenance`))
}

// Lock is like Load, but locks the row, so that no other transaction can change the state until tx ends.
func (Store) Lock(ctx context.Context, tx pgx.Tx) (State, error) {
	return scan(tx.QueryRow(ctx, `SELECT `+columns+` FROM maintenance FOR UPDATE`))
}

func scan(row pgx.Row) (s State, err error) {
	if err := row.Scan(&s.Mode, &s.Message, &s.Until, &s.ChangedAt, &s.ChangedBy, &s.ChangedByName); err != nil {
		return State{}, fmt.Errorf("read the mode of the installation: %w", err)
	}
	return s, nil
}

// Save writes the state.
func (Store) Save(ctx context.Context, tx pgx.Tx, s State) error {
	_, err := tx.Exec(ctx, `UPDATE maintenance SET mode = $1, message = $2, until = $3, changed_at = $4, changed_by = $5, changed_by_name = $6`,
		s.Mode, s.Message, s.Until, s.ChangedAt, s.ChangedBy, s.ChangedByName)
	if err != nil {
		return fmt.Errorf("change the mode of the installation: %w", err)
	}
	return nil
}
