package tablefeed

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// The bounds of the streams of one table.
const (
	// maxStreams is how many streams a replica serves at once.
	maxStreams = 500
	// batchSize is how many changes one query reads.
	batchSize = 100
	// queueSize is how many batches may wait for a slow client before its stream is reset.
	queueSize = 16
	// maxBehind is how many changes a client may be behind. Reading the list costs less than more changes than that.
	maxBehind = 5000
	// readWithin limits the time of one read.
	readWithin = 30 * time.Second
	// lookAgain is the interval at which changes are read, in case a wake-up was lost.
	lookAgain = 5 * time.Second
)

// Tables passes the changes of a Source to the streams of this replica. Each change is read once, for all streams that
// have received the changes before it. Run owns all fields that change.
type Tables[R any] struct {
	source Source[R]
	pool   *pgxpool.Pool
	hub    *pg.NotifyHub
	clock  clock.Clock
	log    *slog.Logger
	count  *meters

	open  atomic.Int64
	joins chan *table[R]
	// tables are the streams that have received all changes up to the position at.
	tables []*table[R]
	at     int64
}

// table is one stream at the newest position.
type table[R any] struct {
	ctx      context.Context // of the stream
	interest Interest
	at       int64
	admitted chan bool      // whether the table has joined; false if it must read further changes by itself before
	batches  chan events[R] // closed if the client is too slow
}

// events are changes for one table: the table's index in Shown and Gone is k.
type events[R any] struct {
	changes []Change[R]
	k       int32
}

// New returns Tables without streams; provider may be nil.
func New[R any](
	source Source[R], pool *pgxpool.Pool, hub *pg.NotifyHub, clk clock.Clock, log *slog.Logger, provider metric.MeterProvider,
) (*Tables[R], error) {
	t := &Tables[R]{source: source, pool: pool, hub: hub, clock: clk, log: log, joins: make(chan *table[R])}
	var err error
	t.count, err = newMeters(provider, source.Plural, t.open.Load)
	return t, err
}

// Run passes changes on until ctx is done. A lost wake-up delays a change by at most lookAgain.
func (t *Tables[R]) Run(ctx context.Context) error {
	changed := t.hub.Wait(t.source.Topic)
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
			t.log.ErrorContext(ctx, "reading changes for streams failed; it is tried again", "table", t.source.Plural, "error", err.Error())
		}
	}
}

// admit adds a table, unless it lacks changes that the others have already received.
func (t *Tables[R]) admit(joining *table[R]) {
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
func (t *Tables[R]) leave() {
	t.tables = slices.DeleteFunc(t.tables, func(x *table[R]) bool { return x.ctx.Err() != nil })
}

// pass reads all new changes and passes them to the tables.
func (t *Tables[R]) pass(ctx context.Context) error {
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
func (t *Tables[R]) batch(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if _, err := t.source.Feed.Number(ctx, t.pool); err != nil {
		return false, err
	}
	interests := make([]Interest, len(t.tables))
	for k, x := range t.tables {
		interests[k] = x.interest
	}
	page, err := t.source.Changes(ctx, t.pool, t.at, interests, batchSize)
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
	return len(page.Changes) == batchSize, nil
}

// deliver puts the changes into the queue of each table that they concern. It removes the tables whose queues are full.
func (t *Tables[R]) deliver(changes []Change[R]) {
	kept := t.tables[:0:0]
	for k, x := range t.tables {
		mine := concerning(changes, int32(k), x.at)
		if len(mine) > 0 {
			select {
			case x.batches <- events[R]{changes: mine, k: int32(k)}:
			default:
				close(x.batches)
				continue
			}
		}
		kept = append(kept, x)
	}
	t.tables = kept
}

// take counts a stream. It fails if the replica serves maxStreams streams. The caller must call release at the end.
func (t *Tables[R]) take() (release func(), err error) {
	if t.open.Add(1) > maxStreams {
		t.open.Add(-1)
		return nil, fault.New(fault.Limited, "streams", "too many tables of %s are open on this server; close one, or try again later", t.source.Plural)
	}
	return func() { t.open.Add(-1) }, nil
}

// join adds a table that has received all changes up to its position. The result ok is false if there are changes after it
// that the table must read first.
func (t *Tables[R]) join(ctx context.Context, x *table[R]) (ok bool, err error) {
	select {
	case t.joins <- x:
		return <-x.admitted, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// check returns an error if the filters cannot be evaluated, and numbers all changes that are committed.
func (t *Tables[R]) check(ctx context.Context, in Interest) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if err := t.source.Check(ctx, t.pool, in); err != nil {
		return err
	}
	_, err := t.source.Feed.Number(ctx, t.pool)
	return err
}

// newest returns the newest position, after it has numbered all changes that are committed.
func (t *Tables[R]) newest(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	return t.source.Feed.Number(ctx, t.pool)
}

// read returns the changes after a position for one stream that has not joined yet.
func (t *Tables[R]) read(ctx context.Context, after int64, in Interest) (Page[R], error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	return t.source.Changes(ctx, t.pool, after, []Interest{in}, batchSize)
}
