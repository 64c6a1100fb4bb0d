package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// keyedItem returns an item of run_1 with a key and a body.
func keyedItem(key Key, body string) Item {
	item := insertItem("run_1", "s", key, 1)
	item.Digest = DigestOf([]byte(body))
	return item
}

// storeAsGroup stores items as one group and returns their results.
func (b *harness) storeAsGroup(items ...Item) []result {
	b.t.Helper()
	group := make([]*waiting, len(items))
	for i, item := range items {
		group[i] = &waiting{Item: item, result: make(chan result, 1)}
	}
	b.group(b.t.Context(), group)
	out := make([]result, len(group))
	for i, w := range group {
		out[i] = <-w.result
	}
	return out
}

func TestDigestOf_differentBodiesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[Digest]string{}
	for _, body := range []string{"", " ", "{}", "{ }", "{}\n", `{"a":1}`, `{"a":1.0}`} {
		d := DigestOf([]byte(body))
		require.NotContains(t, seen, d, body)
		require.Equal(t, d, DigestOf([]byte(body)), "the same bytes have the same digest")
		seen[d] = body
	}
	// Digests are stored in databases, so the result of DigestOf for a body must never change.
	require.Equal(t, "e3b0c44298fc1c149afbf4c8996fb924", fmt.Sprintf("%x", DigestOf(nil)))
}

func TestCommitter_group_firstBodyOfReusedNumberWins(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	w1, w2 := Key{"w", 1}, Key{"w", 2}
	got := b.storeAsGroup(keyedItem(w1, "a"), keyedItem(w1, "b"), keyedItem(w1, "a"), keyedItem(w2, "b"), keyedItem(Key{}, "c"), keyedItem(Key{}, "d"))
	require.Equal(t, result{}, got[0])
	require.True(t, fault.HasCode(got[1].err, idempotency.CodeKey) && fault.Is(got[1].err, fault.Conflict), "%v", got[1].err)
	require.Equal(t, []result{{repeated: true}, {}, {}, {}}, got[2:])
	require.Equal(t, 4, b.count(`SELECT count(*) FROM hparam_history`))
	require.Equal(t, 2, b.count(`SELECT count(*) FROM request_digest`), "a request without a number has no digest")
	got = b.storeAsGroup(keyedItem(w2, "a"), keyedItem(w2, "b"))
	require.True(t, fault.HasCode(got[0].err, idempotency.CodeKey))
	require.Equal(t, result{repeated: true}, got[1])
}

func TestCommitter_group_reusedNumberDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	b.storeAsGroup(keyedItem(Key{"w", 1}, "a"))
	var tries atomic.Int64
	counting := keyedItem(Key{"w", 2}, "b")
	write := counting.Write
	counting.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
		tries.Add(1)
		return write(ctx, tx, batch, r)
	}
	got := b.storeAsGroup(keyedItem(Key{"w", 1}, "x"), counting, keyedItem(Key{"w", 1}, "y"))
	require.NoError(t, got[1].err)
	require.EqualValues(t, 1, tries.Load(), "the other items of the group are stored at the first try")
}

func TestCommitter_group_failedRequestDoesNotBindNumber(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	broken := errors.New("broken")
	bad := keyedItem(Key{"w", 1}, "a")
	bad.Write = func(context.Context, pgx.Tx, *pgx.Batch, *Run) error { return broken }
	require.ErrorIs(t, b.storeAsGroup(bad)[0].err, broken)
	require.Zero(t, b.count(`SELECT count(*) FROM request_digest`))
	require.Equal(t, []result{{}}, b.storeAsGroup(keyedItem(Key{"w", 1}, "b")))
}

