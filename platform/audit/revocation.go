package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/process"
)

const (
	// stampEvery is the interval at which Run writes the position of the database, and the revocations that no Settle
	// call has written.
	stampEvery = time.Second
	// roundLimit limits RunOnce. While it copies, all requests that change something wait for it, and a connection to a
	// server that disappeared would otherwise never report an error.
	roundLimit = 10 * time.Second
	// page is the number of revocations that are read at once.
	page = 1000
)

// RevocationsConfig configures Revocations.
type RevocationsConfig struct {
	Service string
	Pool    *pgxpool.Pool
	Clock   clock.Clock
	Log     *slog.Logger
	Meter   metric.MeterProvider // nil disables the counter
	// Dir is the folder outside the database (SERVICE_AUDIT_DIR). Heads stores the signed heads there.
	Dir   string
	Heads HeadStore
	// Age is how long the journal is kept; 0 keeps it forever.
	Age time.Duration
}

// Revocations copies the revocations of one schema to a journal outside the database, and checks that the database
// still has its last known state or a later one. Each process has its own journal, which contains the revocations of
// all processes: those by this process before they are acknowledged, those by other processes within a second.
type Revocations struct {
	cfg     RevocationsConfig
	count   metric.Int64Counter
	journal *journal

	turn    chan struct{} // holds a value while one goroutine copies
	started atomic.Int64  // number of copies that have begun
	done    int64         // number of the last copy that succeeded; guarded by turn
	stamp   stamp         // guarded by turn
	// copied maps the numbers of journaled revocations to their transactions. It holds only transactions at or after
	// the watermark. It is guarded by turn.
	copied map[int64]int64
}

// OpenRevocations opens the journal of this process. Resume must be called before any other method except Close.
func OpenRevocations(cfg RevocationsConfig) (*Revocations, error) {
	if cfg.Meter == nil {
		cfg.Meter = noop.NewMeterProvider()
	}
	count, err := cfg.Meter.Meter("audit").Int64Counter("revocations_journaled_total",
		metric.WithDescription("revocations written to the journal outside the database"))
	if err != nil {
		return nil, fmt.Errorf("create the counter revocations_journaled_total: %w", err)
	}
	j, err := openJournal(cfg.Dir, cfg.Service, cfg.Age)
	if err != nil {
		return nil, err
	}
	return &Revocations{cfg: cfg, count: count, journal: j, turn: make(chan struct{}, 1), copied: map[int64]int64{}}, nil
}

// Close releases the journal.
func (r *Revocations) Close() error { return r.journal.close() }

// Resume compares the database with the last stamp and continues the journal. If the database was restored and
// signalbox-setup has not completed the restore, the error wraps ErrRestored.
func (r *Revocations) Resume(ctx context.Context) error {
	own, err := readStamp(r.journal.dir)
	if err != nil {
		return err
	}
	last, err := newestStamp(r.cfg.Dir, r.cfg.Service)
	if err != nil {
		return err
	}
	if last == nil {
		return r.begin(ctx)
	}
	now, err := readPosition(ctx, r.cfg.Pool, last.Revoked)
	if err != nil {
		return err
	}
	if now.restoredAfter(last) {
		err = archive(r.cfg.Dir, r.cfg.Service, *now.restoredAt)
	} else {
		err = now.follows(last)
	}
	if err != nil {
		return err
	}
	if own != nil && now.restoredAfter(own) {
		own = &stamp{Position: Position{At: own.At}, Since: own.Since} // transaction numbers from before the restore are meaningless
	}
	return r.resume(ctx, own, now)
}

// begin starts the journal of a database that has none.
func (r *Revocations) begin(ctx context.Context) error {
	now, err := readPosition(ctx, r.cfg.Pool, 0)
	if err != nil {
		return err
	}
	if err := now.begins(ctx, r.cfg.Heads); err != nil {
		return err
	}
	if now.restoredAt != nil {
		if err := archive(r.cfg.Dir, r.cfg.Service, *now.restoredAt); err != nil {
			return err
		}
	}
	return r.resume(ctx, nil, now)
}

