package loginlimit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Login counts login attempts.
type Login struct{ Pool *pgxpool.Pool }

// Take counts one attempt of the address. If the window is full, it returns a Limited error with the time to wait. A
// refused attempt adds no row, so that the table stays small under attack. If the window is already full when Take is
// called, Take does not wait for the lock, so that an address with many attempts does not occupy the connections of
// other calls.
func (l *Login) Take(ctx context.Context, address string) error {
	key := Key(address)
	if _, err := room(ctx, l.Pool, key); err != nil {
		return err
	}
	return pg.InTx(ctx, l.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('login:' || $1, 0))`, key); err != nil {
			return fmt.Errorf("lock the login attempts of the address: %w", err)
		}
		now, err := room(ctx, tx, key)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO login_attempt (address, at) VALUES ($1, $2)`, key, now); err != nil {
			return fmt.Errorf("store the login attempt: %w", err)
		}
		return nil
	})
}

// room returns the time of the database. If the window of the address is full, it returns a Limited error.
func room(ctx context.Context, q pg.Querier, key string) (time.Time, error) {
	now, err := pg.Now(ctx, q)
	if err != nil {
		return now, err
	}
	var n int
	var oldest *time.Time
	row := q.QueryRow(ctx, `SELECT count(*), min(at) FROM login_attempt WHERE address = $1 AND at > $2`, key, now.Add(-Window))
	if err := row.Scan(&n, &oldest); err != nil {
		return now, fmt.Errorf("count login attempts: %w", err)
	}
	if n >= Attempts {
		wait := max(oldest.Add(Window).Sub(now), time.Second)
		return now, fault.New(fault.Limited, "login_rate", "too many login attempts from this address; try again later").WithRetryAfter(wait)
	}
	return now, nil
}

// Sweep deletes attempts that are older than two windows.
func (l *Login) Sweep(ctx context.Context) error {
	now, err := pg.Now(ctx, l.Pool)
	if err != nil {
		return err
	}
	if _, err := l.Pool.Exec(ctx, `DELETE FROM login_attempt WHERE at < $1`, now.Add(-2*Window)); err != nil {
		return fmt.Errorf("delete old login attempts: %w", err)
	}
	return nil
}
