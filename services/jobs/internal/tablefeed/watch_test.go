package tablefeed_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/tablefeed"
)

// A transaction that began first commits last: its change comes later, and is not lost when the client reconnects between.
func TestTables_Watch_overlappingTransactions(t *testing.T) {
	t.Parallel()
	each(t, func(b *harness) {
		t := b.t
		r, c := b.replica(), newClient(b.table, operator(), query{})
		first, second := b.insert(), b.insert()
		leave := b.open(r, c)
		slow, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = slow.Exec(t.Context(), b.sql(`UPDATE TABLE SET TOUCH, name = 'slow' WHERE id = $1`), first)
		require.NoError(t, err)
		b.set(`TOUCH`, second)
		require.Equal(t, second, c.last(t, 2).row.GetId())
		leave()
		require.NoError(t, slow.Commit(t.Context()))
		b.open(r, c)
		got := c.last(t, 3).row
		require.Equal(t, []string{first, "slow"}, []string{got.GetId(), got.GetName()})
		require.Empty(t, c.faults)
	})
}

// change makes a row leave the list of a query.
type change struct {
	of     tablefeed.Feed // empty for both tables
	sql    string
	filter query
}

func leaving() map[string]change {
	const jobs, runs = tablefeed.Jobs, tablefeed.Runs
	return map[string]change{
		"other state":    {"", `UPDATE TABLE SET TOUCH, state = 'scheduled' WHERE id = $1`, query{state: new("queued")}},
		"other name":     {"", `UPDATE TABLE SET TOUCH, name = 'other' WHERE id = $1`, query{q: new("n")}},
		"other label":    {"", `UPDATE TABLE SET TOUCH, labels = '{"a": "2"}' WHERE id = $1`, query{label: []string{"a=1"}}},
		"other project":  {"", `UPDATE TABLE SET project = 'x', project_id = 'prj_2' WHERE id = $1`, query{project: new("default")}},
		"other owner":    {"", `UPDATE TABLE SET owner_id = 'usr_x', owner_name = 'x' WHERE id = $1`, query{owner: new("alice")}},
		"hidden project": {"", `UPDATE TABLE SET visibility = 'team' WHERE id = $1`, query{}},
		"deleted":        {"", `DELETE FROM TABLE WHERE id = $1`, query{}},
		"label of job":   {runs, `UPDATE job SET seq = seq + 1, labels = '{"a": "2"}' WHERE run_id = $1`, query{label: []string{"a=1"}}},
		"other tag":      {runs, `UPDATE TABLE SET TOUCH, tags = '{b}' WHERE id = $1`, query{tag: []string{"A"}}},
		"archived":       {runs, `UPDATE TABLE SET TOUCH, archived_at = now() WHERE id = $1`, query{}},
		"protected":      {runs, `UPDATE TABLE SET protected = true WHERE id = $1`, query{protected: new(false)}},
		"running again":  {runs, `UPDATE TABLE SET ended_at = NULL WHERE id = $1`, query{state: new("finished")}},
	}
}

func TestTables_Watch_goneWhenRowLeavesList(t *testing.T) {
	t.Parallel()
	for name, c := range leaving() {
		for _, of := range []table{jobsTable(), runsTable()} {
			if c.of != "" && c.of != of.feed {
				continue
			}
			t.Run(name+" of "+string(of.feed), func(t *testing.T) {
				t.Parallel()
				goneWhenRowLeavesList(newHarness(t, of), c)
			})
		}
	}
}

func goneWhenRowLeavesList(b *harness, c change) {
	t := b.t
	r, client := b.replica(), newClient(b.table, operator(), c.filter)
	id, other := b.insert(), b.insert()
	matches := `labels = '{"a": "1"}'`
	if b.feed == tablefeed.Runs {
		matches += `, tags = '{a}', ended_at = now()`
	}
	b.set(matches, id)
	b.set(`visibility = 'team', project_id = 'prj_other', owner_id = 'usr_x'`, other)
	b.open(r, client)
	b.set(`TOUCH, state = 'starting'`, other)
	b.exec(b.sql(c.sql), id)
	require.Equal(t, id, client.last(t, 2).gone)
	b.exec(b.sql(`DELETE FROM TABLE WHERE id = $1`), other)
	b.set(`TOUCH, state = 'pausing'`, id) // a row that is gone is not gone again
	seen := b.insert()
	b.set(matches, seen)
	client.awaitEqual(t, r)
	require.False(t, client.seen[other])
}

