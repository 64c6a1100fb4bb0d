package tablefeed_test

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/tablefeed"
)

// table is a table under test, and the methods of a server for it.
type table struct {
	feed  tablefeed.Feed
	touch string // an assignment that counts as a change
	idOf  func(*job.Job) string
	list  func(ctx context.Context, r *replica, q query, limit int32, after *string) ([]row, error)
	watch func(ctx context.Context, r *replica, q query, after int64, to receiver) error
	// read reads changes as the servers do.
	read func(ctx context.Context, pool pg.Beginner, after int64, limit int) (tablefeed.Page[any], error)
	// queries are filters of clients, copySQL copies a row, and randomSQL are random changes.
	queries   []query
	copySQL   string
	randomSQL []string
	// invalid is a query that the list refuses.
	invalid query
}

// query is what a request selects. The fields from tag are only for runs.
type query struct {
	state, project, owner, q    *string
	label                       []string
	createdAfter, createdBefore *timestamppb.Timestamp
	tag                         []string
	recipe, archived            *string
	protected                   *bool
}

// row is a job or a run.
type row interface {
	proto.Message
	GetId() string
	GetName() string
	GetCreatedAt() *timestamppb.Timestamp
}

// tableEvent is an event of a stream: one of row, gone and reset is set.
type tableEvent struct {
	id          int64
	row         row
	gone, reset string
}

// receiver is a client of a stream.
type receiver interface {
	accepted() error
	receive(e tableEvent) error
}

// stream passes the messages of a server to a receiver.
type stream[M any] struct {
	grpc.ServerStreamingServer[M]

	ctx     context.Context
	to      receiver
	convert func(*M) tableEvent
}

func (s *stream[M]) Context() context.Context       { return s.ctx }
func (s *stream[M]) SendHeader(_ metadata.MD) error { return s.to.accepted() }
func (s *stream[M]) Send(m *M) error                { return s.to.receive(s.convert(m)) }

type noHeader struct{ grpc.ServerTransportStream }

func (noHeader) SetHeader(metadata.MD) error { return nil }

// paged returns a context for a list.
func paged(ctx context.Context) context.Context {
	return grpc.NewContextWithServerTransportStream(ctx, noHeader{})
}

func jobsTable() table {
	return table{
		feed: tablefeed.Jobs, touch: `seq = seq + 1`, idOf: func(j *job.Job) string { return j.ID },
		list: func(ctx context.Context, r *replica, q query, limit int32, after *string) ([]row, error) {
			page, err := r.jobs.ListJobs(paged(ctx), &jobsv1.ListJobsRequest{
				State: q.state, Project: q.project, Owner: q.owner, Label: q.label, Q: q.q, Limit: &limit, After: after,
				CreatedAfter: q.createdAfter, CreatedBefore: q.createdBefore,
			})
			return rowsOf(page.GetJobs()), err
		},
		watch: func(ctx context.Context, r *replica, q query, after int64, to receiver) error {
			return r.jobs.WatchJobs(&jobsv1.WatchJobsRequest{
				After: after, State: q.state, Project: q.project, Owner: q.owner, Label: q.label, Q: q.q,
				CreatedAfter: q.createdAfter, CreatedBefore: q.createdBefore,
			}, &stream[jobsv1.WatchJobsResponse]{ctx: ctx, to: to, convert: jobEvent})
		},
		read: readAll(job.Feed()), queries: sharedQueries(), invalid: query{state: new("bad")},
		copySQL: `INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec, spec_digest,
				template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, queued_at, seq)
			SELECT COPY, 'run_of_' || n.id, NAMES, priority, spec, spec_digest, template, pools, gpus, retry_max,
				running_s, starting_s, queued_s, AGE, 'queued', queued_at, 1 FROM job, `,
		randomSQL: append(sharedSQL(), `UPDATE TABLE SET queue_reason = 'r' || $2 % 3, queue_position = $2 WHERE id = ANY($1)`),
	}
}

func runsTable() table {
	return table{
		feed: tablefeed.Runs, touch: `version = version + 1`, idOf: func(j *job.Job) string { return j.RunID },
		list: func(ctx context.Context, r *replica, q query, limit int32, after *string) ([]row, error) {
			page, err := r.runs.ListRuns(paged(ctx), &jobsv1.ListRunsRequest{
				State: stateOfRuns(q), Project: q.project, Owner: q.owner, Label: q.label, Q: q.q, Limit: &limit, After: after,
				CreatedAfter: q.createdAfter, CreatedBefore: q.createdBefore, Tag: q.tag, Recipe: q.recipe, Archived: q.archived, Protected: q.protected,
			})
			return rowsOf(page.GetRuns()), err
		},
		watch: func(ctx context.Context, r *replica, q query, after int64, to receiver) error {
			return r.runs.WatchRuns(&jobsv1.WatchRunsRequest{
				After: after, State: stateOfRuns(q), Project: q.project, Owner: q.owner, Label: q.label, Q: q.q,
				CreatedAfter: q.createdAfter, CreatedBefore: q.createdBefore, Tag: q.tag, Recipe: q.recipe, Archived: q.archived, Protected: q.protected,
			}, &stream[jobsv1.WatchRunsResponse]{ctx: ctx, to: to, convert: runEvent})
		},
		read: readAll(run.Feed()), invalid: query{tag: []string{"a,b"}},
		queries: append(sharedQueries(),
			query{state: new("finished")},
			query{tag: []string{"t1"}, archived: new("all")},
			query{recipe: new("ns/r1"), protected: new(false)},
			query{protected: new(true), archived: new("all"), state: new("running")},
			query{archived: new("true")},
			query{tag: []string{"T0", "all"}, archived: new("false"), state: new("finished"), label: []string{"l=0"}},
		),
		// Every other run has no job.
		copySQL: `INSERT INTO run (id, job_id, name, owner_id, owner_name, project_id, project, visibility, labels, state, recipe_lock,
				bindings, recipe_digest, spec_digest, created_at, silence_s, tags)
			SELECT COPY, CASE WHEN n.i % 2 = 0 THEN 'job_of_' || n.id END, NAMES, 'queued',
				jsonb_build_object('name', 'ns/r' || n.i % 2), bindings, recipe_digest, spec_digest, AGE,
				CASE WHEN n.i % 2 = 1 THEN 60 END, ARRAY['all', 't' || n.i % 3] FROM run, `,
		randomSQL: append(
			sharedSQL(),
			`UPDATE TABLE SET ended_at = CASE WHEN $2 % 2 = 0 THEN now() END, end_reason = 'r' || $2 % 3, attempts = $2 WHERE id = ANY($1)`,
			`UPDATE TABLE SET TOUCH, tags = ARRAY['all', 't' || $2 % 3] WHERE id = ANY($1)`,
			`UPDATE TABLE SET TOUCH, archived_at = CASE WHEN $2 % 2 = 0 THEN now() END WHERE id = ANY($1)`,
			`UPDATE TABLE SET protected = ($2 % 2 = 0) WHERE id = ANY($1)`,
			`UPDATE TABLE SET heard_at = now(), summary_tried_at = now() WHERE id = ANY($1) AND $2 > 0`,
		),
	}
}

