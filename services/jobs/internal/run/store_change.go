package run

import (
	"context"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/tablefeed"
)

// Feed returns the changes of runs, for streams of the list.
func Feed() tablefeed.Source[*Run] {
	return tablefeed.Source[*Run]{
		Feed: tablefeed.Runs, Topic: db.RunsTopic, Plural: "runs", OtherID: `job_id`,
		Facts: `job_id text, tags jsonb, ended boolean, recipe text, protected boolean, archived boolean`,
		Match: `AND (f.ended OR NOT (i.more ->> 'finished')::boolean)
			AND (i.more ->> 'recipe' = '' OR f.recipe = i.more ->> 'recipe') AND f.tags @> (i.more -> 'tags')
			AND (i.more ->> 'protected' IS NULL OR f.protected = (i.more ->> 'protected')::boolean)
			AND (i.more ->> 'archived' = 'all' OR f.archived = (i.more ->> 'archived' = 'true'))`,
		Load: func(ctx context.Context, q pg.Querier, ids []string) (map[string]*Run, error) {
			return Store{}.Many(ctx, q, access.ServiceScope(), ids)
		},
	}
}

// feedFilter are the fields of a Filter that only lists of runs have.
type feedFilter struct {
	Finished  bool     `json:"finished"`
	Recipe    string   `json:"recipe"`
	Tags      []string `json:"tags"`
	Protected *bool    `json:"protected"`
	Archived  string   `json:"archived"`
}

// Feed returns the filter as one for the changes. Sort and After have no effect.
func (f *Filter) Feed() tablefeed.Filter {
	out := tablefeed.Filter{
		State: f.State, Project: f.Project, Owner: f.Owner, Labels: f.Labels, Text: f.Text, CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo,
	}
	more := feedFilter{Recipe: f.Recipe, Tags: append([]string{}, f.Tags...), Protected: f.Protected, Archived: f.Archived}
	if f.State == finished {
		out.State, more.Finished = "", true
	}
	out.More = more
	return out
}
