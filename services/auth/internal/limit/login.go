// Package limit counts login attempts by client address in Postgres, so that all replicas share one
// count and none needs a cache store. Every attempt counts, whoever it is for and however it ends.
package limit

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// The specification's figures: the attempt past Attempts within Window is refused.
const (
	Attempts = 10
	Window   = time.Minute
)

// Login counts attempts.
type Login struct{ Pool *pgxpool.Pool }

// Key is what attempts are counted by: the address, and of an IPv6 address its /64, because one
// client commands all of those.
func Key(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return "unknown"
	}
	a = a.Unmap()
	if a.Is4() {
		return a.String()
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return "unknown"
	}
	return p.String()
}

// Take counts one attempt of the address, and refuses it with Limited and the time to wait when the
// window is full. A refused attempt is counted by the row that fills the window, not by one of its own,
// so that the table stays small under attack.
func (l *Login) Take(ctx context.Context, address string) error {
	key := Key(address)
	return pg.InTx(ctx, l.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('login:' || $1, 0))`, key); err != nil {
			return fmt.Errorf("lock the login window: %w", err)
		}
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		var n int
		var oldest *time.Time
		row := tx.QueryRow(ctx, `SELECT count(*), min(at) FROM login_attempt WHERE address = $1 AND at > $2`, key, now.Add(-Window))
		if err := row.Scan(&n, &oldest); err != nil {
			return fmt.Errorf("count login attempts: %w", err)
		}
		if n >= Attempts {
			wait := max(oldest.Add(Window).Sub(now), time.Second)
			return fault.New(fault.Limited, "login_rate", "Too many login attempts from this address").WithRetryAfter(wait)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO login_attempt (address, at) VALUES ($1, $2)`, key, now); err != nil {
			return fmt.Errorf("count the login attempt: %w", err)
		}
		return nil
	})
}

// Sweep forgets attempts that no window holds any more.
func (l *Login) Sweep(ctx context.Context) error {
	now, err := pg.Now(ctx, l.Pool)
	if err != nil {
		return err
	}
	if _, err := l.Pool.Exec(ctx, `DELETE FROM login_attempt WHERE at < $1`, now.Add(-2*Window)); err != nil {
		return fmt.Errorf("forget old login attempts: %w", err)
	}
	return nil
}
