package jobapi_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

func operator(projects ...string) *authn.Caller {
	c := &authn.Caller{Kind: authn.KindUser, Subject: "usr_bob", Role: authn.RoleOperator}
	for _, p := range projects {
		c.Projects = append(c.Projects, authn.ProjectRole{Project: p, Role: authn.ProjectViewer})
	}
	return c
}

// open connects a client and waits until it has read the list. The function leave disconnects it.
func (b *harness) open(r *replica, c *tableClient) (leave func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	var ended sync.WaitGroup
	before := len(c.events)
	ended.Go(func() { _ = c.watch(ctx, r, 0) })
	leave = func() { cancel(); ended.Wait() }
	b.t.Cleanup(leave)
	if c.req.GetAfter() == 0 {
		c.awaitEvents(b.t, before+1)
	}
	return leave
}

func (c *tableClient) last(t *testing.T, n int) *jobsv1.WatchJobsResponse {
	t.Helper()
	events := c.awaitEvents(t, n)
	require.Len(t, events, n)
	return events[n-1]
}

// A transaction that began first commits last: its change comes later, and is not lost when the client reconnects between.
func TestServer_WatchJobs_overlappingTransactions(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	r, c := b.replica(), newTableClient(operator(), &jobsv1.WatchJobsRequest{})
	first, second := b.insert(), b.insert()
	leave := b.open(r, c)
	slow, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = slow.Exec(t.Context(), `UPDATE job SET seq = seq + 1, name = 'slow' WHERE id = $1`, first.ID)
	require.NoError(t, err)
	b.schedule(second.ID)
	require.Equal(t, second.ID, c.last(t, 2).GetJob().GetId())
	leave()
	require.NoError(t, slow.Commit(t.Context()))
	b.open(r, c)
	got := c.last(t, 3).GetJob()
	require.Equal(t, []string{first.ID, "slow"}, []string{got.GetId(), got.GetName()})
	require.Empty(t, c.faults)
}

func TestServer_WatchJobs_goneWhenJobStopsMatching(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql    string
		filter *jobsv1.WatchJobsRequest
	}{
		"other state":    {`UPDATE job SET seq = seq + 1, state = 'scheduled' WHERE id = $1`, &jobsv1.WatchJobsRequest{State: new("queued")}},
		"other name":     {`UPDATE job SET seq = seq + 1, name = 'other' WHERE id = $1`, &jobsv1.WatchJobsRequest{Q: new("n")}},
		"other label":    {`UPDATE job SET seq = seq + 1, labels = '{"a": "2"}' WHERE id = $1`, &jobsv1.WatchJobsRequest{Label: []string{"a=1"}}},
		"other project":  {`UPDATE job SET project = 'x', project_id = 'prj_2' WHERE id = $1`, &jobsv1.WatchJobsRequest{Project: new("default")}},
		"other owner":    {`UPDATE job SET owner_id = 'usr_x', owner_name = 'x' WHERE id = $1`, &jobsv1.WatchJobsRequest{Owner: new("alice")}},
		"hidden project": {`UPDATE job SET visibility = 'team' WHERE id = $1`, &jobsv1.WatchJobsRequest{}},
		"deleted":        {`DELETE FROM job WHERE id = $1`, &jobsv1.WatchJobsRequest{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t)
			r, client := b.replica(), newTableClient(operator(), c.filter)
			j, other := b.insert(), b.insert()
			b.exec(`UPDATE job SET labels = '{"a": "1"}' WHERE id = $1`, j.ID)
			b.exec(`UPDATE job SET visibility = 'team', project_id = 'prj_other', owner_id = 'usr_x' WHERE id = $1`, other.ID)
			b.open(r, client)
			b.exec(`UPDATE job SET seq = seq + 1, queue_reason = 'x' WHERE id = $1`, other.ID)
			b.exec(c.sql, j.ID)
			require.Equal(t, j.ID, client.last(t, 2).GetGone().GetId())
			b.exec(`DELETE FROM job WHERE id = $1`, other.ID)
			b.exec(`UPDATE job SET seq = seq + 1, queue_reason = 'y' WHERE id = $1`, j.ID) // a job that is gone is not gone again
			seen := b.insert()
			b.exec(`UPDATE job SET labels = '{"a": "1"}' WHERE id = $1`, seen.ID)
			client.awaitEqual(t, r.Server)
			require.False(t, client.seen[other.ID])
		})
	}
}