// The labels of a run whose labels were not copied yet are those of its job.
func TestTables_Watch_labelsNotCopied(t *testing.T) {
	t.Parallel()
	b := newHarness(t, runsTable())
	r, j, other := b.replica(), b.insertJob(), b.insertJob()
	c := newClient(b.table, operator(), query{label: []string{"a=1"}})
	b.exec(`UPDATE job SET labels = '{"a": "1"}' WHERE id = $1`, j.ID)
	b.exec(`UPDATE job SET labels = '{"a": "1"}' WHERE id = $1`, other.ID)
	b.set(`labels = NULL`, j.RunID, other.RunID)
	b.open(r, c)
	require.Len(t, c.rows, 2)
	b.exec(`UPDATE job SET labels = '{"a": "2"}' WHERE id = $1`, j.ID)
	require.Equal(t, j.RunID, c.last(t, 2).gone)
	require.NoError(t, db.CopyRunLabels(t.Context(), b.pool))
	b.set(`TOUCH`, other.RunID)
	c.awaitEvents(t, 3)
	c.awaitEqual(t, r)
}

// A stream compares times as the list does, although Postgres gets them in another form.
func TestTables_Watch_timesLikeList(t *testing.T) {
	t.Parallel()
	each(t, func(b *harness) {
		t, r, at := b.t, b.replica(), copied()
		id, older := b.insert(), b.insert()
		b.exec(b.sql(`UPDATE TABLE SET created_at = $2 WHERE id = $1`), id, at)
		b.exec(b.sql(`UPDATE TABLE SET created_at = $2 WHERE id = $1`), older, at.Add(-time.Microsecond))
		limit := timestamppb.New(at.Add(600 * time.Nanosecond)) // Postgres would round it up
		from, to := newClient(b.table, operator(), query{createdAfter: limit}), newClient(b.table, operator(), query{createdBefore: limit})
		b.open(r, from)
		b.open(r, to)
		b.set(`TOUCH`, id)
		b.set(`TOUCH`, older)
		require.Equal(t, id, from.last(t, 2).row.GetId())
		require.Equal(t, older, to.last(t, 2).row.GetId())
		from.awaitEqual(t, r)
		to.awaitEqual(t, r)
	})
}

func TestTables_Watch_resets(t *testing.T) {
	t.Parallel()
	each(t, resets)
}

func resets(b *harness) {
	t, r, id := b.t, b.replica(), b.insert()
	b.set(`visibility = 'team'`, id)
	open := func(caller *authn.Caller, q query, change func(), want string) *client {
		c := newClient(b.table, operator("prj_1"), query{})
		leave := b.open(r, c)
		require.Len(t, c.rows, 1)
		leave()
		change()
		c.query, c.caller = q, caller
		b.open(r, c)
		require.Equal(t, want, c.last(t, 2).reset, "%v", c.events)
		c.awaitEqual(t, r)
		return c
	}
	none := func() {}
	require.Empty(t, open(operator(), query{}, none, "changed").rows, "a removed member must lose the rows")
	editor := operator("prj_1")
	editor.Projects[0].Role = authn.ProjectEditor
	open(editor, query{}, none, "changed")
	open(operator("prj_1"), query{state: new("running")}, none, "changed")
	if b.feed == tablefeed.Runs {
		open(operator("prj_1"), query{tag: []string{"x"}}, none, "changed")
		open(operator("prj_1"), query{state: new("finished")}, none, "changed")
		open(operator("prj_1"), query{archived: new("all")}, none, "changed")
	}
	open(operator("prj_1"), query{}, func() {
		b.exec(b.sql(`INSERT INTO TABLE_change (TABLE_id) SELECT $1 FROM generate_series(1, 5001)`), id)
	}, "expired")
	open(operator("prj_1"), query{}, func() {
		b.set(`TOUCH`, id)
		for n := int64(1); n > 0; {
			var err error
			n, err = b.feed.Delete(t.Context(), b.pool, clock.Real().Now().Add(time30), 1000)
			require.NoError(t, err)
		}
	}, "expired")
	open(operator("prj_1"), query{}, func() {
		// The database was restored. The case before may have deleted the last change, or left it for later.
		b.exec(b.sql(`UPDATE TABLE_feed SET last = last - 1, oldest = least(oldest, last - 1) WHERE $1 <> ''`), id)
	}, "expired")
}

