package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/pg/internal/session"
)

// Apart takes a connection out of the pool for good: what belongs to its session, a lock or a
// subscription, must not go back to the pool. leave ends it, also when ctx is over.
func Apart(ctx context.Context, pool *pgxpool.Pool) (conn *pgx.Conn, leave func(), err error) {
	held, err := pool.Acquire(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("a connection of its own: %w", err)
	}
	conn = held.Hijack()
	return conn, func() { session.Close(ctx, conn) }, nil
}

// Listen calls each for every notification on the channel until ctx ends or the connection is lost,
// and always answers why. It calls began once, as soon as no further notification can be missed:
// whoever has to know what happened before looks then.
func Listen(ctx context.Context, pool *pgxpool.Pool, channel string, began func(), each func(payload string)) error {
	conn, leave, err := Apart(ctx, pool)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen on %s: %w", channel, err)
	}
	began()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for notifications on %s: %w", channel, err)
		}
		each(n.Payload)
	}
}
