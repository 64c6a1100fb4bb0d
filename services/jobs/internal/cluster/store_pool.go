package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// Settings are the settings of a pool.
type Settings struct {
	Isolation string
	MemoryGB  int // the memory of works that request none; 0 means no default
	Processes int // the processes and threads that a job may have on each node; 0 means the usual number
	OnSilence string
	// Slurm is how jobs of the pool run on a Slurm cluster. It is zero if no Slurm fleet serves the pool.
	Slurm fleet.SlurmPool
}

// LockPool loads the settings of a pool for a change. Until tx ends, no fleet can stop serving the pool, because that
// could remove the settings. If no fleet serves the pool, it does not exist. The result slurm is true if a Slurm fleet
// serves it.
func (s Store) LockPool(ctx context.Context, tx pgx.Tx, pool string) (set Settings, slurm bool, err error) {
	rows, err := tx.Query(ctx, `SELECT kind FROM fleet WHERE $1 = ANY(pools) ORDER BY id FOR SHARE`, pool)
	if err != nil {
		return set, false, fmt.Errorf("lock the fleets of a pool: %w", err)
	}
	kinds, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return set, false, fmt.Errorf("lock the fleets of a pool: %w", err)
	}
	if len(kinds) == 0 {
		return set, false, fault.Absentf(SubjectPool, pool)
	}
	if _, err := tx.Exec(ctx, `INSERT INTO pool (name) VALUES ($1) ON CONFLICT DO NOTHING`, pool); err != nil {
		return set, false, fmt.Errorf("insert the settings of a pool: %w", err)
	}
	err = tx.QueryRow(ctx, `SELECT isolation, default_memory_gb, default_processes, on_silence, coalesce(slurm, '{}') FROM pool WHERE name = $1 FOR UPDATE`, pool).
		Scan(&set.Isolation, &set.MemoryGB, &set.Processes, &set.OnSilence, &set.Slurm)
	if err != nil {
		return set, false, fmt.Errorf("lock the settings of a pool: %w", err)
	}
	if slurm = slices.Contains(kinds, fleet.KindSlurm); !slurm {
		set.Slurm = fleet.SlurmPool{}
	}
	return set, slurm, nil
}

// SavePool stores the settings of a locked pool.
func (s Store) SavePool(ctx context.Context, tx pgx.Tx, pool string, from, to Settings) error {
	tag, err := tx.Exec(ctx, `UPDATE pool SET isolation = @isolation, default_memory_gb = @memory, default_processes = @processes,
			on_silence = @on_silence, slurm = @slurm WHERE name = @name
			AND isolation = @from_isolation AND default_memory_gb = @from_memory AND default_processes = @from_processes AND on_silence = @from_on_silence`, pgx.StrictNamedArgs{
		"name": pool, "isolation": to.Isolation, "memory": to.MemoryGB, "processes": to.Processes, "on_silence": to.OnSilence,
		"slurm": slurmOrNil(to.Slurm), "from_isolation": from.Isolation, "from_memory": from.MemoryGB, "from_processes": from.Processes, "from_on_silence": from.OnSilence,
	})
	if err != nil {
		return fmt.Errorf("store the settings of a pool: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.Conflict, "pool_moved", "pool %s was changed meanwhile; try again", pool)
	}
	return nil
}

// slurmOrNil returns NULL if no admin has set how jobs of a pool run on Slurm.
func slurmOrNil(p fleet.SlurmPool) any {
	if !p.Set() {
		return nil
	}
	return p
}
