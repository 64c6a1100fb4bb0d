package tablefeed

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// Source is a table whose changes are streamed. A change records these facts of the row before and after it, as JSON: id,
// name, owner_id, owner_name, project_id, project, visibility, labels, state, created_at and those of Facts.
type Source[R any] struct {
	Feed   Feed
	Topic  pg.Topic // on which the triggers of the table notify
	Plural string   // what messages and metrics call the rows
	// Facts are further columns of the facts f, and Match is a condition on them: AND, and an expression of f and of the
	// filter i, whose column more is Filter.More.
	Facts, Match string
	// OtherID is the name of the fact whose value also selects a row by Filter.Text.
	OtherID string
	// Load reads rows as the list shows them, by their ids. It leaves out rows that do not exist.
	Load func(ctx context.Context, q pg.Querier, ids []string) (map[string]R, error)
}

// Changes returns the changes after a position, at most limit of them, for each of the interests. All queries see the
// same snapshot, so that a row is exactly what it was after its change.
func (s *Source[R]) Changes(ctx context.Context, pool pg.Beginner, after int64, interests []Interest, limit int) (page Page[R], err error) {
	wanted, err := encode(interests)
	if err != nil {
		return page, err
	}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTxWith(ctx, pool, opts, func(ctx context.Context, tx pgx.Tx) error {
		page = Page[R]{}
		if err := tx.QueryRow(ctx, `SELECT last, oldest FROM `+s.Feed.head()).Scan(&page.Last, &page.Oldest); err != nil {
			return fmt.Errorf("read the positions of the changes of %s: %w", s.Plural, err)
		}
		if page.Changes, err = s.read(ctx, tx, after, wanted, limit); err != nil {
			return err
		}
		if page.End = page.Last; len(page.Changes) == limit {
			page.End = page.Changes[limit-1].Seq
		}
		return s.attach(ctx, tx, page.Changes)
	})
	return page, err
}

// read evaluates each interest for the row as it was before and after each change. What is not recorded of the labels
// before a change matches: then a client may receive that a row is gone which it does not have.
func (s *Source[R]) read(ctx context.Context, q pg.Querier, after int64, wanted string, limit int) ([]Change[R], error) {
	facts := ` AS f (id text, name text, owner_id text, owner_name text, project_id text, project text, visibility text, labels jsonb,
		state text, created_at timestamptz, ` + s.Facts + `)`
	visible := strings.NewReplacer("$1", "i.admin", "$2", "i.user_id", "$3", "i.projects").Replace(access.Visible)
	rows, err := q.Query(ctx, `WITH batch AS MATERIALIZED (SELECT c.seq, c.`+s.Feed.id()+` AS id, c.before, c.after,
			EXISTS (SELECT FROM `+s.Feed.changes()+` later WHERE later.`+s.Feed.id()+` = c.`+s.Feed.id()+` AND later.id > c.id) AS superseded
			FROM `+s.Feed.changes()+` c WHERE c.seq > $1 ORDER BY c.seq LIMIT $2),
		facts AS MATERIALIZED (
			SELECT b.seq, false AS now, f.* FROM batch b CROSS JOIN LATERAL jsonb_to_record(b.before)`+facts+` WHERE b.before IS NOT NULL
			UNION ALL
			SELECT b.seq, true AS now, f.* FROM batch b CROSS JOIN LATERAL jsonb_to_record(b.after)`+facts+` WHERE b.after IS NOT NULL),
		i AS MATERIALIZED (SELECT * FROM jsonb_to_recordset($3::text::jsonb) AS r (k int, admin boolean, user_id text,
			projects text[], in_state text, in_project_id text, in_project text, of_owner text, label_names text[], label_pairs jsonb,
			name_part text, any_id text, created_from timestamptz, created_to timestamptz, more jsonb)),
		hits AS (SELECT f.seq, i.k, bool_or(f.now) AS now FROM facts f JOIN i ON `+visible+`
			AND (i.in_state = '' OR f.state = i.in_state) AND (i.in_project_id = '' OR f.project_id = i.in_project_id)
			AND (i.in_project = '' OR f.project = i.in_project) AND (i.of_owner = '' OR f.owner_name = i.of_owner)
			AND (i.any_id = '' OR lower(f.name) LIKE lower(i.name_part) OR f.id = i.any_id OR f.`+s.OtherID+` = i.any_id)
			AND (f.labels IS NULL OR f.labels ?& i.label_names
				AND NOT EXISTS (SELECT FROM jsonb_array_elements(i.label_pairs) pair WHERE NOT f.labels @> pair))
			AND (i.created_from IS NULL AND i.created_to IS NULL
				-- Earlier versions recorded no time.
				OR coalesce(f.created_at, (SELECT t.created_at FROM `+string(s.Feed)+` t WHERE t.id = f.id))
					BETWEEN coalesce(i.created_from, '-infinity') AND coalesce(i.created_to - interval '1 microsecond', 'infinity'))
			`+s.Match+` GROUP BY f.seq, i.k)
		SELECT b.seq, b.id,
			coalesce(array_agg(h.k) FILTER (WHERE h.now AND NOT b.superseded), '{}') AS shown,
			coalesce(array_agg(h.k) FILTER (WHERE NOT h.now), '{}') AS gone
		FROM batch b LEFT JOIN hits h ON h.seq = b.seq GROUP BY b.seq, b.id ORDER BY b.seq`, after, limit, wanted)
	if err != nil {
		return nil, fmt.Errorf("read changes of %s: %w", s.Plural, err)
	}
	changes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Change[R], err error) {
		return c, row.Scan(&c.Seq, &c.ID, &c.Shown, &c.Gone)
	})
	if err != nil {
		return nil, fmt.Errorf("read changes of %s: %w", s.Plural, err)
	}
	return changes, nil
}