func TestServer_WatchJobs_resets(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	r := b.replica()
	j := b.insert()
	b.exec(`UPDATE job SET visibility = 'team' WHERE id = $1`, j.ID)
	open := func(caller *authn.Caller, req *jobsv1.WatchJobsRequest, change func(), want string) *tableClient {
		c := newTableClient(operator("prj_1"), &jobsv1.WatchJobsRequest{})
		leave := b.open(r, c)
		require.Len(t, c.rows, 1)
		leave()
		change()
		req.After, c.req, c.caller = c.req.GetAfter(), req, caller
		b.open(r, c)
		require.Equal(t, want, c.last(t, 2).GetReset_().GetReason(), "%v", c.events)
		c.awaitEqual(t, r.Server)
		return c
	}
	none := func() {}
	require.Empty(t, open(operator(), &jobsv1.WatchJobsRequest{}, none, "changed").rows, "a removed member must lose the jobs")
	editor := operator("prj_1")
	editor.Projects[0].Role = authn.ProjectEditor
	open(editor, &jobsv1.WatchJobsRequest{}, none, "changed")
	open(operator("prj_1"), &jobsv1.WatchJobsRequest{State: new("running")}, none, "changed")
	open(operator("prj_1"), &jobsv1.WatchJobsRequest{}, func() {
		b.exec(`INSERT INTO job_change (job_id) SELECT $1 FROM generate_series(1, 5001)`, j.ID)
	}, "expired")
	open(operator("prj_1"), &jobsv1.WatchJobsRequest{}, func() {
		b.exec(`UPDATE job SET seq = seq + 1 WHERE id = $1`, j.ID)
		for n := int64(1); n > 0; {
			var err error
			n, err = db.DeleteChanges(t.Context(), b.pool, clock.Real().Now().Add(time30), 1000)
			require.NoError(t, err)
		}
	}, "expired")
	open(operator("prj_1"), &jobsv1.WatchJobsRequest{}, func() {
		// The database was restored. The case before may have deleted the last change, or left it for later.
		b.exec(`UPDATE job_feed SET last = last - 1, oldest = least(oldest, last - 1) WHERE $1 <> ''`, j.ID)
	}, "expired")
}

// counter counts the reads of changes.
type counter struct{ reads atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "WITH batch AS") {
		c.reads.Add(1)
	}
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted makes the harness count the reads of changes.
func (b *harness) counted() *counter {
	b.t.Helper()
	c := &counter{}
	cfg := b.pool.Config()
	cfg.ConnConfig.Tracer = c
	pool, err := pgxpool.NewWithConfig(b.t.Context(), cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(pool.Close)
	b.pool = pool
	return c
}

func TestServer_WatchJobs_readsEachChangeOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert()
	count := b.counted()
	r := b.replica()
	clients := make([]*tableClient, 40)
	for i := range clients {
		clients[i] = newTableClient(operator(), &jobsv1.WatchJobsRequest{})
		b.open(r, clients[i])
	}
	const changes = 20
	var before int64
	for n := range changes {
		b.exec(`UPDATE job SET seq = seq + 1 WHERE id = $1`, j.ID)
		for _, c := range clients {
			c.last(t, n+2)
		}
		if n == 0 { // by now all clients have joined
			before = count.reads.Load()
		}
	}
	require.LessOrEqual(t, count.reads.Load()-before, int64(2*changes), "each change is one read, and some wake-ups find nothing new")
}

