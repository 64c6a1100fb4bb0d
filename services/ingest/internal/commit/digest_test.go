package commit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
)

// saying is an item with a body.
func saying(key Key, body string) Item {
	item := noted("run_1", "s", key, 1)
	item.Digest = DigestOf([]byte(body))
	return item
}

// queued stores items as one group and answers what each was told.
func (b *bench) queued(items ...Item) []result {
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

func TestDigestsTellBodiesApart(t *testing.T) {
	t.Parallel()
	seen := map[Digest]string{}
	for _, body := range []string{"", " ", "{}", "{ }", "{}\n", `{"a":1}`, `{"a":1.0}`} {
		d := DigestOf([]byte(body))
		require.NotContains(t, seen, d, body)
		require.Equal(t, d, DigestOf([]byte(body)), "of the same bytes it is the same")
		seen[d] = body
	}
	// Written into databases: it may never become another.
	require.Equal(t, "e3b0c44298fc1c149afbf4c8996fb924", fmt.Sprintf("%x", DigestOf(nil)))
}

func TestOfOneGroupTheFirstBodyOfANumberIsStored(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	w1, w2 := Key{"w", 1}, Key{"w", 2}
	got := b.queued(saying(w1, "a"), saying(w1, "b"), saying(w1, "a"), saying(w2, "b"), saying(Key{}, "c"), saying(Key{}, "d"))
	require.Equal(t, result{}, got[0])
	require.True(t, fault.HasCode(got[1].err, CodeKey) && fault.Is(got[1].err, fault.Conflict), "%v", got[1].err)
	require.Equal(t, []result{{repeated: true}, {}, {}, {}}, got[2:])
	require.Equal(t, 4, b.count(`SELECT count(*) FROM hparam_history`))
	require.Equal(t, 2, b.count(`SELECT count(*) FROM request_digest`), "what has no number has no digest")
	got = b.queued(saying(w2, "a"), saying(w2, "b"))
	require.True(t, fault.HasCode(got[0].err, CodeKey))
	require.Equal(t, result{repeated: true}, got[1])
}

func TestAReusedNumberCostsItsGroupNothing(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	b.queued(saying(Key{"w", 1}, "a"))
	var tries atomic.Int64
	counting := saying(Key{"w", 2}, "b")
	write := counting.Write
	counting.Write = func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *Run) error {
		tries.Add(1)
		return write(ctx, tx, batch, r)
	}
	got := b.queued(saying(Key{"w", 1}, "x"), counting, saying(Key{"w", 1}, "y"))
	require.NoError(t, got[1].err)
	require.EqualValues(t, 1, tries.Load(), "the others are stored at the first try")
}

func TestANumberThatFailedIsNotBoundToItsBody(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	broken := errors.New("broken")
	bad := saying(Key{"w", 1}, "a")
	bad.Write = func(context.Context, pgx.Tx, *pgx.Batch, *Run) error { return broken }
	require.ErrorIs(t, b.queued(bad)[0].err, broken)
	require.Zero(t, b.count(`SELECT count(*) FROM request_digest`))
	require.Equal(t, []result{{}}, b.queued(saying(Key{"w", 1}, "b")))
}

func TestOfManyWhoClaimANumberOneBodyGoesOn(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	for seq := int64(1); seq <= 10; seq++ {
		var all sync.WaitGroup
		var mu sync.Mutex
		let := map[int]int{}
		for i := range 12 {
			all.Go(func() {
				stored, err := Claim(t.Context(), b.pool, "run_1", "s", Key{"w", seq}, DigestOf([]byte{byte(i % 4)}))
				if err != nil && !fault.HasCode(err, CodeKey) || stored {
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
			require.Equal(t, []result{{}}, b.queued(saying(Key{"w", seq}, string([]byte{byte(body)}))))
			stored, err := Claim(t.Context(), b.pool, "run_1", "s", Key{"w", seq}, DigestOf([]byte{byte(body)}))
			require.NoError(t, err)
			require.True(t, stored)
		}
	}
	require.Equal(t, 10, b.count(`SELECT count(*) FROM request_digest`))
}

func TestAClaimBindsItsNumberForTheTransactionToo(t *testing.T) {
	t.Parallel()
	b := open(t, "run_1")
	_, err := Claim(t.Context(), b.pool, "run_1", "s", Key{"w", 1}, DigestOf([]byte("a")))
	require.NoError(t, err)
	got := b.queued(saying(Key{"w", 1}, "b"))
	require.True(t, fault.HasCode(got[0].err, CodeKey), "%v", got[0].err)
	require.Zero(t, b.count(`SELECT count(*) FROM hparam_history`))
	require.Equal(t, []result{{}}, b.queued(saying(Key{"w", 1}, "a")))
}

func TestTheDigestsAreAddedToWhatIsThere(t *testing.T) {
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
	b := &bench{t: t, pool: pool, Committer: New(pool, nil, func([]string) {})}
	b.clock = fixed{}
	for _, seq := range []int64{1, 2, 4} {
		require.Equal(t, []result{{repeated: true}, {repeated: true}}, b.queued(saying(Key{"w", seq}, "a"), saying(Key{"w", seq}, "b")))
		stored, err := Claim(t.Context(), pool, "run_1", "s", Key{"w", seq}, DigestOf([]byte("c")))
		require.NoError(t, err)
		require.True(t, stored)
	}
	require.Zero(t, b.count(`SELECT count(*) FROM request_digest`), "a repeat binds an old number to nothing")
	require.Equal(t, []result{{}}, b.queued(saying(Key{"w", 3}, "a")), "the gap is filled by a request of today")
	require.True(t, fault.HasCode(b.queued(saying(Key{"w", 3}, "b"))[0].err, CodeKey))
	require.Equal(t, 4, b.count(`SELECT seq FROM mark`))
}