// resume continues after the journal's own stamp, or copies all revocations of the database if own is nil.
func (r *Revocations) resume(ctx context.Context, own *stamp, now current) error {
	origin, err := originOf(r.journal.dir, true)
	if err != nil {
		return err
	}
	if own == nil || r.cfg.Age > 0 && now.At.Sub(own.At) > r.cfg.Age {
		own = &stamp{Since: now.At}
	}
	r.stamp = stamp{Position: Position{Revoked: own.Revoked}, Since: own.Since, Watermark: own.Watermark, Origin: origin}
	if err := r.Settle(ctx); err != nil {
		return err
	}
	if err := r.keep(now.Position); err != nil {
		return err
	}
	if _, err := r.cfg.Pool.Exec(ctx, `UPDATE continuity SET journaled_at = $1, backup_at = NULL WHERE journaled_at IS NULL`, now.At); err != nil {
		return fmt.Errorf("store the start of the revocation journal: %w", err)
	}
	return nil
}

// Run copies revocations and writes the position of the database every second, until ctx is done. If another database
// takes the place of this one, Run returns an error that wraps ErrRestored; the process must then be restarted.
func (r *Revocations) Run(ctx context.Context) error {
	name := r.cfg.Service + ".revocations"
	return process.Loop(ctx, r.cfg.Clock, stampEvery, 0, func(ctx context.Context) error {
		err := r.RunOnce(ctx)
		if errors.Is(err, ErrRestored) {
			return err
		}
		return process.Logged(r.cfg.Log, name, func(context.Context) error { return err })(ctx)
	})
}

// RunOnce does what Run does every second.
func (r *Revocations) RunOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	last := r.last()
	now, err := readPosition(ctx, r.cfg.Pool, last.Revoked)
	if err != nil {
		return err
	}
	if err := now.follows(&last); err != nil {
		return err
	}
	if err := r.Settle(ctx); err != nil {
		return err
	}
	return r.keep(now.Position)
}

func (r *Revocations) last() stamp {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	return r.stamp
}

// keep writes the stamp for position p. It replaces p.Revoked with the number of the last revocation in the journal.
func (r *Revocations) keep(p Position) error {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	p.Revoked = r.stamp.Revoked
	next := r.stamp
	next.Position = p
	if r.journal.from.After(next.Since) {
		next.Since = r.journal.from
	}
	if err := localfile.WriteJSON(filepath.Join(r.journal.dir, stampFile), next, localfile.PrivateMode); err != nil {
		return fmt.Errorf("write the position of the database to SERVICE_AUDIT_DIR: %w", err)
	}
	r.stamp = next
	return nil
}

// Settle returns when every revocation that was committed before the call is in the journal. Concurrent calls share one
// write. If Settle returns an error, the revocations are in force but may be missing in the journal.
func (r *Revocations) Settle(ctx context.Context) error {
	arrived := r.started.Load()
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return fault.FromContext(ctx.Err())
	}
	defer func() { <-r.turn }()
	if r.done > arrived {
		return nil // another call has meanwhile copied everything
	}
	number := r.started.Add(1)
	if err := r.copyNew(ctx); err != nil {
		return err
	}
	r.done = number
	return nil
}

// row is a revocation with its transaction.
type row struct {
	Revocation

	tx int64
}

// copyNew copies the revocations that are not in the journal. Transactions do not commit in the order of their numbers,
// so copyNew starts at the oldest transaction that was still open at the last call, the watermark. After a crash, Postgres
// may use the numbers of transactions again that had written nothing to disk, so copyNew also reads the revocations of
// earlier transactions whose own number is above all in the journal.
func (r *Revocations) copyNew(ctx context.Context) error {
	from := cursor{watermark: r.stamp.Watermark, tx: r.stamp.Watermark, reused: r.stamp.Revoked}
	if from.watermark == 0 {
		from.reused = math.MaxInt64 // no row is below the watermark
	}
	var next int64
	for first, more := true, true; more; first = false {
		open, rows, err := r.read(ctx, from)
		if err != nil {
			return err
		}
		if first {
			next = open
		}
		if err := r.write(ctx, rows); err != nil {
			return err
		}
		more = from.advance(rows)
	}
	r.stamp.Watermark = next
	for seq, tx := range r.copied {
		if tx < next {
			delete(r.copied, seq)
		}
	}
	return nil
}

