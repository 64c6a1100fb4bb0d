package job

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// Interest is a list of jobs whose changes someone follows: those that match the filter and that callers with the scope
// may see. Filter.After has no effect.
type Interest struct {
	Scope  authn.Scope
	Filter Filter
}

// Change is one change of a job, for some interests.
type Change struct {
	Seq   int64
	JobID string
	// Job is the job after the change. It is nil if Shown is empty.
	Job *Job
	// Shown are the indexes of the interests that include the job after the change. It is empty if the job has changed
	// again; a later change then has the job.
	Shown []int32
	// Gone are the indexes of the interests that included the job only before the change.
	Gone []int32
}

// ChangePage holds the changes after a position, in order. End is the position after them. Last is the newest position
// of the feed, and changes up to Oldest may have been deleted.
type ChangePage struct {
	Changes           []Change
	End, Last, Oldest int64
}

// Changes returns the changes after a position, at most limit of them, for each of the interests. All queries see the
// same snapshot, so that a Job is exactly what it was after its change.
func Changes(ctx context.Context, pool pg.Beginner, after int64, interests []Interest, limit int) (page ChangePage, err error) {
	wanted, err := encodeInterests(interests)
	if err != nil {
		return page, err
	}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTxWith(ctx, pool, opts, func(ctx context.Context, tx pgx.Tx) error {
		page = ChangePage{}
		if err := tx.QueryRow(ctx, `SELECT last, oldest FROM job_feed`).Scan(&page.Last, &page.Oldest); err != nil {
			return fmt.Errorf("read the feed of job changes: %w", err)
		}
		if page.Changes, err = readChanges(ctx, tx, after, wanted, limit); err != nil {
			return err
		}
		if page.End = page.Last; len(page.Changes) == limit {
			page.End = page.Changes[limit-1].Seq
		}
		return attachJobs(ctx, tx, page.Changes)
	})
	return page, err
}

// readChanges evaluates each interest for the job as it was before and after each change.
func readChanges(ctx context.Context, q pg.Querier, after int64, wanted string, limit int) ([]Change, error) {
	const facts = ` AS f (id text, run_id text, name text, owner_id text, owner_name text, project_id text, project text,
		visibility text, labels jsonb, state text, created_at timestamptz)`
	visible := strings.NewReplacer("$1", "i.admin", "$2", "i.user_id", "$3", "i.projects").Replace(access.Visible)
	rows, err := q.Query(ctx, `WITH batch AS MATERIALIZED (SELECT c.seq, c.job_id, c.before, c.after,
			EXISTS (SELECT FROM job_change later WHERE later.job_id = c.job_id AND later.id > c.id) AS superseded
			FROM job_change c WHERE c.seq > $1 ORDER BY c.seq LIMIT $2),
		facts AS MATERIALIZED (
			SELECT b.seq, false AS now, f.* FROM batch b CROSS JOIN LATERAL jsonb_to_record(b.before)`+facts+` WHERE b.before IS NOT NULL
			UNION ALL
			SELECT b.seq, true AS now, f.* FROM batch b CROSS JOIN LATERAL jsonb_to_record(b.after)`+facts+` WHERE b.after IS NOT NULL),
		i AS MATERIALIZED (SELECT * FROM jsonb_to_recordset($3::text::jsonb) AS r (k int, admin boolean, user_id text,
			projects text[], in_state text, in_project_id text, in_project text, of_owner text, label_names text[], label_pairs jsonb,
			name_part text, any_id text, created_from timestamptz, created_to timestamptz)),
		hits AS (SELECT f.seq, i.k, bool_or(f.now) AS now FROM facts f JOIN i ON `+visible+`
			AND (i.in_state = '' OR f.state = i.in_state) AND (i.in_project_id = '' OR f.project_id = i.in_project_id)
			AND (i.in_project = '' OR f.project = i.in_project) AND (i.of_owner = '' OR f.owner_name = i.of_owner)
			AND (i.any_id = '' OR lower(f.name) LIKE lower(i.name_part) OR f.id = i.any_id OR f.run_id = i.any_id)
			AND f.labels ?& i.label_names
			AND NOT EXISTS (SELECT FROM jsonb_array_elements(i.label_pairs) pair WHERE NOT f.labels @> pair)
			AND (i.created_from IS NULL AND i.created_to IS NULL
				-- Earlier versions recorded no time.
				OR coalesce(f.created_at, (SELECT created_at FROM job WHERE job.id = f.id))
					BETWEEN coalesce(i.created_from, '-infinity') AND coalesce(i.created_to - interval '1 microsecond', 'infinity'))
			GROUP BY f.seq, i.k)
		SELECT b.seq, b.job_id,
			coalesce(array_agg(h.k) FILTER (WHERE h.now AND NOT b.superseded), '{}') AS shown,
			coalesce(array_agg(h.k) FILTER (WHERE NOT h.now), '{}') AS gone
		FROM batch b LEFT JOIN hits h ON h.seq = b.seq GROUP BY b.seq, b.job_id ORDER BY b.seq`, after, limit, wanted)
	if err != nil {
		return nil, fmt.Errorf("read changes of jobs: %w", err)
	}
	changes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Change, err error) {
		return c, row.Scan(&c.Seq, &c.JobID, &c.Shown, &c.Gone)
	})
	if err != nil {
		return nil, fmt.Errorf("read changes of jobs: %w", err)
	}
	return changes, nil
}

