package tablefeed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/tablefeed"
)

// changes reads the changes after a position.
func (b *harness) changes(after int64, limit int) tablefeed.Page[any] {
	b.t.Helper()
	page, err := b.read(b.t.Context(), b.pool, after, limit)
	require.NoError(b.t, err)
	return page
}

func TestFeed_Number_inCommitOrder(t *testing.T) {
	t.Parallel()
	each(t, func(b *harness) {
		t := b.t
		first, second := b.insert(), b.insert()
		_, start := b.positions()
		slow, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = slow.Exec(t.Context(), b.sql(`UPDATE TABLE SET TOUCH, name = 'slow' WHERE id = $1`), first)
		require.NoError(t, err)
		b.set(`TOUCH`, second)
		_, middle := b.positions()
		require.Equal(t, start+1, middle)
		require.NoError(t, slow.Commit(t.Context()))
		_, end := b.positions()
		require.Equal(t, middle+1, end)
		page := b.changes(middle, 10)
		require.Len(t, page.Changes, 1)
		require.Equal(t, first, page.Changes[0].ID)
		require.NotNil(t, page.Changes[0].Row)
	})
}

// Frequent writes that no list shows are not changes: positions in the queue, and that a run was heard or copied. All
// else that a list shows is one.
func TestChanges_onlyOfWhatListsShow(t *testing.T) {
	t.Parallel()
	cases := map[tablefeed.Feed]map[string]int64{
		tablefeed.Jobs: {
			`queue_position = queue_position + 1`: 0,
			`protected = true`:                    0,
			`queue_reason = 'x'`:                  1,
			`queue_detail = 'x'`:                  1,
			`visibility = 'team'`:                 1,
		},
		tablefeed.Runs: {
			`heard_at = now()`:                              0,
			`summary_tried_at = now()`:                      0,
			`summary_final = true, reported = 'x'`:          0,
			`data_checked_at = now(), closing = '{}'`:       0,
			`state = state`:                                 0,
			`name = 'other'`:                                1,
			`owner_id = 'usr_x'`:                            1,
			`owner_name = 'x'`:                              1,
			`project_id = 'prj_x'`:                          1,
			`project = 'x'`:                                 1,
			`visibility = 'team'`:                           1,
			`state = 'running'`:                             1,
			`attempts = attempts + 1`:                       1,
			`started_at = now()`:                            1,
			`ended_at = now(), end_reason = 'x'`:            1,
			`end_reason = 'y'`:                              1,
			`protected = true, protected_datasets = '{ds}'`: 1,
			`tags = '{a}'`:                                  1,
			`labels = '{"a": "b"}'`:                         1,
			`notes_version = 1`:                             1,
			`archived_at = now()`:                           1,
			`version = version + 1`:                         1,
		},
	}
	each(t, func(b *harness) {
		id := b.insert()
		_, start := b.positions()
		for sql, n := range cases[b.feed] {
			b.set(sql, id)
			_, last := b.positions()
			require.Equal(b.t, n, last-start, sql)
			start = last
		}
	})
}

func TestFeed_Delete_invalidatesOldPositions(t *testing.T) {
	t.Parallel()
	each(t, func(b *harness) {
		t := b.t
		id := b.insert()
		b.insert()
		_, last := b.positions()
		later := clock.Real().Now().Add(time.Hour)
		remove := func(before time.Time, limit int) (n int64, page tablefeed.Page[any]) {
			n, err := b.feed.Delete(t.Context(), b.pool, before, limit)
			require.NoError(t, err)
			return n, b.changes(last, 10)
		}
		n, page := remove(later.Add(-2*time.Hour), 10)
		require.Zero(t, n)
		require.Zero(t, page.Oldest)
		n, page = remove(later, 1)
		require.EqualValues(t, 1, n)
		require.Equal(t, []int64{last - 1, last}, []int64{page.Oldest, page.Last})
		b.set(`TOUCH`, id) // never numbered, so no reader has seen it
		n, page = remove(later, 10)
		require.EqualValues(t, 2, n)
		require.Greater(t, page.Oldest, last, "every reader must start again")
		require.Equal(t, page.Oldest, page.Last)
	})
}

func TestChanges_usesIndexes(t *testing.T) {
	t.Parallel()
	each(t, func(b *harness) {
		t, id := b.t, b.insert()
		b.exec(b.sql(`INSERT INTO TABLE_change (TABLE_id, before, after) SELECT 'x_' || i, c.before, c.after FROM TABLE_change c, generate_series(1, 50000) i WHERE $1 <> ''`), id)
		last, err := b.feed.Number(t.Context(), b.pool)
		require.NoError(t, err)
		b.set(`TOUCH`, id)
		_, err = b.db.OwnerPool("jobs").Exec(t.Context(), b.sql(`ANALYZE TABLE_change`))
		require.NoError(t, err)
		for sql, args := range map[string][]any{
			`SELECT c.seq, EXISTS (SELECT FROM TABLE_change later WHERE later.TABLE_id = c.TABLE_id AND later.id > c.id) FROM TABLE_change c
				WHERE c.seq > $1 ORDER BY c.seq LIMIT 100`: {last - 100},
			`SELECT EXISTS (SELECT FROM TABLE_change WHERE seq IS NULL)`:           nil,
			`SELECT id FROM TABLE_change WHERE seq IS NULL ORDER BY id LIMIT 1000`: nil,
			`SELECT id FROM TABLE_change WHERE at < $1 ORDER BY at LIMIT 1000`:     {clock.Real().Now().Add(-time.Hour)},
		} {
			var plan string
			rows, err := b.pool.Query(t.Context(), `EXPLAIN `+b.sql(sql), args...)
			require.NoError(t, err)
			for rows.Next() {
				var line string
				require.NoError(t, rows.Scan(&line))
				plan += line + "\n"
			}
			require.NoError(t, rows.Err())
			require.NotContains(t, plan, "Seq Scan", plan)
		}
	})
}
