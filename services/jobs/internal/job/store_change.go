package job

import (
	"context"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/tablefeed"
)

// Feed returns the changes of jobs, for streams of the list.
func Feed() tablefeed.Source[*Job] {
	return tablefeed.Source[*Job]{
		Feed: tablefeed.Jobs, Topic: db.JobsTopic, Plural: "jobs", Facts: `run_id text`, OtherID: `run_id`, Load: loadShown,
	}
}

// Feed returns the filter as one for the changes. After has no effect.
func (f *Filter) Feed() tablefeed.Filter {
	return tablefeed.Filter{
		State: string(f.State), Project: f.Project, Owner: f.Owner, Labels: f.Labels, Text: f.Text,
		CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo,
	}
}

// loadShown reads jobs as lists show them.
func loadShown(ctx context.Context, q pg.Querier, ids []string) (map[string]*Job, error) {
	rows, err := q.Query(ctx, `SELECT `+shownColumns+` FROM job WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read the changed jobs: %w", err)
	}
	found, err := pg.All[row](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("read the changed jobs: %w", err)
	}
	jobs := make(map[string]*Job, len(found))
	for _, r := range found {
		jobs[r.ID] = r.job()
	}
	return jobs, nil
}
