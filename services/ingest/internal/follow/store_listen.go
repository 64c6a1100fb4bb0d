package follow

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Listen wakes the followers of the runs that any replica commits, until ctx ends or the connection is
// lost. At its start it wakes everyone: what was told before is missed.
func (h *Hub) Listen(ctx context.Context, pool *pgxpool.Pool, channel string) error {
	held, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("a connection to listen on: %w", err)
	}
	// A connection that listens must not go back to the pool.
	conn := held.Hijack()
	defer closeConn(ctx, conn)
	if _, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen for commits: %w", err)
	}
	h.WakeAll()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for commits: %w", err)
		}
		h.Wake(strings.Split(n.Payload, ","))
	}
}

// closeConn says goodbye to the server, also when the context of the work is over.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
