package groupcommit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// fixedClock is a clock that always returns the same time.
type fixedClock struct{ clock.Clock }

func (fixedClock) Now() time.Time { return time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC) }

// terminatedItem changes the Write of an item. The first calls of the changed Write, as many as the parameter times
// states, terminate the database session of their transaction.
func terminatedItem(b *harness, item Item, times int) Item {
	write := item.Write
	item.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
		if err := write(ctx, tx, batch, r); err != nil {
			return err
		}
		if times--; times >= 0 {
			return b.endSession(ctx, tx)
		}
		return nil
	}
	return item
}

// endSession terminates the database session of a transaction, as a crash of the database would.
func (b *harness) endSession(ctx context.Context, tx pgx.Tx) error {
	_, err := b.admin.Exec(ctx, `SELECT pg_terminate_backend($1)`, tx.Conn().PgConn().PID())
	return err
}

func TestCommitter_Store_killedConnectionStoresNothing(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	b.start()
	for seq := int64(1); seq <= 8; seq++ {
		item := terminatedItem(b, keyedItem(Key{"w", seq}, "a"), 1)
		_, err := b.Store(t.Context(), item)
		require.True(t, fault.Is(pg.Classify(err), fault.Unavailable), "%v", err)
		require.Equal(t, int(seq-1), b.count(`SELECT count(*) FROM hparam_history`))
		require.Equal(t, int(seq-1), b.count(`SELECT line_seq FROM run`), "the counter is unchanged")
		require.Equal(t, int(seq-1), b.count(`SELECT count(*) FROM request_digest`))
		repeated, err := b.Store(t.Context(), item)
		require.NoError(t, err)
		require.False(t, repeated, "the retry stores the item")
	}
	require.Equal(t, 8, b.count(`SELECT seq FROM mark`))
}

func TestCommitter_Store_canceledCallerStoredOnce(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	b.start()
	const requests = 30
	for seq := int64(1); seq <= requests; seq++ {
		ctx, leave := context.WithCancel(t.Context())
		item := keyedItem(Key{"w", seq}, "a")
		write := item.Write
		item.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
			leave() // the caller stops waiting before the commit
			return write(ctx, tx, batch, r)
		}
		_, err := b.Store(ctx, item)
		if err != nil { // the result may have arrived before the cancellation
			require.True(t, fault.HasCode(err, fault.CodeCanceled), "%v", err)
		}
		repeated, err := b.Store(t.Context(), item)
		require.NoError(t, err)
		require.True(t, repeated, "a group that has begun is finished")
	}
	require.Equal(t, requests, b.count(`SELECT count(*) FROM hparam_history`))
}

func TestCommitter_Run_stopFinishesCurrentGroup(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	stop := b.start()
	begun, gate := make(chan struct{}), make(chan struct{})
	slow := keyedItem(Key{"w", 1}, "a")
	write := slow.Write
	slow.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
		close(begun)
		<-gate
		return write(ctx, tx, batch, r)
	}
	first := make(chan error, 1)
	go func() { _, err := b.Store(t.Context(), slow); first <- err }()
	<-begun
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	second := make(chan error, 1)
	go func() { _, err := b.Store(t.Context(), keyedItem(Key{"w", 2}, "b")); second <- err }()
	close(gate)
	<-stopped
	// Both calls of Store return. They return an error only if the committer is shutting down.
	for _, ch := range []chan error{first, second} {
		if err := <-ch; err != nil {
			require.True(t, fault.HasCode(err, "draining"), "%v", err)
		}
	}
	stored, err := b.Claim(t.Context(), &Item{RunID: "run_1", Stream: "s", Key: Key{"w", 1}, Digest: DigestOf([]byte("a"))})
	require.NoError(t, err)
	require.True(t, stored, "the group that had begun is committed")
	next := &harness{Committer: New(b.pool, clock.Real(), &Quota{}, func([]string) {}), t: t, pool: b.pool}
	next.start()
	repeated, err := next.Store(t.Context(), slow)
	require.NoError(t, err)
	require.True(t, repeated, "the next process treats the request as a repeat")
}

func TestCommitter_group_keepsOrderOfRequests(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1", "run_2")
	items := make([]Item, 0, 100)
	for i := range 100 {
		items = append(items, insertItem([]string{"run_1", "run_2"}[i%2], fmt.Sprintf("%03d", i), Key{"w", 1}, 1))
	}
	for _, r := range b.storeAsGroup(items...) {
		require.Equal(t, result{}, r)
	}
	for n, run := range []string{"run_1", "run_2"} {
		rows, err := b.pool.Query(t.Context(), `SELECT value FROM hparam_history WHERE run_id = $1 ORDER BY n`, run)
		require.NoError(t, err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Len(t, got, 50)
		for i, value := range got {
			require.Equal(t, fmt.Sprintf("%03d", 2*i+n), value)
		}
	}
}

func TestCommitter_Store_sharedRunsHaveNoGaps(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1", "run_2", "run_3")
	committers := []*harness{b}
	for range 2 {
		committers = append(committers, &harness{Committer: New(b.pool, clock.Real(), &Quota{}, func([]string) {}), t: t, pool: b.pool})
	}
	for _, c := range committers {
		c.start()
	}
	var all sync.WaitGroup
	const each = 40
	for i := range 3 * each {
		for r := range 3 { // each request goes to every committer, and each committer gets the runs in another order
			all.Go(func() {
				item := insertItem(fmt.Sprintf("run_%d", (i+r)%3+1), "s", Key{"w", int64(i/3) + 1}, 1)
				if _, err := committers[r].Store(t.Context(), item); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	for _, run := range []string{"run_1", "run_2", "run_3"} {
		require.Equal(t, each, b.count(`SELECT line_seq FROM run WHERE id = $1`, run))
		require.Equal(t, each, b.count(`SELECT count(*) FROM hparam_history WHERE run_id = $1`, run))
		require.Equal(t, each, b.count(`SELECT seq FROM mark WHERE run_id = $1`, run))
	}
	require.Zero(t, b.count(`SELECT count(*) FROM ahead`))
}

func TestWatermark_listsStreamsAndWritersOfOneRun(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1", "run_2")
	for _, item := range []Item{
		insertItem("run_1", "logs", Key{"w", 1}, 1), insertItem("run_1", "logs", Key{"w", 2}, 1), insertItem("run_1", "logs", Key{"v", 1}, 1),
		insertItem("run_1", "metrics", Key{"w", 1}, 1), insertItem("run_1", "metrics", Key{"v", 2}, 1), insertItem("run_2", "logs", Key{"w", 1}, 1), insertItem("run_2", "x", Key{}, 1),
	} {
		require.Equal(t, []result{{}}, b.storeAsGroup(item))
	}
	marks, err := Watermark(t.Context(), b.pool, "run_1")
	require.NoError(t, err)
	require.Equal(t, map[string]map[string]int64{"logs": {"w": 2, "v": 1}, "metrics": {"w": 1}}, marks, "a writer whose first request is missing has no mark")
	none, err := Watermark(t.Context(), b.pool, "run_3")
	require.NoError(t, err)
	require.NotNil(t, none)
	require.Empty(t, none)
}
