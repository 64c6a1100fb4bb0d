package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// tries counts the transactions in which the write of an item was called.
type tries struct{ atomic.Int64 }

// counting returns the given item with a Write that counts its calls.
func (n *tries) counting(item Item) Item {
	write := item.Write
	item.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
		n.Add(1)
		return write(ctx, tx, batch, r)
	}
	return item
}

func TestCommitter_group_refusedItemCostsNoTransaction(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1", "run_2")
	full := errors.New("the run is full")
	refused := insertItem("run_1", "s", Key{"w", 2}, 7)
	write := refused.Write
	refused.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
		return Refuse(errors.Join(full, write(ctx, tx, batch, r)))
	}
	var others tries
	got := b.storeAsGroup(others.counting(insertItem("run_1", "s", Key{"w", 1}, 1)), refused, insertItem("run_9", "s", Key{"w", 1}, 1),
		others.counting(insertItem("run_1", "s", Key{"w", 3}, 1)), others.counting(insertItem("run_2", "s", Key{"w", 1}, 1)), refused)
	for _, n := range []int{1, 5} {
		require.ErrorIs(t, got[n].err, full)
		_, marked := errors.AsType[*refusal](got[n].err)
		require.False(t, marked, "callers get the reason, not the refusal that wraps it")
	}
	require.Equal(t, []result{{}, {}, {}}, []result{got[0], got[3], got[4]})
	require.EqualValues(t, 3, others.Load(), "the other items are stored by the first transaction")
	require.Equal(t, 3, b.count(`SELECT count(*) FROM hparam_history`), "the statement of the refused item was not sent")
	require.Equal(t, 3, b.count(`SELECT sum(line_seq) FROM run`), "the counters of the refused item were not stored")
	require.Equal(t, 1, b.count(`SELECT max(attempt) FROM run`), "the attempt of the refused item replaced no other attempt")
	require.Equal(t, []result{{}}, b.storeAsGroup(insertItem("run_1", "s", Key{"w", 2}, 1)), "the number of the refused item may be used again")
}

func TestCommitter_group_lateRefusalUndoesItemAlone(t *testing.T) {
	t.Parallel()
	late := errors.New("too late")
	b := open(t, "run_1")
	for name, change := range map[string]func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error{
		"flushed": func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error { return r.Flush(ctx, tx, batch) },
		"failed": func(ctx context.Context, tx pgx.Tx, _ *pgx.Batch, _ *Run) error {
			_, err := tx.Exec(ctx, `SELECT 1 / 0`)
			require.Error(t, err)
			return nil
		},
	} {
		bad := insertItem("run_1", name, Key{"bad", 1}, 1)
		write := bad.Write
		bad.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
			return Refuse(errors.Join(late, write(ctx, tx, batch, r), change(ctx, tx, batch, r)))
		}
		before := b.count(`SELECT count(*) FROM hparam_history`)
		got := b.storeAsGroup(insertItem("run_1", name, Key{"a" + name, 1}, 1), bad, insertItem("run_1", name, Key{"b" + name, 1}, 1))
		require.Equal(t, []result{{}, {}}, []result{got[0], got[2]}, name)
		require.ErrorIs(t, got[1].err, late, name)
		require.Equal(t, before+2, b.count(`SELECT count(*) FROM hparam_history`), name)
	}
}

