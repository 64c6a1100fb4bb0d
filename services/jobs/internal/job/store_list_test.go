package job_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// counting adds up the bytes that queries receive.
type counting struct {
	pg.Querier

	bytes int
}

func (c *counting) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := c.Querier.Query(ctx, sql, args...)
	return &countingRows{rows, c}, err
}

type countingRows struct {
	pgx.Rows

	to *counting
}

func (r *countingRows) Next() bool {
	more := r.Rows.Next()
	if more {
		for _, raw := range r.RawValues() {
			r.to.bytes += len(raw)
		}
	}
	return more
}

// Lists must not read templates, and queries for signals must read neither templates nor specs: each of these can have
// hundreds of kilobytes.
func TestStore_listsReadNoTemplates(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	const large = 1 << 20
	for range 5 {
		j := b.insert(t)
		_, err := b.pool.Exec(t.Context(), `UPDATE job SET template = convert_to(repeat('x', $2), 'UTF8'), state = 'stopping', signal_id = 'stop.1' WHERE id = $1`, j.ID, large)
		require.NoError(t, err)
	}
	q := &counting{Querier: b.pool}
	jobs, err := b.store.List(t.Context(), q, access.ServiceScope(), job.Filter{}, request.Page{Limit: 500})
	require.NoError(t, err)
	require.Len(t, jobs, 5)
	require.JSONEq(t, `{"name":"n"}`, string(jobs[0].Spec), "the list must include the spec")
	_, err = b.store.Look(t.Context(), q, jobs[0].ID)
	require.NoError(t, err)
	require.Less(t, q.bytes, large)

	_, err = b.pool.Exec(t.Context(), `UPDATE job SET spec = to_json(repeat('x', $1))`, large)
	require.NoError(t, err)
	q.bytes = 0
	signals, err := b.store.Signalled(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, map[string]string{jobs[0].RunID: "stop.1", jobs[1].RunID: "stop.1", jobs[2].RunID: "stop.1", jobs[3].RunID: "stop.1", jobs[4].RunID: "stop.1"}, signals)
	require.Less(t, q.bytes, large)
}
