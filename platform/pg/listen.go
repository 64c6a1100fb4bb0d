package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Detach removes a connection from the pool for good. It is for callers whose connection gets session state, such as a
// lock or a subscription, and must therefore not return to the pool. The function leave closes the connection even if
// ctx is done.
func Detach(ctx context.Context, pool *pgxpool.Pool) (conn *pgx.Conn, leave func(), err error) {
	held, err := pool.Acquire(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("take a connection out of the pool: %w", err)
	}
	conn = held.Hijack()
	return conn, func() { CloseConn(ctx, conn) }, nil
}

// Listen calls the function visit for every notification on the channel until ctx is done or the connection is lost. It
// always returns a non-nil error. It calls the function began once, as soon as no further notification can be missed. A
// caller that also needs earlier changes reads them in began.
func Listen(ctx context.Context, pool *pgxpool.Pool, channel string, began func(), visit func(payload string)) error {
	conn, leave, err := Detach(ctx, pool)
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
		visit(n.Payload)
	}
}