func TestCommitter_group_databaseErrorSplitsByRun(t *testing.T) {
	t.Parallel()
	const runs, each = 32, 4
	ids := make([]string, runs)
	for i := range ids {
		ids[i] = fmt.Sprintf("run_%d", i)
	}
	b := open(t, ids...)
	transactions := map[pgx.Tx]bool{}
	var items []Item
	for n := range each {
		for _, id := range ids {
			item := insertItem(id, fmt.Sprint(n), Key{Writer: "w", Seq: int64(n) + 1}, 1)
			write := item.Write
			item.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
				transactions[tx] = true
				if id == "run_7" && n == 2 {
					batch.Queue(`SELECT 1 / 0`)
				}
				return write(ctx, tx, batch, r)
			}
			items = append(items, item)
		}
	}
	for i, r := range b.storeAsGroup(items...) {
		if items[i].RunID == "run_7" && items[i].Stream == "2" {
			require.ErrorContains(t, r.err, "division by zero")
			continue
		}
		require.Equal(t, result{}, r, "%s %s", items[i].RunID, items[i].Stream)
	}
	require.Equal(t, runs*each-1, b.count(`SELECT count(*) FROM hparam_history`))
	require.LessOrEqual(t, len(transactions), 16, "the group is halved until the item is alone")
	require.Equal(t, 0, b.count(`SELECT count(*) FROM hparam_history h JOIN hparam_history l USING (run_id) WHERE h.n > l.n AND h.value < l.value`),
		"the items of each run are stored in their order")
}

func TestCommitter_group_skipsAbandonedItems(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	gone := make(chan struct{})
	close(gone)
	var calls tries
	item := calls.counting(insertItem("run_1", "s", Key{"w", 1}, 1))
	waits, left := &waiting{Item: insertItem("run_1", "s", Key{"w", 2}, 1), result: make(chan result, 1)}, &waiting{Item: item, left: gone, result: make(chan result, 1)}
	b.group(t.Context(), []*waiting{left, waits})
	require.Equal(t, result{}, <-waits.result)
	b.group(t.Context(), []*waiting{left})
	require.Zero(t, calls.Load(), "an item for which no caller waits is not written")
	require.Empty(t, left.result)
	require.Equal(t, []result{{}}, b.storeAsGroup(item), "the caller may send it again")
}

func TestCommitter_group_unavailableDatabaseFailsRunOnce(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	var calls tries
	items := make([]Item, 8)
	for i := range items {
		items[i] = calls.counting(terminatedItem(b, keyedItem(Key{"w", int64(i) + 1}, "a"), 1))
	}
	for _, r := range b.storeAsGroup(items...) {
		require.Error(t, r.err)
	}
	require.EqualValues(t, len(items), calls.Load(), "each item is tried in only one transaction")
	require.Zero(t, b.count(`SELECT count(*) FROM hparam_history`))
}

func TestRun_Insert(t *testing.T) {
	t.Parallel()
	const sql = `INSERT INTO hparam_history (run_id, key, value, attempt, updated_at, replaced_at)
		SELECT n.run_id, 'key', n.value, n.attempt, n.at, n.at FROM unnest($1::text[], $2::text[], $3::int[], $4::timestamptz[]) n(run_id, value, attempt, at)`
	full := errors.New("the run is full")
	b := open(t, "run_1", "run_2")
	item := func(run, value string, end func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error) Item {
		return Item{RunID: run, Attempt: 1, Write: func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
			r.Insert(sql, r.ID, value, r.Attempt, r.Now)
			return end(ctx, tx, batch, r)
		}}
	}
	stored := func(context.Context, pgx.Tx, *pgx.Batch, *Run) error { return nil }
	flushed := 0
	got := b.storeAsGroup(
		item("run_1", "a", stored),
		item("run_1", "refused", func(context.Context, pgx.Tx, *pgx.Batch, *Run) error { return Refuse(full) }),
		item("run_2", "b", stored),
		item("run_1", "c", func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
			require.NoError(t, r.Flush(ctx, tx, batch))
			return tx.QueryRow(ctx, `SELECT count(*) FROM hparam_history WHERE run_id = 'run_1'`).Scan(&flushed)
		}),
		item("run_1", "d", stored),
	)
	require.ErrorIs(t, got[1].err, full)
	require.Equal(t, []result{{}, {}, {}, {}}, []result{got[0], got[2], got[3], got[4]})
	require.Equal(t, 2, flushed, "a write that has called Flush sees the rows of its run")
	rows, err := b.pool.Query(t.Context(), `SELECT run_id || ' ' || value FROM hparam_history ORDER BY 1`)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"run_1 a", "run_1 c", "run_1 d", "run_2 b"}, values, "each row is stored once, and none of a refused item")
}
