package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

func all() []job.Interest { return []job.Interest{{Scope: access.ServiceScope()}} }

// positions returns the positions of all numbered changes, and the newest position.
func (b *harness) positions(t *testing.T) (seqs []int64, last int64) {
	t.Helper()
	last, err := db.NumberChanges(t.Context(), b.pool)
	require.NoError(t, err)
	page, err := job.Changes(t.Context(), b.pool, 0, all(), 1000)
	require.NoError(t, err)
	for _, c := range page.Changes {
		seqs = append(seqs, c.Seq)
	}
	require.Equal(t, last, page.End)
	return seqs, last
}

func TestNumberChanges_numbersInCommitOrder(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	first, second := b.insert(t), b.insert(t)
	_, start := b.positions(t)
	slow, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = slow.Exec(t.Context(), `UPDATE job SET seq = seq + 1 WHERE id = $1`, first.ID)
	require.NoError(t, err)
	b.put(t, second.ID, job.Running)
	_, middle := b.positions(t)
	require.Equal(t, start+1, middle)
	require.NoError(t, slow.Commit(t.Context()))
	_, end := b.positions(t)
	require.Equal(t, middle+1, end)
	page, err := job.Changes(t.Context(), b.pool, middle, all(), 10)
	require.NoError(t, err)
	require.Len(t, page.Changes, 1)
	require.Equal(t, first.ID, page.Changes[0].Job.ID)
}

// A scheduler pass renumbers many queued jobs; that is not a change. All else that the list shows is one.
func TestChanges_recordsNoQueuePosition(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert(t)
	_, start := b.positions(t)
	for sql, n := range map[string]int64{
		`UPDATE job SET queue_position = queue_position + 1 WHERE id = $1`: 0,
		`UPDATE job SET protected = true WHERE id = $1`:                    0,
		`UPDATE job SET queue_reason = 'x' WHERE id = $1`:                  1,
		`UPDATE job SET queue_detail = 'x' WHERE id = $1`:                  1,
		`UPDATE job SET visibility = 'team' WHERE id = $1`:                 1,
	} {
		_, err := b.pool.Exec(t.Context(), sql, j.ID)
		require.NoError(t, err)
		_, last := b.positions(t)
		require.Equal(t, n, last-start, sql)
		start = last
	}
}

func TestDeleteChanges_invalidatesOldPositions(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert(t)
	b.insert(t)
	_, last := b.positions(t)
	later := clock.Real().Now().Add(time.Hour)
	remove := func(before time.Time, limit int) (n int64, page job.ChangePage) {
		n, err := db.DeleteChanges(t.Context(), b.pool, before, limit)
		require.NoError(t, err)
		page, err = job.Changes(t.Context(), b.pool, last, all(), 10)
		require.NoError(t, err)
		return n, page
	}
	n, page := remove(later.Add(-2*time.Hour), 10)
	require.Zero(t, n)
	require.Zero(t, page.Oldest)
	n, page = remove(later, 1)
	require.EqualValues(t, 1, n)
	require.Equal(t, []int64{last - 1, last}, []int64{page.Oldest, page.Last})
	b.put(t, j.ID, job.Running) // never numbered, so no reader has seen it
	n, page = remove(later, 10)
	require.EqualValues(t, 2, n)
	require.Greater(t, page.Oldest, last, "every reader must start again")
	require.Equal(t, page.Oldest, page.Last)
}

func TestChanges_usesIndexes(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	j := b.insert(t)
	_, err := b.pool.Exec(t.Context(), `INSERT INTO job_change (job_id, before, after) SELECT 'job_' || i, c.before, c.after FROM job_change c, generate_series(1, 50000) i`)
	require.NoError(t, err)
	last, err := db.NumberChanges(t.Context(), b.pool)
	require.NoError(t, err)
	b.put(t, j.ID, job.Running)
	_, err = b.db.OwnerPool("jobs").Exec(t.Context(), `ANALYZE job_change`)
	require.NoError(t, err)
	for sql, args := range map[string][]any{
		`SELECT c.seq, EXISTS (SELECT FROM job_change later WHERE later.job_id = c.job_id AND later.id > c.id) FROM job_change c WHERE c.seq > $1 ORDER BY c.seq LIMIT 100`: {last - 100},
		`SELECT EXISTS (SELECT FROM job_change WHERE seq IS NULL)`:           nil,
		`SELECT id FROM job_change WHERE seq IS NULL ORDER BY id LIMIT 1000`: nil,
		`SELECT id FROM job_change WHERE at < $1 ORDER BY at LIMIT 1000`:     {clock.Real().Now().Add(-time.Hour)},
	} {
		var plan string
		rows, err := b.pool.Query(t.Context(), `EXPLAIN `+sql, args...)
		require.NoError(t, err)
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			plan += line + "\n"
		}
		require.NoError(t, rows.Err())
		require.NotContains(t, plan, "Seq Scan", plan)
	}
}
