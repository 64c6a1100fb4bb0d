package groupcommit

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness is a committer with a database that contains some runs.
type harness struct {
	*Committer

	t     *testing.T
	pool  *pgxpool.Pool
	admin *pgxpool.Pool

	mu   sync.Mutex
	news []string
}

func open(t *testing.T, runs ...string) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files})
	admin, err := pgxpool.New(t.Context(), base.AdminURL().Reveal())
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	b := &harness{t: t, pool: base.Pool("ingest"), admin: admin}
	b.Committer = New(b.pool, clock.Real(), &Quota{}, func(ids []string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.news = append(b.news, ids...)
	})
	for _, id := range runs {
		_, err := b.pool.Exec(t.Context(), `INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at)
			VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now())`, id)
		require.NoError(t, err)
	}
	return b
}

// start runs the committer until the test ends or stop is called.
func (b *harness) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = b.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	b.t.Cleanup(stop)
	return stop
}

// insertItem returns an item that inserts a row into hparam_history whenever it is stored, so that the number of rows
// is the number of writes.
func insertItem(run, stream string, key Key, attempt int32) Item {
	return Item{RunID: run, Stream: stream, Key: key, Attempt: attempt, Write: func(_ context.Context, _ pgx.Tx, batch *pgx.Batch, r *Run) error {
		r.LineSeq++
		r.Fresh = true
		batch.Queue(`INSERT INTO hparam_history (run_id, key, value, attempt, updated_at, replaced_at) VALUES ($1, $2, $3, $4, $5, $5)`,
			r.ID, []byte(key.Writer), stream, key.Seq, r.Now)
		return nil
	}}
}

