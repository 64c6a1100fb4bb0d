// Package access decides who may see a row. Owner implements the rule for rows that have an owner and a project: for
// a caller who may not see a row, the row looks exactly like a missing one. VisibilityRows updates the copies of
// project visibility that a service stores.
//
// The auth service owns projects. Each row that belongs to a project (a job, a dataset, a model and others) has a copy
// of the project's visibility (who besides the members may read it), so that reads do not depend on the auth service.
// The schema of the service must have the table project_visibility, and the trigger follow_project_visibility on each
// table with copies.
//
// Once Set has returned, every row of the project has the visibility passed to Set or a newer one. This includes rows
// that are inserted later, even by a transaction that had read the project before. The trigger and Set use the same
// lock on the project: either Set sees the new row, or the trigger sees the change that Set stored.
package access

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// VisibilityChange is a new visibility of a project. Version increases with each change of the project.
type VisibilityChange struct {
	ProjectID  string
	Visibility string
	Version    int64
}

// VisibilityRows updates the copies of project visibility in one schema.
type VisibilityRows struct {
	Pool pg.Beginner
	// Tables are the tables with copies, in the order in which the service locks their rows. Each has the columns id,
	// project_id, visibility and visibility_version, and the trigger follow_project_visibility.
	Tables []string
	// Changed is called at the end of each transaction that changed rows, with the ids of these rows by table; it may
	// be nil.
	Changed func(ctx context.Context, tx pgx.Tx, ids map[string][]string) error
	// Batch is the maximum number of rows of a table that one transaction updates, so that it holds its locks only
	// briefly. Zero means 2000.
	Batch int
}

const batchSize = 2000

func (r *VisibilityRows) batch() int {
	if r.Batch > 0 {
		return r.Batch
	}
	return batchSize
}

// Set gives all rows of a project the new visibility and returns the version that they have now. That version is newer
// than c.Version if a newer change is already stored. Each transaction updates at most Batch rows of each table. The
// first one also stores the change, so that rows inserted later get it. An interrupted Set can be repeated.
func (r *VisibilityRows) Set(ctx context.Context, c VisibilityChange) (version int64, err error) {
	for more := true; more; {
		err = pg.InTx(ctx, r.Pool, func(ctx context.Context, tx pgx.Tx) error {
			var err error
			version, more, err = r.step(ctx, tx, c)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return version, nil
}

// step updates one batch of each table. The result more is true if a table may have further rows.
func (r *VisibilityRows) step(ctx context.Context, tx pgx.Tx, c VisibilityChange) (version int64, more bool, err error) {
	if err := lock(ctx, tx, c.ProjectID); err != nil {
		return 0, false, err
	}
	newest, err := note(ctx, tx, c)
	if err != nil {
		return 0, false, err
	}
	changed := map[string][]string{}
	for _, table := range r.Tables {
		ids, err := follow(ctx, tx, table, newest, r.batch())
		if err != nil {
			return 0, false, err
		}
		if len(ids) > 0 {
			changed[table] = ids
		}
		more = more || len(ids) == r.batch()
	}
	if len(changed) > 0 && r.Changed != nil {
		if err := r.Changed(ctx, tx, changed); err != nil {
			return 0, false, err
		}
	}
	return newest.Version, more, nil
}
