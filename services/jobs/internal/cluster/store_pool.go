package cluster

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Settings are the settings of a pool.
type Settings struct {
	Isolation string
	MemoryGB  int // the memory of works that request none; 0 means no default
	OnSilence string
}

// LockPool loads the settings of a pool for a change. Until tx ends, no fleet can stop serving the pool, because that
// could remove the settings. If no fleet serves the pool, it does not exist.
func (s Store) LockPool(ctx context.Context, tx pgx.Tx, pool string) (set Settings, err error) {
	tag, err := tx.Exec(ctx, `SELECT id FROM fleet WHERE $1 = ANY(pools) ORDER BY id FOR SHARE`, pool)
	if err != nil {
		return set, fmt.Errorf("lock the fleets of a pool: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return set, fault.Absentf(SubjectPool, pool)
	}
	if _, err := tx.Exec(ctx, `INSERT INTO pool (name) VALUES ($1) ON CONFLICT DO NOTHING`, pool); err != nil {
		return set, fmt.Errorf("insert the settings of a pool: %w", err)
	}
	err = tx.QueryRow(ctx, `SELECT isolation, default_memory_gb, on_silence FROM pool WHERE name = $1 FOR UPDATE`, pool).
		Scan(&set.Isolation, &set.MemoryGB, &set.OnSilence)
	if err != nil {
		return set, fmt.Errorf("lock the settings of a pool: %w", err)
	}
	return set, nil
}

// SavePool stores the settings of a locked pool.
func (s Store) SavePool(ctx context.Context, tx pgx.Tx, pool string, from, to Settings) error {
	tag, err := tx.Exec(ctx, `UPDATE pool SET isolation = @isolation, default_memory_gb = @memory, on_silence = @on_silence WHERE name = @name
			AND isolation = @from_isolation AND default_memory_gb = @from_memory AND on_silence = @from_on_silence`, pgx.StrictNamedArgs{
		"name": pool, "isolation": to.Isolation, "memory": to.MemoryGB, "on_silence": to.OnSilence,
		"from_isolation": from.Isolation, "from_memory": from.MemoryGB, "from_on_silence": from.OnSilence,
	})
	if err != nil {
		return fmt.Errorf("store the settings of a pool: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.Conflict, "pool_moved", "pool %s was changed meanwhile; try again", pool)
	}
	return nil
}