func TestTables_Watch_readsEachChangeOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t, jobsTable())
	id := b.insert()
	count := b.counted()
	r := b.replica()
	clients := make([]*client, 40)
	for i := range clients {
		clients[i] = newClient(b.table, operator(), query{})
		b.open(r, clients[i])
	}
	rounds := 0
	round := func() (reads int64) {
		before := count.reads.Load()
		b.set(`TOUCH`, id)
		rounds++
		for _, c := range clients {
			c.last(t, rounds+1)
		}
		return count.reads.Load() - before
	}
	// Each change is one read, and a wake-up may find nothing new.
	const most, changes = 2, 20
	for round() > most { // A stream reads by itself until it has joined the others.
		require.Less(t, rounds, changes, "the streams do not join")
	}
	var reads int64
	for range changes {
		reads += round()
	}
	require.LessOrEqual(t, reads, int64(most*changes))
}

// 20,000 changes at once are read in pages, and a client that is slower gets a reset.
func TestTables_Watch_manyChangesAtOnce(t *testing.T) {
	t.Parallel()
	const jobs = 20_000
	b := newHarness(t, jobsTable())
	like := b.insert()
	count := b.counted()
	r := b.replica()
	fast, slow := newClient(b.table, operator(), query{state: new("running")}), newClient(b.table, operator(), query{})
	b.open(r, fast)
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer cancel()
	blocked := &connection{ctx: slow.as(ctx), cancel: cancel, client: slow, replica: r, gate: make(chan struct{})}
	ended.Go(func() { _ = b.watch(slow.as(ctx), r, slow.query, 0, blocked) })
	b.set(`TOUCH`, like)
	slow.awaitEvents(t, 1)
	b.exec(`INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec, spec_digest,
			template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, queued_at, seq)
		SELECT 'job_' || lpad(i::text, 26, '0'), 'run_' || i, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec, spec_digest,
			template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, 'queued', queued_at, 1
		FROM job, generate_series(1, 20000) i WHERE id = $1`, like)
	b.set(`state = 'running'`, like)
	fast.last(t, 2) // the replica has read all changes, although a client is blocked
	require.LessOrEqual(t, count.reads.Load(), int64(jobs/100+20))
	close(blocked.gate)
	slow.awaitEqual(t, r)
	slow.mu.Lock()
	defer slow.mu.Unlock()
	require.Equal(t, []string{"start", "slow"}, slow.resets)
	require.Less(t, len(slow.events), jobs/2)
}

func TestTables_Watch_refusesTooManyStreams(t *testing.T) {
	t.Parallel()
	each(t, func(b *harness) {
		t, r := b.t, b.replica()
		open := func(ctx context.Context, to receiver) error {
			return b.watch(newClient(b.table, operator(), query{}).as(ctx), r, query{}, 0, to)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		headers := make(chan struct{}, 500)
		for range 500 {
			ended.Go(func() { _ = open(ctx, idle{ctx, headers}) })
		}
		for range 500 {
			<-headers
		}
		err := open(ctx, idle{ctx, headers})
		require.True(t, fault.Is(err, fault.Limited) && fault.HasCode(err, "streams"), "%v", err)
		require.ErrorContains(t, err, "too many tables of "+string(b.feed)+"s are open")
		cancel()
		ended.Wait()
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		ended.Go(func() { _ = open(ctx, idle{ctx, headers}) })
		<-headers
		cancel()
		ended.Wait()
	})
}

// idle ignores its events.
type idle struct {
	ctx     context.Context
	headers chan struct{}
}

func (s idle) accepted() error {
	s.headers <- struct{}{}
	return nil
}
func (s idle) receive(tableEvent) error { return s.ctx.Err() }

func TestTables_Watch_checksFiltersLikeList(t *testing.T) {
	t.Parallel()
	each(t, func(b *harness) {
		t := b.t
		r, c := b.replica(), newClient(b.table, operator(), b.invalid)
		err := c.watch(t.Context(), r, 0)
		_, listed := c.list(t.Context(), r)
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
		require.Equal(t, listed, err)
		// A filter that Postgres cannot read must not disturb the other streams.
		queries := []query{{q: new("a\x00")}, {owner: new("a\x00")}, {label: []string{"a\x00=b"}}, {label: []string{"\x00"}}}
		if b.feed == tablefeed.Runs {
			queries = append(queries, query{recipe: new("a/\x00")})
		}
		for _, q := range queries {
			c.query = q
			err := c.watch(t.Context(), r, 0)
			_, listed := c.list(t.Context(), r)
			require.True(t, fault.HasCode(pg.Classify(err), "bad_text") && fault.HasCode(pg.Classify(listed), "bad_text"), "%v, %v", err, listed)
			require.Empty(t, c.events)
		}
	})
}
