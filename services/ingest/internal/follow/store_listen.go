package follow

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Listen wakes the followers of each run to which any replica commits data, until ctx ends or the connection is lost.
// It always returns an error. At its start it wakes all followers, because earlier notifications may have been
// missed.
func (h *Hub) Listen(ctx context.Context, pool *pgxpool.Pool, channel string) error {
	return pg.Listen(ctx, pool, channel, h.WakeAll, func(runs string) { h.Wake(strings.Split(runs, ",")) })
}