// attach reads the rows of the changes that are shown to some interest.
func (s *Source[R]) attach(ctx context.Context, q pg.Querier, changes []Change[R]) error {
	var ids []string
	for _, c := range changes {
		if len(c.Shown) > 0 {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.Load(ctx, q, ids)
	if err != nil {
		return err
	}
	for i := range changes {
		if c := &changes[i]; len(c.Shown) > 0 {
			var found bool
			if c.Row, found = rows[c.ID]; !found { // deleted without a trigger, for example by TRUNCATE
				c.Shown = nil
			}
		}
	}
	return nil
}

// Check returns the error that Changes would return for every reader if the filter has text that Postgres cannot read.
func (s *Source[R]) Check(ctx context.Context, q pg.Querier, in Interest) error {
	wanted, err := encode([]Interest{in})
	if err != nil {
		return err
	}
	if _, err := q.Exec(ctx, `SELECT $1::text::jsonb`, wanted); err != nil {
		return fmt.Errorf("check the filters of a stream of %s: %w", s.Plural, err)
	}
	return nil
}

// interestRow is an Interest as a row of the statement of Source.read.
type interestRow struct {
	K         int                 `json:"k"`
	Admin     bool                `json:"admin"`
	UserID    string              `json:"user_id"`
	Projects  []string            `json:"projects"`
	State     string              `json:"in_state"`
	ProjectID string              `json:"in_project_id"`
	Project   string              `json:"in_project"`
	Owner     string              `json:"of_owner"`
	Names     []string            `json:"label_names"`
	Pairs     []map[string]string `json:"label_pairs"`
	NamePart  string              `json:"name_part"`
	AnyID     string              `json:"any_id"`

	CreatedFrom *time.Time `json:"created_from"`
	CreatedTo   *time.Time `json:"created_to"`
	More        any        `json:"more"`
}

func encode(interests []Interest) (string, error) {
	list := make([]interestRow, len(interests))
	for k, in := range interests {
		f := &in.Filter
		r := interestRow{
			K: k, Admin: in.Scope.Admin, UserID: in.Scope.UserID, Projects: append([]string{}, in.Scope.Projects...), State: f.State, Owner: f.Owner,
			Names: []string{}, Pairs: []map[string]string{}, NamePart: db.Anywhere(f.Text), AnyID: f.Text,
			CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo, More: f.More,
		}
		if strings.HasPrefix(f.Project, string(id.Project)+"_") { // a key has no underscore
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
		return "", fmt.Errorf("encode the filters of streams: %w", err)
	}
	return string(text), nil
}
