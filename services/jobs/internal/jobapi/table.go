package jobapi

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// The bounds of the streams of tables.
const (
	// maxTables is how many streams a replica serves at once.
	maxTables = 500
	// tableBatch is how many changes one query reads.
	tableBatch = 100
	// tableQueue is how many batches may wait for a slow client before its stream is reset.
	tableQueue = 16
	// maxBehind is how many changes a client may be behind. Reading the list costs less than more changes than that.
	maxBehind = 5000
	// readWithin limits the time of one read.
	readWithin = 30 * time.Second
)

// Tables passes the changes of jobs to the streams of this replica. Each change is read once, for all streams that have
// received the changes before it. Run owns all fields that change.
type Tables struct {
	pool  *pgxpool.Pool
	hub   *pg.NotifyHub
	clock clock.Clock
	log   *slog.Logger
	count *tableMetrics

	open  atomic.Int64
	joins chan *table
	// tables are the streams that have received all changes up to the position at.
	tables []*table
	at     int64
}

// table is one stream at the newest position.
type table struct {
	ctx      context.Context // of the stream
	interest job.Interest
	at       int64
	admitted chan bool        // whether the table has joined; false if it must read further changes by itself before
	batches  chan tableEvents // closed if the client is too slow
}

// tableEvents are changes for one table: the table's index in Shown and Gone is k.
type tableEvents struct {
	changes []job.Change
	k       int32
}

// NewTables returns Tables without streams; meters may be nil.
func NewTables(
	pool *pgxpool.Pool, hub *pg.NotifyHub, clk clock.Clock, log *slog.Logger, meters metric.MeterProvider,
) (*Tables, error) {
	t := &Tables{pool: pool, hub: hub, clock: clk, log: log, joins: make(chan *table)}
	var err error
	t.count, err = newTableMetrics(meters, t.open.Load)
	return t, err
}

// Run passes changes on until ctx is done. A lost wake-up delays a change by at most lookAgain.
func (t *Tables) Run(ctx context.Context) error {
	changed := t.hub.Wait(db.JobsTopic)
	defer changed.Close()
	again := t.clock.NewTicker(lookAgain)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed.C:
		case <-again.C():
		case joining := <-t.joins:
			t.admit(joining)
		}
		if err := t.pass(ctx); err != nil && ctx.Err() == nil {
			t.log.ErrorContext(ctx, "reading the changes of jobs for streams failed; it is tried again", "error", err.Error())
		}
	}
}

// admit adds a table, unless it lacks changes that the others have already received.
func (t *Tables) admit(joining *table) {
	if t.leave(); len(t.tables) == 0 {
		t.at = joining.at
	}
	if joining.at < t.at {
		joining.admitted <- false
		return
	}
	t.tables = append(t.tables, joining)
	joining.admitted <- true
}

// leave removes the tables whose streams have ended.
func (t *Tables) leave() {
	t.tables = slices.DeleteFunc(t.tables, func(x *table) bool { return x.ctx.Err() != nil })
}

// pass reads all new changes and passes them to the tables.
func (t *Tables) pass(ctx context.Context) error {
	for more := true; more; {
		if t.leave(); len(t.tables) == 0 {
			return nil
		}
		var err error
		if more, err = t.batch(ctx); err != nil {
			return err
		}
		select {
		case joining := <-t.joins:
			t.admit(joining)
			more = true
		default:
		}
	}
	return nil
}

// batch passes one page of changes on. The result more reports whether further changes may follow.
func (t *Tables) batch(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if _, err := db.NumberChanges(ctx, t.pool); err != nil {
		return false, err
	}
	interests := make([]job.Interest, len(t.tables))
	for k, x := range t.tables {
		interests[k] = x.interest
	}
	page, err := job.Changes(ctx, t.pool, t.at, interests, tableBatch)
	if err != nil {
		return false, err
	}
	if page.Oldest > t.at || page.Last < t.at { // changes were deleted unread, or the database was restored
		for _, x := range t.tables {
			close(x.batches)
		}
		t.tables = nil
		return false, nil
	}
	t.at = page.End
	t.deliver(page.Changes)
	return len(page.Changes) == tableBatch, nil
}

// deliver puts the changes into the queue of each table that they concern. It removes the tables whose queues are full.
func (t *Tables) deliver(changes []job.Change) {
	kept := t.tables[:0:0]
	for k, x := range t.tables {
		mine := concerning(changes, int32(k), x.at)
		if len(mine) > 0 {
			select {
			case x.batches <- tableEvents{changes: mine, k: int32(k)}:
			default:
				close(x.batches)
				continue
			}
		}
		kept = append(kept, x)
	}
	t.tables = kept
}

// concerning returns the changes after a position that have an event for the interest k.
func concerning(changes []job.Change, k int32, after int64) []job.Change {
	var mine []job.Change
	for _, c := range changes {
		if c.Seq > after && (slices.Contains(c.Shown, k) || slices.Contains(c.Gone, k)) {
			mine = append(mine, c)
		}
	}
	return mine
}

// take counts a stream. It fails if the replica serves maxTables streams. The caller must call release at the end.
func (t *Tables) take() (release func(), err error) {
	if t.open.Add(1) > maxTables {
		t.open.Add(-1)
		return nil, fault.New(fault.Limited, "streams", "too many tables of jobs are open on this server; close one, or try again later")
	}
	return func() { t.open.Add(-1) }, nil
}

// join adds a table that has received all changes up to its position. The result ok is false if there are changes after it
// that the table must read first.
func (t *Tables) join(ctx context.Context, x *table) (ok bool, err error) {
	select {
	case t.joins <- x:
		return <-x.admitted, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// check returns an error if the filters cannot be evaluated, and numbers all changes that are committed.
func (t *Tables) check(ctx context.Context, in job.Interest) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if err := job.CheckInterest(ctx, t.pool, in); err != nil {
		return err
	}
	_, err := db.NumberChanges(ctx, t.pool)
	return err
}

// newest returns the newest position, after it has numbered all changes that are committed.
func (t *Tables) newest(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	return db.NumberChanges(ctx, t.pool)
}

// read returns the changes after a position for one stream that has not joined yet.
func (t *Tables) read(ctx context.Context, after int64, in job.Interest) (job.ChangePage, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	return job.Changes(ctx, t.pool, after, []job.Interest{in}, tableBatch)
}

// tableMetrics counts what the streams send.
type tableMetrics struct {
	events, resets metric.Int64Counter
}

func newTableMetrics(meters metric.MeterProvider, open func() int64) (*tableMetrics, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	m, c := meters.Meter("jobs"), &tableMetrics{}
	var err error
	if c.events, err = m.Int64Counter("jobs_table_events_total", metric.WithDescription("events sent to streams of tables of jobs, by event")); err != nil {
		return nil, fmt.Errorf("create the counter jobs_table_events_total: %w", err)
	}
	if c.resets, err = m.Int64Counter("jobs_table_resets_total", metric.WithDescription("resets of streams of tables of jobs, by reason")); err != nil {
		return nil, fmt.Errorf("create the counter jobs_table_resets_total: %w", err)
	}
	_, err = m.Int64ObservableGauge("jobs_table_streams", metric.WithDescription("open streams of tables of jobs"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error { o.Observe(open()); return nil }))
	if err != nil {
		return nil, fmt.Errorf("create the gauge jobs_table_streams: %w", err)
	}
	return c, nil
}

func (m *tableMetrics) event(ctx context.Context, name string) {
	m.events.Add(ctx, 1, metric.WithAttributes(attribute.String("event", name)))
}

func (m *tableMetrics) reset(ctx context.Context, reason string) {
	m.resets.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
}
