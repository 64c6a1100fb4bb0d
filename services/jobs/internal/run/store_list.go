package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// Filter selects and sorts runs. Empty fields match every run, except Archived.
type Filter struct {
	State                  string // a state, or finished
	Project                string // key or ID
	Owner                  string // user name
	Recipe                 string
	Text                   string
	Tags                   []string // normal
	Labels                 []string
	Protected              *bool
	Archived               string // "true", "all", or "" for runs that are not archived
	CreatedFrom, CreatedTo *time.Time
	Sort                   string // "name", "ended_at", or "" for the newest first
	// After is the ID of a run, and AfterKey its key in the order: only the runs that follow this position are listed.
	AfterKey, After string
}

// Position returns the position of a run in the list, for After of the next page.
func (f *Filter) Position(r *Run) string {
	switch f.Sort {
	case "name":
		return request.KeyPosition(r.Name, r.ID)
	case "ended_at":
		if r.EndedAt == nil {
			return request.KeyPosition("infinity", r.ID)
		}
		return request.KeyPosition(r.EndedAt.UTC().Format(time.RFC3339Nano), r.ID)
	default:
		return request.TimePosition(r.CreatedAt, r.ID)
	}
}

// SetAfter sets the position after which the list begins, or returns a 422 error.
func (f *Filter) SetAfter(after *string) (err error) {
	var at time.Time
	switch {
	case after == nil:
		return nil
	case f.Sort == "name":
		f.AfterKey, f.After, err = request.ReadKeyPosition(id.Run, after)
		return err
	case f.Sort == "ended_at" && strings.HasPrefix(*after, "infinity~"):
		f.AfterKey, f.After, err = request.ReadKeyPosition(id.Run, after)
		return err
	case f.Sort == "ended_at":
		if _, _, err = request.ReadKeyPosition(id.Run, after); err != nil {
			return err
		}
	}
	at, f.After, err = request.ReadTimePosition(id.Run, after)
	f.AfterKey = at.UTC().Format(time.RFC3339Nano)
	return err
}

// finished is the state filter of runs that have ended.
const finished = "finished"

// order is a sequence of runs. The ID decides between runs with the same key.
type order struct {
	key, value       string // an SQL expression with an index, and the expression of the same value for an argument
	direction, after string // of the key and the ID; the comparison with which the following runs are found
}

func (f *Filter) order() order {
	switch f.Sort {
	case "name":
		return order{key: `lower(name)`, value: `lower(%s::text)`, direction: ``, after: `>`}
	case "ended_at":
		return order{key: `coalesce(ended_at, 'infinity'::timestamptz)`, value: `%s::text::timestamptz`, direction: ` DESC`, after: `<`}
	default:
		return order{key: `created_at`, value: `%s::text::timestamptz`, direction: ` DESC`, after: `<`}
	}
}

// selection returns the condition for the filters other than After.
func (f *Filter) selection(scope authn.Scope) (*db.Selection, error) {
	s := db.Select(scope)
	f.flags(s)
	if strings.HasPrefix(f.Project, string(id.Project)+"_") { // a key has no underscore
		s.Equal(`project_id`, f.Project)
	} else {
		s.Equal(`project`, f.Project)
	}
	s.Equal(`owner_name`, f.Owner)
	s.Equal(`recipe_lock ->> 'name'`, f.Recipe)
	if f.Text != "" {
		name, exact := s.Arg(db.Anywhere(f.Text)), s.Arg(f.Text)
		s.And(`(lower(name) LIKE lower(`, name, `) OR id = `, exact, ` OR job_id = `, exact, `)`)
	}
	if len(f.Tags) > 0 {
		s.And(`tags @> `, s.Arg(f.Tags), `::text[]`)
	}
	if f.CreatedFrom != nil {
		s.And(`created_at >= `, s.Arg(*f.CreatedFrom))
	}
	if f.CreatedTo != nil {
		s.And(`created_at < `, s.Arg(*f.CreatedTo))
	}
	return s, f.labels(s)
}

