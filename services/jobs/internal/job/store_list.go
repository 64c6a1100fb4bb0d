package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Filter selects jobs. Empty fields match every job.
type Filter struct {
	State   State
	Project string // key or ID
	Owner   string // user name
	Labels  []string
	Text    string
	After   string // ID of a job: only the jobs behind it in the list
}

// selection is the WHERE condition of a list with its arguments. It contains only the filters that are given: Postgres
// cannot use an index for a condition that an argument may switch off.
type selection struct {
	where string
	args  []any
}

// arg adds an argument and returns its parameter.
func (s *selection) arg(value any) string {
	s.args = append(s.args, value)
	return "$" + strconv.Itoa(len(s.args))
}

func (s *selection) and(condition ...string) {
	s.where += " AND " + strings.Join(condition, "")
}

// selection returns the condition for the filters other than After.
func (f *Filter) selection(scope authn.Scope) (*selection, error) {
	s := &selection{where: access.Visible, args: access.Args(scope)}
	if f.State != "" {
		s.and(`state = `, s.arg(f.State))
	}
	switch {
	case strings.HasPrefix(f.Project, string(id.Project)+"_"): // a key has no underscore
		s.and(`project_id = `, s.arg(f.Project))
	case f.Project != "":
		s.and(`project = `, s.arg(f.Project))
	}
	if f.Owner != "" {
		s.and(`owner_name = `, s.arg(f.Owner))
	}
	if f.Text != "" {
		name := s.arg(anywhere(f.Text))
		exact := s.arg(f.Text)
		s.and(`(lower(name) LIKE lower(`, name, `) OR id = `, exact, ` OR run_id = `, exact, `)`)
	}
	return s, f.labels(s)
}

// anywhere returns the LIKE pattern of the texts that contain text.
func anywhere(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

// labels adds the label filters: name=value, or a name that matches any value.
func (f *Filter) labels(s *selection) error {
	for _, l := range f.Labels {
		name, value, paired := strings.Cut(l, "=")
		if !paired {
			s.and(`labels ? `, s.arg(name))
			continue
		}
		pair, err := json.Marshal(map[string]string{name: value})
		if err != nil {
			return fmt.Errorf("encode a label: %w", err)
		}
		s.and(`labels @> `, s.arg(string(pair)), `::text::jsonb`)
	}
	return nil
}

// List returns the jobs that the scope may see and the filter matches, newest first, without their templates.
func (s *Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f Filter, p request.Page) ([]*Job, error) {
	chosen, err := f.selection(scope)
	if err != nil {
		return nil, err
	}
	if f.After != "" {
		at, err := s.createdAt(ctx, q, scope, f.After)
		if err != nil {
			return nil, err
		}
		chosen.and(`(created_at, id) < (`, chosen.arg(at), `, `, chosen.arg(f.After), `)`)
	}
	limit, offset := chosen.arg(p.FetchLimit()), chosen.arg(p.Offset)
	rows, err := q.Query(ctx, `SELECT `+shownColumns+` FROM job WHERE `+chosen.where+
		` ORDER BY created_at DESC, id DESC LIMIT `+limit+` OFFSET `+offset, chosen.args...)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	found, err := pg.All[row](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	jobs := make([]*Job, len(found))
	for i, r := range found {
		jobs[i] = r.job()
	}
	return jobs, nil
}

// createdAt returns when the job was created after which a page begins.
func (s *Store) createdAt(ctx context.Context, q pg.Querier, scope authn.Scope, jobID string) (at time.Time, err error) {
	err = q.QueryRow(ctx, `SELECT created_at FROM job WHERE `+access.Visible+` AND id = $4`, access.Args(scope, jobID)...).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return at, fault.InvalidFields(fault.At(fault.TypeValue, "There is no such job", "after"))
	}
	if err != nil {
		return at, fmt.Errorf("find the job that ends the previous page: %w", err)
	}
	return at, nil
}