// cursor is the state of copyNew between two pages.
type cursor struct {
	watermark int64
	// tx and seq are those of the last row at or above the watermark that was read.
	tx, seq int64
	// reused is the highest number that was read of a row below the watermark. After the last of these rows it is
	// math.MaxInt64.
	reused int64
}

// advance moves the cursor behind the rows. It reports whether there may be more.
func (c *cursor) advance(rows []row) bool {
	above, below := 0, 0
	for _, one := range rows {
		if one.tx < c.watermark {
			below++
			c.reused = max(c.reused, one.Seq)
		} else {
			above++
			c.tx, c.seq = one.tx, one.Seq
		}
	}
	if below < page {
		c.reused = math.MaxInt64
	}
	return above == page || below == page
}

// read returns a page of the rows at or above the watermark and a page of those below it, and the oldest transaction
// that is still open.
func (r *Revocations) read(ctx context.Context, from cursor) (open int64, rows []row, err error) {
	found, err := r.cfg.Pool.Query(ctx, `SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, coalesce(r.made_in::text::bigint, 0),
			coalesce(r.seq, 0), coalesce(r.kind, ''), coalesce(r.subject, ''), coalesce(r.at, 'epoch')
		FROM (VALUES (1)) AS one LEFT JOIN (
			(SELECT * FROM revocation WHERE (made_in, seq) > ($1::bigint::text::xid8, $2) ORDER BY made_in, seq LIMIT $3)
			UNION ALL (SELECT * FROM revocation WHERE seq > $4 AND made_in < $5::bigint::text::xid8 ORDER BY seq LIMIT $3)
		) r ON true ORDER BY r.made_in, r.seq`, from.tx, from.seq, page, from.reused, from.watermark)
	if err != nil {
		return 0, nil, fmt.Errorf("read the revocations: %w", err)
	}
	var one row
	_, err = pgx.ForEachRow(found, []any{&open, &one.tx, &one.Seq, &one.Kind, &one.Subject, &one.At}, func() error {
		if one.Seq > 0 {
			rows = append(rows, one)
		}
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read the revocations: %w", err)
	}
	return open, rows, nil
}

// errJournal is the error of a call whose revocation is in force but could be lost by a restore.
func errJournal(err error) error {
	return fault.New(fault.Unavailable, "revocation_journal",
		"the change is stored, but the revocation could not be written to SERVICE_AUDIT_DIR; repeat the request when the folder is writable").Wrap(err)
}

// write appends the rows that the journal does not contain yet.
func (r *Revocations) write(ctx context.Context, rows []row) error {
	var fresh []Revocation
	for _, one := range rows {
		if _, ok := r.copied[one.Seq]; !ok {
			fresh = append(fresh, one.Revocation)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := r.journal.add(r.cfg.Clock.Now(), fresh); err != nil {
		return errJournal(err)
	}
	for _, one := range rows {
		r.copied[one.Seq] = one.tx
		r.stamp.Revoked = max(r.stamp.Revoked, one.Seq)
	}
	r.count.Add(ctx, int64(len(fresh)))
	return nil
}

// DeleteRevocationsBefore deletes revocations from before the given time, up to the given limit, and returns how many
// it deleted. It keeps the newest revocation: it shows that earlier ones, whose number a stamp may contain, existed.
func DeleteRevocationsBefore(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	tag, err := q.Exec(ctx, `DELETE FROM revocation WHERE seq IN (SELECT seq FROM revocation WHERE at < $1
		AND seq < (SELECT max(seq) FROM revocation) ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete old revocations: %w", err)
	}
	return tag.RowsAffected(), nil
}