// flags adds the filters of the state, the protection and the archive.
func (f *Filter) flags(s *db.Selection) {
	switch f.State {
	case "":
	case finished:
		s.Where += ` AND ended_at IS NOT NULL`
	default:
		s.Equal(`state`, f.State)
	}
	switch {
	case f.Protected == nil:
	case *f.Protected:
		s.Where += ` AND protected`
	default:
		s.Where += ` AND NOT protected`
	}
	switch f.Archived {
	case "all":
	case "true":
		s.Where += ` AND archived_at IS NOT NULL`
	default:
		s.Where += ` AND archived_at IS NULL`
	}
}

// labels adds the label filters. The labels of a run that were not copied yet are those of its job.
func (f *Filter) labels(s *db.Selection) error {
	for _, l := range f.Labels {
		matches, err := s.Label(l)
		if err != nil {
			return err
		}
		s.Where += ` AND (` + matches + ` OR labels IS NULL AND EXISTS (SELECT FROM job j WHERE j.run_id = run.id AND j.` + matches + `))`
	}
	return nil
}

// List returns the runs that callers with this scope may see and that match the filter, in its order, without their
// notes.
func (s Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f Filter, p request.Page) ([]*Run, error) {
	chosen, err := f.selection(scope)
	if err != nil {
		return nil, err
	}
	o := f.order()
	if f.After != "" {
		chosen.And(`(`+o.key+`, id) `+o.after+` (`, fmt.Sprintf(o.value, chosen.Arg(f.AfterKey)), `, `, chosen.Arg(f.After), `)`)
	}
	limit, offset := chosen.Arg(p.FetchLimit()), chosen.Arg(p.Offset)
	runs, err := pg.All[Run](q.Query(ctx, `SELECT `+shownColumns+`, NULL::text AS notes FROM run WHERE `+chosen.Where+
		` ORDER BY `+o.key+o.direction+`, id`+o.direction+` LIMIT `+limit+` OFFSET `+offset, chosen.Args...))
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return runs, nil
}

// Many returns those of the runs that callers with this scope may see, by ID and without their notes.
func (Store) Many(ctx context.Context, q pg.Querier, scope authn.Scope, ids []string) (map[string]*Run, error) {
	runs, err := pg.All[Run](q.Query(ctx, `SELECT `+shownColumns+`, NULL::text AS notes FROM run WHERE `+access.Visible+` AND id = ANY($4)`,
		access.Args(scope, ids)...))
	if err != nil {
		return nil, fmt.Errorf("load runs: %w", err)
	}
	byID := make(map[string]*Run, len(runs))
	for _, r := range runs {
		byID[r.ID] = r
	}
	return byID, nil
}

// TagCount is a tag with the number of runs that have it.
type TagCount struct {
	Tag  string
	Runs int32
}

// countedRuns is the maximum number of runs whose tags Tags counts.
const countedRuns = 20_000

// Tags returns the tags of a project's runs that begin with a prefix, the most used first. It counts only the newest
// runs that have tags.
func (Store) Tags(ctx context.Context, q pg.Querier, scope authn.Scope, projectID, prefix string, p request.Page) ([]*TagCount, error) {
	tags, err := pg.All[TagCount](q.Query(ctx, `SELECT tag, count(*)::integer AS runs FROM (
			SELECT tags FROM run WHERE `+access.Visible+` AND project_id = $4 AND tags <> '{}'
				ORDER BY created_at DESC, id DESC LIMIT $5
		) newest CROSS JOIN LATERAL unnest(tags) tag WHERE starts_with(tag, $6)
		GROUP BY tag ORDER BY runs DESC, tag LIMIT $7 OFFSET $8`,
		access.Args(scope, projectID, countedRuns, prefix, p.FetchLimit(), p.Offset)...))
	if err != nil {
		return nil, fmt.Errorf("count the tags of a project: %w", err)
	}
	return tags, nil
}
