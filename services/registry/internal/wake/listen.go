package wake

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Listen hands on the wake-ups of all replicas until ctx ends or the connection is lost. It holds
// one connection of the pool. At its start it wakes everyone: what was told before is missed.
func (h *Hub) Listen(ctx context.Context, pool *pgxpool.Pool) error {
	held, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("a connection to listen on: %w", err)
	}
	// A connection that listens must not go back to the pool.
	conn := held.Hijack()
	defer closeConn(ctx, conn)
	var channel string
	if err := conn.QueryRow(ctx, `SELECT `+channelSQL).Scan(&channel); err != nil {
		return fmt.Errorf("name the wake-up channel: %w", err)
	}
	if _, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen for wake-ups: %w", err)
	}
	h.Wake(All)
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for wake-ups: %w", err)
		}
		h.Wake(Topic(n.Payload))
	}
}

// closeConn says goodbye to the server, also when the context of the work is over.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