// stateOfRuns returns the state that selects what an empty state of a job selects. For finished runs it is empty.
func stateOfRuns(q query) *string {
	switch {
	case q.state == nil:
		return new("all")
	case *q.state == "finished":
		return nil
	}
	return q.state
}

// copied is when the first of the copies was created; each is a second younger than the one before.
func copied() time.Time { return time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC) }

func sharedQueries() []query {
	return []query{
		{},
		{state: new("running")},
		{project: new("key1")},
		{project: new("prj_2")},
		{owner: new("user3")},
		{label: []string{"l=1"}},
		{label: []string{"m", "l=2"}},
		{q: new("AME 1")},
		{state: new("queued"), owner: new("user1"), q: new("name")},
		{createdAfter: timestamppb.New(copied().Add(200 * time.Second)), createdBefore: timestamppb.New(copied().Add(500 * time.Second))},
	}
}

// sharedSQL are random changes. $2 is a random number.
func sharedSQL() []string {
	return []string{
		`UPDATE TABLE SET TOUCH, state = (ARRAY['queued', 'scheduled', 'running', 'pausing', 'starting'])[$2 % 5 + 1] WHERE id = ANY($1)`,
		`UPDATE TABLE SET TOUCH, name = 'name ' || $2 % 50 WHERE id = ANY($1)`,
		`UPDATE TABLE SET TOUCH, labels = jsonb_build_object('l', ($2 % 3)::text, 'm', 'x') WHERE id = ANY($1)`,
		`UPDATE TABLE SET owner_id = 'usr_' || $2 % 5, owner_name = 'user' || $2 % 5 WHERE id = ANY($1) AND project_id <> 'prj_secret'`,
		`UPDATE TABLE SET project_id = 'prj_' || $2 % 4, project = 'key' || $2 % 4 WHERE id = ANY($1) AND project_id <> 'prj_secret'`,
		`UPDATE TABLE SET visibility = CASE WHEN $2 % 2 = 0 THEN 'all' ELSE 'team' END WHERE id = ANY($1) AND project_id <> 'prj_secret'`,
		`DELETE FROM TABLE WHERE id = ANY($1) AND $2 % 10 = 0`,
	}
}

func rowsOf[R row](in []R) []row {
	out := make([]row, len(in))
	for i, r := range in {
		out[i] = r
	}
	return out
}

func jobEvent(m *jobsv1.WatchJobsResponse) tableEvent {
	e := tableEvent{id: m.GetSeq(), gone: m.GetGone().GetId(), reset: m.GetReset_().GetReason()}
	if j := m.GetJob(); j != nil {
		e.row = j
	}
	return e
}

func runEvent(m *jobsv1.WatchRunsResponse) tableEvent {
	e := tableEvent{id: m.GetSeq(), gone: m.GetGone().GetId(), reset: m.GetReset_().GetReason()}
	if r := m.GetRun(); r != nil {
		e.row = r
	}
	return e
}

// readAll returns a function that reads changes of a source for a reader who may see every row.
func readAll[R any](source tablefeed.Source[R]) func(context.Context, pg.Beginner, int64, int) (tablefeed.Page[any], error) {
	return func(ctx context.Context, pool pg.Beginner, after int64, limit int) (tablefeed.Page[any], error) {
		all := []tablefeed.Interest{{Scope: access.ServiceScope(), Filter: tablefeed.Filter{More: map[string]any{
			"finished": false, "recipe": "", "tags": []string{}, "archived": "all",
		}}}}
		page, err := source.Changes(ctx, pool, after, all, limit)
		out := tablefeed.Page[any]{End: page.End, Last: page.Last, Oldest: page.Oldest}
		for _, c := range page.Changes {
			out.Changes = append(out.Changes, tablefeed.Change[any]{Seq: c.Seq, ID: c.ID, Row: c.Row, Shown: c.Shown, Gone: c.Gone})
		}
		return out, err
	}
}

// positionOf returns the position of a row in its list.
func positionOf(r row) *string {
	return new(request.TimePosition(r.GetCreatedAt().AsTime(), r.GetId()))
}
