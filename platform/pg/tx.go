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

// Querier is what a pool, a connection and a transaction have in common.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Beginner opens transactions: a *pgxpool.Pool.
type Beginner interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// retries is how often InTx runs fn again after a transaction lost against
// another one.
const retries = 3

// InTx runs fn in one transaction at READ COMMITTED: committed when fn answers
// nil, rolled back otherwise. A transaction that lost against another one
// (serialization failure, deadlock) is run again, so fn must change nothing but
// rows; it makes no RPC and no call of the object store.
func InTx(ctx context.Context, db Beginner, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return InTxWith(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
}

// InTxWith is InTx with the isolation level of the caller's choice.
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
		return fmt.Errorf("begin: %w", err)
	}
	// Also after a panic in fn; after a commit it does nothing. The context may
	// be over, the rollback must happen all the same.
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if rerr := tx.Rollback(rctx); rerr != nil && !errors.Is(rerr, pgx.ErrTxClosed) && err == nil {
			err = fmt.Errorf("roll back: %w", rerr)
		}
	}()
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// pause waits 5, 10, 20 ms and up to as much again, so that two losers do not
// meet again.
func pause(ctx context.Context, try int) error {
	base := 5 * time.Millisecond << try
	return clock.Sleep(ctx, clock.Real(), base+rand.N(base))
}

type offsetKey struct{}

// WithOffset makes Now run ahead by d under ctx: how tests move the clock of
// leases without waiting.
func WithOffset(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, offsetKey{}, d)
}

// Now is the clock of Postgres, which decides leases, billing marks and rate
// windows because all replicas share it. It moves on within a transaction.
func Now(ctx context.Context, q Querier) (time.Time, error) {
	var t time.Time
	if err := q.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&t); err != nil {
		return time.Time{}, fmt.Errorf("read the clock of Postgres: %w", err)
	}
	offset, _ := ctx.Value(offsetKey{}).(time.Duration)
	return t.UTC().Add(offset), nil
}
