package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
	for try := 0; ; try++ {
		err := once(ctx, db, opts, fn)
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
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if rerr := tx.Rollback(rctx); rerr != nil && !errors.Is(rerr, pgx.ErrTxClosed) && err == nil {
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
