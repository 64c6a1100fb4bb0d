package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Querier is the common interface of a pool, a connection and a transaction.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Beginner can start transactions. *pgxpool.Pool implements it.
type Beginner interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// retries is how often InTx runs fn again if it conflicts with another transaction.
const retries = 3

// InTx runs fn in one transaction at READ COMMITTED. It commits if fn returns nil and rolls back otherwise. After a
// conflict with another transaction (serialization failure, deadlock) it runs fn again. fn must therefore change
// nothing but rows: it must not call RPCs or the object store.
func InTx(ctx context.Context, db Beginner, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return InTxWith(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
}

// InTxWith is like InTx with the given transaction options.
func InTxWith(ctx context.Context, db Beginner, opts pgx.TxOptions, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return retry(ctx, func() error { return once(ctx, db, opts, fn) })
}

// InBatches is like InTx, but sends BEGIN and COMMIT together with other statements, which saves two round trips to the
// server. The batch that begins the transaction has the statements that first queues. After their results were read, fn
// runs. The batch that commits the transaction begins with the statements that fn queues in last.
func InBatches(ctx context.Context, pool *pgxpool.Pool, first func(batch *pgx.Batch), fn func(ctx context.Context, tx pgx.Tx, last *pgx.Batch) error) error {
	return retry(ctx, func() error { return onceInBatches(ctx, pool, first, fn) })
}

// retry calls run again if it conflicts with another transaction.
func retry(ctx context.Context, run func() error) error {
	for try := 0; ; try++ {
		err := run()
		if err == nil || try == retries || !IsRetryable(err) {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return fmt.Errorf("wait to run the transaction again: %w", err)
		}
	}
}

func once(ctx context.Context, db Beginner, opts pgx.TxOptions, fn func(ctx context.Context, tx pgx.Tx) error) (err error) {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin the transaction: %w", err)
	}
	// Roll back even after a panic in fn and even if ctx is done. After a commit, Rollback does nothing.
	defer func() {
		if rerr := rollBack(ctx, tx); rerr != nil && !errors.Is(rerr, pgx.ErrTxClosed) && err == nil {
			err = fmt.Errorf("roll back the transaction: %w", rerr)
		}
	}()
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit the transaction: %w", err)
	}
	return nil
}

func rollBack(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return tx.Rollback(ctx)
}

// inTransaction reports whether the connection is open and in a transaction, which may have failed.
func inTransaction(conn *pgx.Conn) bool { return !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' }

func onceInBatches(
	ctx context.Context, pool *pgxpool.Pool, first func(batch *pgx.Batch), fn func(ctx context.Context, tx pgx.Tx, last *pgx.Batch) error,
) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("begin the transaction: %w", err)
	}
	defer conn.Release() // closes a connection that is still in a transaction
	begin := &pgx.Batch{}
	begin.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	first(begin)
	begun := conn.SendBatch(ctx, begin)
	tx := begun.Tx()
	defer func() {
		if inTransaction(conn.Conn()) {
			_ = rollBack(ctx, tx) // there is another error already, or a panic
		}
	}()
	if err := begun.Close(); err != nil {
		return fmt.Errorf("begin the transaction: %w", err)
	}
	last := &pgx.Batch{}
	if err := fn(ctx, tx, last); err != nil {
		return err
	}
	last.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		if tag.String() == "ROLLBACK" { // a statement of fn has failed, and fn has ignored the error
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	if err := conn.SendBatch(ctx, last).Close(); err != nil {
		return fmt.Errorf("commit the transaction: %w", err)
	}
	return nil
}

// pause waits 5, 10 or 20 ms plus a random duration of up to the same length, so that two conflicting transactions do
// not conflict again.
func pause(ctx context.Context, try int) error {
	base := 5 * time.Millisecond << try
	return clock.Sleep(ctx, clock.Real(), base+rand.N(base))
}

type offsetKey struct{}

// WithOffset returns a context in which Now is ahead by d. Tests use it to let leases
// expire without waiting.
func WithOffset(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, offsetKey{}, d)
}

// Now returns the time of the Postgres server. Leases, billing and rate limits use it, because all replicas share it.
// It advances within a transaction.
func Now(ctx context.Context, q Querier) (time.Time, error) {
	var t time.Time
	if err := q.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&t); err != nil {
		return time.Time{}, fmt.Errorf("read the clock of Postgres: %w", err)
	}
	offset, _ := ctx.Value(offsetKey{}).(time.Duration)
	return t.UTC().Add(offset), nil
}

// One returns the only row of a query. Each exported field of T either names its column in the `db` tag, or has the
// name of the column; underscores and letter case are ignored. If there is no row, the error is pgx.ErrNoRows.
func One[T any](rows pgx.Rows, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[T])
}

// All returns all rows of a query. It assigns columns to fields as One does.
func All[T any](rows pgx.Rows, err error) ([]*T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[T])
}