// attachJobs reads the jobs of the changes that are shown to some interest.
func attachJobs(ctx context.Context, q pg.Querier, changes []Change) error {
	var ids []string
	for _, c := range changes {
		if len(c.Shown) > 0 {
			ids = append(ids, c.JobID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := q.Query(ctx, `SELECT `+shownColumns+` FROM job WHERE id = ANY($1)`, ids)
	if err != nil {
		return fmt.Errorf("read the changed jobs: %w", err)
	}
	found, err := pg.All[row](rows, nil)
	if err != nil {
		return fmt.Errorf("read the changed jobs: %w", err)
	}
	jobs := make(map[string]*Job, len(found))
	for _, r := range found {
		jobs[r.ID] = r.job()
	}
	for i := range changes {
		if c := &changes[i]; len(c.Shown) > 0 {
			if c.Job = jobs[c.JobID]; c.Job == nil { // deleted without a trigger, for example by TRUNCATE
				c.Shown = nil
			}
		}
	}
	return nil
}

// CheckInterest returns the error that Changes would return for every reader if the filter has text that Postgres cannot
// read.
func CheckInterest(ctx context.Context, q pg.Querier, in Interest) error {
	wanted, err := encodeInterests([]Interest{in})
	if err != nil {
		return err
	}
	if _, err := q.Exec(ctx, `SELECT $1::text::jsonb`, wanted); err != nil {
		return fmt.Errorf("check the filters of a job stream: %w", err)
	}
	return nil
}

// interestRow is an Interest as a row of the statement of readChanges.
type interestRow struct {
	K         int                 `json:"k"`
	Admin     bool                `json:"admin"`
	UserID    string              `json:"user_id"`
	Projects  []string            `json:"projects"`
	State     State               `json:"in_state"`
	ProjectID string              `json:"in_project_id"`
	Project   string              `json:"in_project"`
	Owner     string              `json:"of_owner"`
	Names     []string            `json:"label_names"`
	Pairs     []map[string]string `json:"label_pairs"`
	NamePart  string              `json:"name_part"`
	AnyID     string              `json:"any_id"`

	CreatedFrom *time.Time `json:"created_from"`
	CreatedTo   *time.Time `json:"created_to"`
}

func encodeInterests(interests []Interest) (string, error) {
	list := make([]interestRow, len(interests))
	for k, in := range interests {
		f := &in.Filter
		r := interestRow{
			K: k, Admin: in.Scope.Admin, UserID: in.Scope.UserID, Projects: notNil(in.Scope.Projects), State: f.State, Owner: f.Owner,
			Names: []string{}, Pairs: []map[string]string{}, NamePart: db.Anywhere(f.Text), AnyID: f.Text,
			CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo,
		}
		if strings.HasPrefix(f.Project, string(id.Project)+"_") {
			r.ProjectID = f.Project
		} else {
			r.Project = f.Project
		}
		for _, l := range f.Labels {
			if name, value, paired := strings.Cut(l, "="); paired {
				r.Pairs = append(r.Pairs, map[string]string{name: value})
			} else {
				r.Names = append(r.Names, name)
			}
		}
		list[k] = r
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode the filters of job streams: %w", err)
	}
	return string(text), nil
}
