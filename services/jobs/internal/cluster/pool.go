package cluster

import (
	"context"
	"fmt"
	"path"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// SubjectPool is the kind of the subject pool in the event and audit tables. Its id is the pool's name.
const SubjectPool = "pool"

// SetPool changes the settings of a pool and returns them. If they stay the same, it writes no event and no audit row.
// The scheduler holds a shared lock on a pool's isolation while it places works. Once SetPool has changed the isolation
// to required, no work is therefore placed under the old setting.
func (o *Orders) SetPool(ctx context.Context, pool string, change func(Settings) Settings) (to Settings, err error) {
	err = pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		from, slurm, err := o.Store.LockPool(ctx, tx, pool)
		if err != nil {
			return err
		}
		if to = change(from); to == from {
			return nil
		}
		if err := checkSlurm(pool, from, to, slurm); err != nil {
			return err
		}
		if err := o.Store.SavePool(ctx, tx, pool, from, to); err != nil {
			return err
		}
		if err := o.recordPool(ctx, tx, pool, from, to); err != nil {
			return err
		}
		if err := o.wakeAgents(ctx, tx, pool); err != nil {
			return err
		}
		return pg.Notify(ctx, tx, db.QueueTopic)
	})
	return to, err
}

// checkSlurm refuses settings that do not fit the pool: those for Slurm if no Slurm fleet serves it, and a limit that only
// hosts enforce if one does.
func checkSlurm(pool string, from, to Settings, served bool) error {
	set := to.Slurm
	switch {
	case served && to.Processes > 0 && to.Processes != from.Processes:
		return fault.InvalidFields(fault.At(fault.TypeValue, fmt.Sprintf("a Slurm fleet serves pool %s, and Slurm limits the processes of its jobs, "+
			"not Signalbox; omit this field, or set it to 0", pool), "default_processes"))
	case !set.Set():
		return nil
	case !served:
		return fault.InvalidFields(fault.At(fault.TypeValue, fmt.Sprintf("no Slurm fleet serves pool %s; create a fleet of kind slurm with this pool first", pool), "slurm"))
	case path.Clean(set.Folder) != set.Folder:
		return fault.InvalidFields(fault.At(fault.TypeValue, "the path must be absolute, without `.`, `..`, repeated or trailing slashes", "slurm", "folder"))
	}
	return nil
}

// wakeAgents sends the changed settings to the agents of the Slurm fleets that serve the pool.
func (o *Orders) wakeAgents(ctx context.Context, tx pgx.Tx, pool string) error {
	agents, err := o.Store.Fleets.SlurmAgents(ctx, tx, pool)
	if err != nil {
		return err
	}
	for _, id := range agents {
		if err := pg.Notify(ctx, tx, db.NodeTopic(id)); err != nil {
			return err
		}
	}
	return nil
}

// recordPool writes an event for each setting that changes, and the audit row.
func (o *Orders) recordPool(ctx context.Context, tx pgx.Tx, pool string, from, to Settings) error {
	for _, e := range []event.Event{
		{Type: "pool.isolation", From: from.Isolation, To: to.Isolation},
		{Type: "pool.default_memory", From: strconv.Itoa(from.MemoryGB), To: strconv.Itoa(to.MemoryGB)},
		{Type: "pool.default_processes", From: strconv.Itoa(from.Processes), To: strconv.Itoa(to.Processes)},
		{Type: "pool.on_silence", From: from.OnSilence, To: to.OnSilence},
		{Type: "pool.slurm", From: from.Slurm.Describe(), To: to.Slurm.Describe()},
	} {
		if e.From == e.To {
			continue
		}
		e.SubjectKind, e.SubjectID = SubjectPool, pool
		if _, err := o.Events.Append(ctx, tx, e); err != nil {
			return err
		}
	}
	return o.Trail.Record(ctx, tx, "pool.update", SubjectPool, pool,
		map[string]any{
			"isolation": to.Isolation, "default_memory_gb": to.MemoryGB, "default_processes": to.Processes, "on_silence": to.OnSilence,
			"slurm": slurmOrNil(to.Slurm),
		})
}