func TestClaim_concurrentBodiesOnlyOneSucceeds(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	for seq := int64(1); seq <= 10; seq++ {
		var all sync.WaitGroup
		var mu sync.Mutex
		let := map[int]int{}
		for i := range 12 {
			all.Go(func() {
				stored, err := b.Claim(t.Context(), &Item{RunID: "run_1", Stream: "s", Key: Key{"w", seq}, Digest: DigestOf([]byte{byte(i % 4)})})
				if err != nil && !fault.HasCode(err, idempotency.CodeKey) || stored {
					t.Error(stored, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					let[i%4]++
				}
			})
		}
		all.Wait()
		require.Len(t, let, 1)
		for body, times := range let {
			require.Equal(t, 3, times)
			require.Equal(t, []result{{}}, b.storeAsGroup(keyedItem(Key{"w", seq}, string([]byte{byte(body)}))))
			stored, err := b.Claim(t.Context(), &Item{RunID: "run_1", Stream: "s", Key: Key{"w", seq}, Digest: DigestOf([]byte{byte(body)})})
			require.NoError(t, err)
			require.True(t, stored)
		}
	}
	require.Equal(t, 10, b.count(`SELECT count(*) FROM request_digest`))
}

func TestClaim_bindsNumberForStore(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	_, err := b.Claim(t.Context(), &Item{RunID: "run_1", Stream: "s", Key: Key{"w", 1}, Digest: DigestOf([]byte("a"))})
	require.NoError(t, err)
	got := b.storeAsGroup(keyedItem(Key{"w", 1}, "b"))
	require.True(t, fault.HasCode(got[0].err, idempotency.CodeKey), "%v", got[0].err)
	require.Zero(t, b.count(`SELECT count(*) FROM hparam_history`))
	require.Equal(t, []result{{}}, b.storeAsGroup(keyedItem(Key{"w", 1}, "a")))
}

func TestMigration_digestsKeepOldRequestsAsRepeats(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	first, err := fs.ReadFile(files, "00001_run_data.sql")
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: fstest.MapFS{"00001_run_data.sql": {Data: first}}})
	pool := base.Pool("ingest")
	for _, sql := range []string{
		`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at) VALUES ('run_1', 'job', 'usr', 'prj', 'team', 'team', now())`,
		`INSERT INTO mark (run_id, stream, writer, seq) VALUES ('run_1', 's', 'w', 2)`,
		`INSERT INTO ahead (run_id, stream, writer, seq) VALUES ('run_1', 's', 'w', 4)`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	require.NoError(t, migrate.Up(t.Context(), base.OwnerURL("ingest"), "ingest", files))
	require.NoError(t, migrate.Check(t.Context(), pool, "ingest", files))
	b := &harness{t: t, pool: pool, Committer: New(pool, nil, &Quota{}, func([]string) {})}
	require.Equal(t, 1, b.count(`SELECT count(*) FROM run WHERE score_count IS NULL AND rollout_count IS NULL`), "no existing row is changed")
	b.clock = fixedClock{}
	for _, seq := range []int64{1, 2, 4} {
		require.Equal(t, []result{{repeated: true}, {repeated: true}}, b.storeAsGroup(keyedItem(Key{"w", seq}, "a"), keyedItem(Key{"w", seq}, "b")))
		stored, err := b.Claim(t.Context(), &Item{RunID: "run_1", Stream: "s", Key: Key{"w", seq}, Digest: DigestOf([]byte("c"))})
		require.NoError(t, err)
		require.True(t, stored)
	}
	require.Zero(t, b.count(`SELECT count(*) FROM request_digest`), "a repeat of an old request stores no digest")
	require.Equal(t, []result{{}}, b.storeAsGroup(keyedItem(Key{"w", 3}, "a")), "a new request fills the gap")
	require.True(t, fault.HasCode(b.storeAsGroup(keyedItem(Key{"w", 3}, "b"))[0].err, idempotency.CodeKey))
	require.Equal(t, 4, b.count(`SELECT seq FROM mark`))
}

func TestDeleteDigests_deletesOldestUpToLimit(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	past := clock.NewFake(now.Add(-5 * time.Hour))
	b.clock = past
	for seq := range int64(5) {
		_, err := b.Claim(t.Context(), &Item{RunID: "run_1", Stream: "s", Key: Key{"claimed", seq + 1}, Digest: DigestOf([]byte("a"))})
		require.NoError(t, err)
		past.Advance(time.Hour)
	}
	require.Equal(t, []result{{}}, b.storeAsGroup(keyedItem(Key{"stored", 1}, "a")))
	oldest := func() (oldest time.Time) {
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT min(created_at) FROM request_digest`).Scan(&oldest))
		return oldest
	}
	n, err := DeleteDigests(t.Context(), b.pool, now.Add(-90*time.Minute), 3)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	require.WithinDuration(t, now.Add(-2*time.Hour), oldest(), 0)
	n, err = DeleteDigests(t.Context(), b.pool, now.Add(time.Second), 3)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	require.Equal(t, []result{{repeated: true}, {repeated: true}}, b.storeAsGroup(keyedItem(Key{"stored", 1}, "a"), keyedItem(Key{"stored", 1}, "b")),
		"a stored request is still recognized as a repeat")
	require.Equal(t, 1, b.count(`SELECT count(*) FROM hparam_history`))
}