// 20,000 changes at once are read in pages, and a client that is slower gets a reset.
func TestServer_WatchJobs_manyChangesAtOnce(t *testing.T) {
	t.Parallel()
	const jobs = 20_000
	b := newHarness(t)
	like := b.insert()
	count := b.counted()
	r := b.replica()
	fast, slow := newTableClient(operator(), &jobsv1.WatchJobsRequest{State: new("running")}), newTableClient(operator(), &jobsv1.WatchJobsRequest{})
	b.open(r, fast)
	gate := make(chan struct{})
	blocked := &blockedStream{tableStream: tableStream{client: slow, server: r.Server}, gate: gate}
	var ended sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer ended.Wait()
	defer cancel()
	blocked.ctx, blocked.cancel = slow.as(ctx), cancel
	ended.Go(func() { _ = r.WatchJobs(slow.req, blocked) })
	b.exec(`UPDATE job SET seq = seq + 1 WHERE id = $1`, like.ID)
	slow.awaitEvents(t, 1)
	b.exec(`INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec, spec_digest,
			template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, queued_at, seq)
		SELECT 'job_' || lpad(i::text, 26, '0'), 'run_' || i, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec, spec_digest,
			template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, 'queued', queued_at, 1
		FROM job, generate_series(1, 20000) i WHERE id = $1`, like.ID)
	b.exec(`UPDATE job SET state = 'running' WHERE id = $1`, like.ID)
	fast.last(t, 2) // the replica has read all changes, although a client is blocked
	require.LessOrEqual(t, count.reads.Load(), int64(jobs/100+20))
	close(gate)
	slow.awaitEqual(t, r.Server)
	slow.mu.Lock()
	defer slow.mu.Unlock()
	require.Equal(t, []string{"start", "slow"}, slow.resets)
	require.Less(t, len(slow.events), jobs/2)
}

// blockedStream receives the first event, and the others when the gate is open.
type blockedStream struct {
	tableStream

	gate   chan struct{}
	opened bool
}

func (s *blockedStream) Send(m *jobsv1.WatchJobsResponse) error {
	if s.opened {
		select {
		case <-s.gate:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	s.opened = true
	return s.tableStream.Send(m)
}

func TestServer_WatchJobs_refusesTooManyStreams(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	r := b.replica()
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	headers := make(chan struct{}, 500)
	for range 500 {
		ended.Go(func() {
			_ = r.WatchJobs(&jobsv1.WatchJobsRequest{}, &idleStream{ctx: newTableClient(operator(), nil).as(ctx), headers: headers})
		})
	}
	for range 500 {
		<-headers
	}
	err := r.WatchJobs(&jobsv1.WatchJobsRequest{}, &idleStream{ctx: newTableClient(operator(), nil).as(ctx)})
	require.True(t, fault.Is(err, fault.Limited) && fault.HasCode(err, "streams"), "%v", err)
	cancel()
	ended.Wait()
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	ended.Go(func() {
		_ = r.WatchJobs(&jobsv1.WatchJobsRequest{}, &idleStream{ctx: newTableClient(operator(), nil).as(ctx), headers: headers})
	})
	<-headers
	cancel()
	ended.Wait()
}

// idleStream ignores its events.
type idleStream struct {
	tableStream

	ctx     context.Context
	headers chan struct{}
}

func (s *idleStream) Context() context.Context { return s.ctx }
func (s *idleStream) SendHeader(_ metadata.MD) error {
	s.headers <- struct{}{}
	return nil
}
func (s *idleStream) Send(_ *jobsv1.WatchJobsResponse) error { return s.ctx.Err() }

func TestServer_WatchJobs_checksFiltersLikeList(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	r, c := b.replica(), newTableClient(operator(), &jobsv1.WatchJobsRequest{State: new("bad")})
	err := c.watch(t.Context(), r, 0)
	_, listed := c.list(t.Context(), r.Server)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.Equal(t, listed, err)
	// A filter that Postgres cannot read must not disturb the other streams.
	for _, req := range []*jobsv1.WatchJobsRequest{{Q: new("a\x00")}, {Owner: new("a\x00")}, {Label: []string{"a\x00=b"}}, {Label: []string{"\x00"}}} {
		c.req = req
		err := c.watch(t.Context(), r, 0)
		_, listed := c.list(t.Context(), r.Server)
		require.True(t, fault.HasCode(pg.Classify(err), "bad_text") && fault.HasCode(pg.Classify(listed), "bad_text"), "%v, %v", err, listed)
		require.Empty(t, c.events)
	}
}