func (b *harness) count(sql string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

func TestCommitter_Store_anyOrderStoresOnce(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	b.start()
	const requests = 60
	order := rand.New(rand.NewPCG(1, 2)).Perm(2 * requests) // each request occurs twice
	repeats, have := 0, map[int64]bool{}
	for _, n := range order {
		key := Key{Writer: "w", Seq: int64(n%requests) + 1}
		before, err := b.Claim(t.Context(), &Item{RunID: "run_1", Stream: "logs", Key: key, Digest: Digest{}})
		require.NoError(t, err)
		require.Equal(t, have[key.Seq], before)
		repeated, err := b.Store(t.Context(), insertItem("run_1", "logs", key, 1))
		require.NoError(t, err)
		require.Equal(t, have[key.Seq], repeated)
		if repeated {
			repeats++
		}
		have[key.Seq] = true
		low := int64(0)
		for have[low+1] {
			low++
		}
		marks, err := Watermark(t.Context(), b.pool, "run_1")
		require.NoError(t, err)
		require.Equal(t, low, marks["logs"]["w"], "the mark is the number before the first gap")
	}
	require.Equal(t, requests, repeats)
	require.Equal(t, requests, b.count(`SELECT count(*) FROM hparam_history`))
	require.Equal(t, requests, b.count(`SELECT line_seq FROM run`))
	require.Zero(t, b.count(`SELECT count(*) FROM ahead`), "rows that the mark has passed are deleted")
}

func TestCommitter_Store_concurrentRequestsStoredOnce(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1", "run_2", "run_3")
	b.start()
	var all sync.WaitGroup
	for _, n := range rand.New(rand.NewPCG(3, 4)).Perm(360) {
		all.Go(func() {
			run := []string{"run_1", "run_2", "run_3"}[n%3]
			key := Key{Writer: []string{"v", "w"}[n/3%2], Seq: int64(n/6)%30 + 1}
			if _, err := b.Store(t.Context(), insertItem(run, "metrics", key, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 180, b.count(`SELECT count(*) FROM hparam_history`))
	require.Equal(t, 180, b.count(`SELECT sum(seq) FROM (SELECT count(*) AS seq FROM hparam_history GROUP BY run_id, key, attempt) t`))
	for _, run := range []string{"run_1", "run_2", "run_3"} {
		marks, err := Watermark(t.Context(), b.pool, run)
		require.NoError(t, err)
		require.Equal(t, map[string]map[string]int64{"metrics": {"v": 30, "w": 30}}, marks)
	}
	require.Zero(t, b.count(`SELECT count(*) FROM ahead`))
}

func TestCommitter_group_failingItemFailsAlone(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	broken := errors.New("broken")
	bad := Item{RunID: "run_1", Key: Key{"bad", 1}, Stream: "s", Attempt: 1, Write: func(context.Context, pgx.Tx, *pgx.Batch, *Run) error { return broken }}
	sql := Item{RunID: "run_1", Attempt: 1, Write: func(_ context.Context, _ pgx.Tx, batch *pgx.Batch, _ *Run) error {
		batch.Queue(`SELECT 1 / 0`)
		return nil
	}}
	items := []Item{
		insertItem("run_1", "s", Key{"w", 1}, 1), bad, insertItem("run_1", "s", Key{"w", 2}, 1), sql, insertItem("run_9", "s", Key{"w", 1}, 1),
		insertItem("run_1", "s", Key{"w", 2}, 1),
	}
	got := b.storeAsGroup(items...)
	require.Equal(t, []result{{}, {err: broken}, {}}, got[:3])
	require.ErrorContains(t, got[3].err, "division by zero")
	require.True(t, fault.Is(got[4].err, fault.Absent), "%v", got[4].err)
	require.Equal(t, result{repeated: true}, got[5])
	require.Equal(t, 2, b.count(`SELECT count(*) FROM hparam_history`))
	known, err := b.Claim(t.Context(), &Item{RunID: "run_1", Stream: "s", Key: Key{"bad", 1}, Digest: Digest{}})
	require.NoError(t, err)
	require.False(t, known, "a failed request may be sent again")
}

func TestCommitter_Store_rejectsReplacedAttempt(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	b.start()
	store := func(item Item) error { _, err := b.Store(t.Context(), item); return err }
	require.NoError(t, store(insertItem("run_1", "s", Key{"w", 1}, 1)))
	require.NoError(t, store(insertItem("run_1", "s", Key{"v", 1}, 2)))
	err := store(insertItem("run_1", "s", Key{"w", 2}, 1))
	require.True(t, fault.HasCode(err, "attempt_replaced") && fault.Is(err, fault.Conflict), "%v", err)
	require.NoError(t, store(insertItem("run_1", "s", Key{"w", 1}, 1)), "a repeat of a stored request succeeds, even from a replaced attempt")
	unfenced := insertItem("run_1", "s", Key{"w", 2}, 1)
	unfenced.Unfenced = true
	require.NoError(t, store(unfenced))
	require.Equal(t, 2, b.count(`SELECT attempt FROM run`), "an older attempt does not replace the newest one")
}

func TestCommitter_Store_notifiesFollowersAfterCommit(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1", "run_2")
	b.start()
	committed := make(chan int, 1)
	item := insertItem("run_1", "s", Key{}, 1)
	write := item.Write
	item.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
		r.Committed(func() { committed <- b.count(`SELECT count(*) FROM hparam_history`) })
		return write(ctx, tx, batch, r)
	}
	_, err := b.Store(t.Context(), item)
	require.NoError(t, err)
	require.Equal(t, 1, <-committed)
	_, err = b.Store(t.Context(), Item{RunID: "run_2", Attempt: 1})
	require.NoError(t, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Equal(t, []string{"run_1"}, b.news, "followers of a run without new data are not notified")
}

func TestCommitter_Store_alwaysReturns(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Store(ctx, insertItem("run_1", "s", Key{}, 1))
	require.Error(t, err, "Store returns when its context ends")
	for len(b.lanes[0]) < maxQueue {
		b.lanes[0] <- &waiting{result: make(chan result, 1)}
	}
	for len(b.lanes[1]) < maxQueue {
		b.lanes[1] <- &waiting{result: make(chan result, 1)}
	}
	_, err = b.Store(t.Context(), insertItem("run_1", "s", Key{}, 1))
	require.True(t, fault.HasCode(err, "ingest_busy"), "%v", err)
	stopped := open(t, "run_1")
	stopped.start()()
	_, err = stopped.Store(t.Context(), insertItem("run_1", "s", Key{}, 1))
	require.True(t, fault.HasCode(err, "draining"), "%v", err)
}

func TestMark_add_stopsAtFirstGap(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		seqs []int64
		mark int64
		has  []int64
		not  []int64
	}{
		"none":           {nil, 0, nil, []int64{1, 2}},
		"in order":       {[]int64{1, 2, 3}, 3, []int64{1, 2, 3}, []int64{4}},
		"a gap":          {[]int64{1, 3}, 1, []int64{1, 3}, []int64{2, 4}},
		"backwards":      {[]int64{3, 2, 1}, 3, []int64{1, 2, 3}, []int64{4}},
		"a gap is left":  {[]int64{5, 2, 1}, 2, []int64{1, 2, 5}, []int64{3, 4, 6}},
		"filled, in two": {[]int64{4, 2, 1, 3}, 4, []int64{1, 2, 3, 4}, []int64{5}},
	}
	for name, c := range cases {
		m := &mark{ahead: map[int64]bool{}}
		for _, seq := range c.seqs {
			require.False(t, m.has(seq), name)
			m.add(seq)
		}
		require.Equal(t, c.mark, m.seq, name)
		for _, seq := range c.has {
			require.True(t, m.has(seq), "%s: %d", name, seq)
		}
		for _, seq := range c.not {
			require.False(t, m.has(seq), "%s: %d", name, seq)
		}
	}
}

func TestGather_boundsGroup(t *testing.T) {
	t.Parallel()
	lane := make(chan *waiting, maxQueue)
	for range maxGroup + 10 {
		lane <- &waiting{}
	}
	require.Len(t, gather(&waiting{}, lane), maxGroup)
	require.Len(t, lane, 11)
	require.Len(t, gather(&waiting{}, lane), 12)
	require.Empty(t, lane)
}
