package tablefeed_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobapi"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/tablefeed"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

const (
	time30 = 30 * time.Second
	tick   = 5 * time.Millisecond
)

// harness has a database, and the table under test.
type harness struct {
	table

	t    *testing.T
	db   *pgtest.DB
	pool *pgxpool.Pool
	clk  *clock.Fake
	ids  *id.Source
	jobs *job.Store
}

func newHarness(t *testing.T, of table) *harness {
	t.Helper()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	b := &harness{table: of, t: t, db: pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}), clk: clk}
	b.pool, b.ids = b.db.Pool("jobs"), id.NewSource(clk, rand.Reader)
	b.jobs = &job.Store{Events: event.NewLog(clk, b.ids, "jobs")}
	return b
}

// each runs a test with each of the tables.
func each(t *testing.T, test func(b *harness)) {
	t.Helper()
	for _, of := range []table{jobsTable(), runsTable()} {
		t.Run(string(of.feed), func(t *testing.T) {
			t.Parallel()
			test(newHarness(t, of))
		})
	}
}

func (b *harness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

// insertJob stores a job of alice, with its run, in a project that everyone may see.
func (b *harness) insertJob() *job.Job {
	b.t.Helper()
	j := &job.Job{
		ID: b.ids.New(id.Job), RunID: b.ids.New(id.Run), Name: "n", OwnerID: "usr_alice", OwnerName: "alice", ProjectID: "prj_1",
		Project: "default", Visibility: "all", Labels: map[string]string{}, Priority: 50, Spec: []byte(`{"name":"n"}`),
		SpecDigest: "sha256:1", Template: []byte{1}, Pools: []job.Pool{{Pool: "cpu", Role: "trainer", Nodes: 1}},
		RunningS: 100, StartingS: 10, QueueS: 1000, CreatedAt: b.clk.Now(),
		Status: job.Status{State: job.Queued, Queue: job.Queue{Reason: job.WaitNew, Since: b.clk.Now()}},
	}
	facts := job.RunFacts{RecipeLock: []byte(`{}`), Bindings: []byte(`{}`), RecipeDigest: "sha256:2"}
	err := pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error { return b.jobs.Insert(ctx, tx, j, facts, job.Cause{}) })
	require.NoError(b.t, err)
	return j
}

// insert stores a row like that of insertJob, and returns its id.
func (b *harness) insert() string {
	b.t.Helper()
	return b.idOf(b.insertJob())
}

// sql replaces TABLE by the name of the table, and TOUCH by an assignment that counts as a change.
func (b *harness) sql(text string) string {
	return strings.NewReplacer("TABLE", string(b.feed), "TOUCH", b.touch).Replace(text)
}

// set changes rows.
func (b *harness) set(assignments string, ids ...string) {
	b.t.Helper()
	b.exec(b.sql(`UPDATE TABLE SET `+assignments+` WHERE id = ANY($1)`), ids)
}

// positions returns the positions of all numbered changes, and the newest position.
func (b *harness) positions() (seqs []int64, last int64) {
	b.t.Helper()
	last, err := b.feed.Number(b.t.Context(), b.pool)
	require.NoError(b.t, err)
	page := b.changes(0, 1000)
	for _, c := range page.Changes {
		seqs = append(seqs, c.Seq)
	}
	require.Equal(b.t, last, page.End)
	return seqs, last
}

// replica is one instance of the servers with its own wake-ups.
type replica struct {
	jobs *jobapi.Server
	runs *run.Server
	ctx  context.Context
	stop func()
}

// replica starts servers on the database of the harness. Its method stop ends their streams and waits for their loops.
func (b *harness) replica() *replica {
	b.t.Helper()
	hub, log := pg.NewNotifyHub(), slog.New(slog.DiscardHandler)
	jobs, err := tablefeed.New(job.Feed(), b.pool, hub, b.clk, log, nil)
	require.NoError(b.t, err)
	runs, err := tablefeed.New(run.Feed(), b.pool, hub, b.clk, log, nil)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(b.t.Context())
	r := &replica{
		jobs: &jobapi.Server{Pool: b.pool, Jobs: b.jobs, Hub: hub, Clock: b.clk, Tables: jobs},
		runs: &run.Server{Pool: b.pool, Clock: b.clk, Tables: runs}, ctx: ctx,
	}
	var loops sync.WaitGroup
	loops.Go(func() { _ = jobs.Run(ctx) })
	loops.Go(func() { _ = runs.Run(ctx) })
	loops.Go(func() { _ = hub.Listen(ctx, b.pool) })
	r.stop = func() { cancel(); loops.Wait() }
	b.t.Cleanup(r.stop)
	return r
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
