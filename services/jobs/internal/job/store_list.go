package job

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Filter says which jobs are listed; what is empty lets every job through.
type Filter struct {
	State   State
	Project string // key or id
	Owner   string // user name
	Labels  []string
	Text    string
}

// labels are the pairs that a job must have, each as an object, and the names that it must have with any value.
func (f *Filter) labels() (pairs, names []string, err error) {
	pairs, names = []string{}, []string{}
	for _, l := range f.Labels {
		name, value, paired := strings.Cut(l, "=")
		if !paired {
			names = append(names, name)
			continue
		}
		pair, err := json.Marshal(map[string]string{name: value})
		if err != nil {
			return nil, nil, fmt.Errorf("write a label: %w", err)
		}
		pairs = append(pairs, string(pair))
	}
	return pairs, names, nil
}

// List answers the jobs that the scope sees and the filter lets through, newest first.
func (s *Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f Filter, p page.Page) ([]*Job, error) {
	pairs, names, err := f.labels()
	if err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, `SELECT `+jobColumns+` FROM job WHERE `+visible+` AND ($4 = '' OR state = $4)
			AND ($5 = '' OR project = $5 OR project_id = $5) AND ($6 = '' OR owner_name = $6)
			AND labels @> ALL($7::text[]::jsonb[]) AND labels ?& $8
			AND ($9 = '' OR position(lower($9) IN lower(name)) > 0 OR id = $9 OR run_id = $9)
		ORDER BY created_at DESC, id DESC LIMIT $10 OFFSET $11`,
		scope.Admin, scope.UserID, scope.Projects, f.State, f.Project, f.Owner, pairs, names, f.Text, p.Ask(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return collectJobs(rows)
}

func collectJobs(rows pgx.Rows) ([]*Job, error) {
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Job, error) { return scanJob(row) })
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	return jobs, nil
}
