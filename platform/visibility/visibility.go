// Package visibility keeps the copies that a service has of the visibility of projects. Auth owns projects;
// each row of a job, a dataset or a model repeats who besides the members may read it, so that a read asks
// nobody else.
//
// It promises, to a service whose schema has the table project_visibility and the trigger
// follow_project_visibility on each table with copies: once Set has answered, every row of the project has
// that version of the visibility or a newer one, and so will every row that is made later, also by a
// transaction that was under way and had read the project before. The trigger and Set meet in a lock on the
// project: either Set sees the new row, or the row sees what Set noted.
package visibility

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Change is a visibility that a project got. Versions count the changes of one project.
type Change struct {
	ProjectID  string
	Visibility string
	Version    int64
}

// Rows are the copies in one schema.
type Rows struct {
	Pool pg.Beginner
	// Tables have the columns id, project_id, visibility and visibility_version, and the trigger. They come in
	// the order in which the service locks their rows.
	Tables []string
	// Changed runs last in each transaction that changed rows; it may be nil.
	Changed func(ctx context.Context, tx pgx.Tx) error
	// Batch is how many rows of a table change in one transaction; zero is as many as nobody notices the locks of.
	Batch int
}

const batchSize = 2000

func (r *Rows) batch() int {
	if r.Batch > 0 {
		return r.Batch
	}
	return batchSize
}

// Set gives all rows of a project its visibility and answers the version that they have now: a newer one,
// where another change came first. Rows are changed in one transaction, which also makes every later row
// follow; where they are too many for one, the rest follows in transactions of its own, and a Set that was
// interrupted is finished by its repeat.
func (r *Rows) Set(ctx context.Context, c Change) (version int64, err error) {
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

// step changes a batch of each table; more says that a table may have more.
func (r *Rows) step(ctx context.Context, tx pgx.Tx, c Change) (version int64, more bool, err error) {
	if err := lock(ctx, tx, c.ProjectID); err != nil {
		return 0, false, err
	}
	newest, err := note(ctx, tx, c)
	if err != nil {
		return 0, false, err
	}
	changed := 0
	for _, table := range r.Tables {
		n, err := follow(ctx, tx, table, newest, r.batch())
		if err != nil {
			return 0, false, err
		}
		changed += n
		more = more || n == r.batch()
	}
	if changed > 0 && r.Changed != nil {
		if err := r.Changed(ctx, tx); err != nil {
			return 0, false, err
		}
	}
	return newest.Version, more, nil
}
