package device

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// rate is the maximum number of attempts with one key within a window.
type rate struct {
	purpose string
	most    int
	window  time.Duration
}

// The limits of the flow. A correct code is not counted as a guess, so a user who reloads the page is not limited.
func polls() rate         { return rate{"poll", 20, time.Minute} }
func beginnings() rate    { return rate{"create", 30, time.Minute} }
func accountMisses() rate { return rate{"guess_account", 10, TTL} }
func addressMisses() rate { return rate{"guess_address", 30, TTL} }

// longestWindow returns the longest window of the limits.
func longestWindow() (d time.Duration) {
	for _, r := range []rate{polls(), beginnings(), accountMisses(), addressMisses()} {
		d = max(d, r.window)
	}
	return d
}

// take counts one attempt and returns the id of its row. If the window is full, it returns a Limited error with the
// time to wait, and adds no row, so that the table stays small under attack.
func (f *Flow) take(ctx context.Context, r rate, key, word string) (int64, error) {
	var row int64
	err := pg.InTx(ctx, f.Pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := lockWindow(ctx, tx, r.purpose, key)
		if err != nil {
			return err
		}
		n, oldest, err := countAttempts(ctx, tx, r.purpose, key, now.Add(-r.window))
		if err != nil {
			return err
		}
		if n >= r.most {
			wait := max(oldest.Add(r.window).Sub(now), time.Second)
			return fault.New(fault.Limited, "device_rate", "too many device flow requests; try again later").WithOAuth(word).WithRetryAfter(wait)
		}
		row, err = insertAttempt(ctx, tx, r.purpose, key, now)
		return err
	})
	return row, err
}
