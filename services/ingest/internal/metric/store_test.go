package metric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness is a database with one run, and a committer.
type harness struct {
	t     testing.TB
	pool  *pgxpool.Pool
	owner func() *pgxpool.Pool
	// keys is the cache of the replica that stores the next request.
	keys  *Keys
	store *groupcommit.Committer
}

func open(t testing.TB) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files})
	b := &harness{t: t, pool: base.Pool("ingest"), owner: sync.OnceValue(func() *pgxpool.Pool { return base.OwnerPool("ingest") }), keys: NewKeys()}
	_, err = b.pool.Exec(t.Context(), `INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at)
		VALUES ('run_1', 'job', 'usr', 'prj', 'team', 'team', now())`)
	require.NoError(t, err)
	b.store = groupcommit.New(b.pool, clock.Real(), &groupcommit.Quota{}, func([]string) {})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = b.store.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

// put stores the points of a request of an attempt.
func (b *harness) put(attempt int32, c *decode.Columns) error {
	b.t.Helper()
	_, err := b.store.Store(b.t.Context(), groupcommit.Item{RunID: "run_1", Attempt: attempt, Write: Write(b.keys, c)})
	return err
}

// counters returns the run's counters: batches and keys.
func (b *harness) counters() [2]int {
	b.t.Helper()
	var n [2]int
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT batch_seq, key_count FROM run`).Scan(&n[0], &n[1]))
	return n
}

// columns returns a request with the given points. The arguments are the key, the step and the value of each point. The
// time of a point is its index, in microseconds since 1970.
func columns(points ...any) *decode.Columns {
	var text strings.Builder
	for i := 0; i < len(points); i += 3 {
		if i > 0 {
			text.WriteByte(',')
		}
		key, _ := json.Marshal(points[i])
		fmt.Fprintf(&text, `{"key":%s,"step":%d,"value":%v,"ts":"1970-01-01T00:00:00.%06dZ"}`, key, points[i+1], points[i+2], i/3)
	}
	c := &decode.Columns{}
	if err := decode.Metrics([]byte(`{"run_id":"run_1","points":[`+text.String()+`]}`), c); err != nil {
		panic(err)
	}
	return c
}

// allPoints returns the points of the series with the given keys as text, or of all series if no keys are given.
func (b *harness) allPoints(keys ...string) []string {
	b.t.Helper()
	series, more, err := NewStore(b.pool, run.NewGate()).List(b.t.Context(), "run_1", keys, request.Page{Limit: request.MaxLimit})
	require.NoError(b.t, err)
	require.False(b.t, more)
	out := []string{}
	for _, s := range series {
		for _, p := range s.Points {
			out = append(out, fmt.Sprintf("%s %d %v/%d", s.Key, p.Step, p.Value, p.Attempt))
		}
	}
	return out
}

func TestStore_List_laterPointAndNewerAttemptWin(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.Empty(t, b.allPoints())
	require.NoError(t, b.put(1, columns("loss", 1, 1.0, "loss", 2, 2.0, "loss", 2, 2.5, "loss", 4, 4.0)))
	require.NoError(t, b.put(1, columns("loss", 1, 1.5)))
	require.NoError(t, b.put(1, columns("lr", 9, 0.1)))
	require.Equal(t, []string{"loss 1 1.5/1", "loss 2 2.5/1", "loss 4 4/1", "lr 9 0.1/1"}, b.allPoints())
	require.NoError(t, b.put(2, columns("loss", 3, 3.0)))
	require.Equal(t, []string{"loss 1 1.5/1", "loss 2 2.5/1", "loss 3 3/2"}, b.allPoints(), "from the lowest step of the newer attempt on, the older points of every key are hidden")
	require.NoError(t, b.put(3, columns("loss", -5, 0.0)))
	require.Equal(t, []string{"loss -5 0/3"}, b.allPoints("loss"))
	var kept int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT sum(points) FROM metric_batch`).Scan(&kept))
	require.Equal(t, 8, kept, "no stored point is deleted")
}

func TestStore_List_returnsSpecialValues(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns("a", 1, `"NaN"`, "a", 2, "-Infinity", "a", 3, `"Infinity"`, "a", 4, "-0.0", "a", 5, "5e-324", "a", 6, "1.7976931348623157e308")))
	series, _, err := NewStore(b.pool, run.NewGate()).List(t.Context(), "run_1", nil, request.Page{Limit: 1})
	require.NoError(t, err)
	points := series[0].Points
	require.True(t, math.IsNaN(points[0].Value))
	require.Equal(t, []float64{math.Inf(-1), math.Inf(1), 0, 5e-324, math.MaxFloat64}, []float64{points[1].Value, points[2].Value, points[3].Value, points[4].Value, points[5].Value})
	require.True(t, math.Signbit(points[3].Value))
	for i, p := range points {
		require.EqualValues(t, i, p.Micros)
	}
}

func TestStore_List_sortsKeysOfAnyText(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns("b", 1, 1, "a\x01", 1, 2, "ü", 1, 3, "A", 1, 4)))
	require.NoError(t, b.put(1, columns("a", 1, 5, "b", 2, 6)))
	require.Equal(t, []string{"A 1 4/1", "a 1 5/1", "a\x01 1 2/1", "b 1 1/1", "b 2 6/1", "ü 1 3/1"}, b.allPoints())
	require.Equal(t, []string{"a\x01 1 2/1", "ü 1 3/1"}, b.allPoints("ü", "a\x01", "none", "ü"))
	require.Empty(t, b.allPoints("none"))
	store := NewStore(b.pool, run.NewGate())
	var walked []string
	for offset := 0; ; offset += 2 {
		series, more, err := store.List(t.Context(), "run_1", nil, request.Page{Limit: 2, Offset: offset})
		require.NoError(t, err)
		for _, s := range series {
			walked = append(walked, s.Key)
		}
		if !more {
			break
		}
	}
	require.Equal(t, []string{"A", "a", "a\x01", "b", "ü"}, walked, "pages hold each key once")
	other, _, err := store.List(t.Context(), "run_2", nil, request.Page{Limit: 2})
	require.NoError(t, err)
	require.Empty(t, other)
}

func TestWrite_splitsRequestIntoRows(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns()))
	require.NoError(t, b.put(1, columns("a", 1, 1, "a", 2, 2)))
	require.Equal(t, [2]int{1, 1}, b.counters(), "a request without points adds no row")
	long := strings.Repeat("k", decode.MaxKey)
	many := make([]any, 0, 3*decode.MaxPoints)
	for i := range decode.MaxPoints {
		many = append(many, long, i, i)
	}
	require.NoError(t, b.put(1, columns(many...)))
	require.Equal(t, [2]int{3, 2}, b.counters(), "a row holds points of at most about 2 MiB")
	store := NewStore(b.pool, run.NewGate())
	total := 0
	for seq := int64(1); seq < 3; seq++ {
		batches, err := store.After(t.Context(), "run_1", seq)
		require.NoError(t, err)
		require.Len(t, batches, int(3-seq))
		require.Equal(t, seq+1, batches[0].Seq)
		require.LessOrEqual(t, len(batches[0].Points)*(decode.MaxKey+pointText), maxBatchText+decode.MaxKey+pointText)
		for i, p := range batches[0].Points {
			require.Equal(t, long, p.Key)
			require.EqualValues(t, total+i, p.Step, "no point is missing between two rows")
		}
		total += len(batches[0].Points)
	}
	require.Equal(t, decode.MaxPoints, total)
}

func TestStore_After_returnsBatchesInOrder(t *testing.T) {
	t.Parallel()
	b := open(t)
	const requests = followed + 5
	for i := range requests {
		require.NoError(t, b.put(1, columns(fmt.Sprintf("k%d", i), i, i)))
	}
	store := NewStore(b.pool, run.NewGate())
	var at int64
	var pages []int
	for {
		batches, err := store.After(t.Context(), "run_1", at)
		require.NoError(t, err)
		if len(batches) == 0 {
			break
		}
		for _, batch := range batches {
			require.Equal(t, at+1, batch.Seq)
			require.Equal(t, []KeyedPoint{{Key: fmt.Sprintf("k%d", at), Point: Point{Key: int32(at + 1), Step: at, Value: float64(at)}}}, batch.Points)
			at = batch.Seq
		}
		pages = append(pages, len(batches))
	}
	require.Equal(t, []int{followed, 5}, pages)
	behind, err := store.After(t.Context(), "run_1", requests+100)
	require.NoError(t, err)
	require.Empty(t, behind)
}

func TestStore_After_boundsPoints(t *testing.T) {
	t.Parallel()
	b := open(t)
	const requests = 8
	points := make([]any, 0, 3*decode.MaxPoints)
	for i := range decode.MaxPoints {
		points = append(points, "a", i, i)
	}
	for range requests {
		require.NoError(t, b.put(1, columns(points...)))
	}
	store := NewStore(b.pool, run.NewGate())
	first, err := store.After(t.Context(), "run_1", 0)
	require.NoError(t, err)
	require.Len(t, first, followedPoints/decode.MaxPoints)
	rest, err := store.After(t.Context(), "run_1", first[len(first)-1].Seq)
	require.NoError(t, err)
	require.Len(t, rest, requests-len(first), "the next call continues")
}

func TestStore_After_corruptRowIsError(t *testing.T) {
	t.Parallel()
	b := open(t)
	_, err := b.pool.Exec(t.Context(), `INSERT INTO metric_batch (run_id, seq, attempt, points, data, created_at) VALUES ('run_1', 1, 1, 1, '', now())`)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `INSERT INTO metric_key (run_id, id, key) VALUES ('run_1', 1, 'a')`)
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"empty": {}, "another version": {9, 1}, "cut": Pack([]Point{{1, 2, 3, 4}})[:5], "longer": append(Pack([]Point{{1, 2, 3, 4}}), 0),
		"unknown key": Pack([]Point{{Key: 7}}), "key 0": Pack([]Point{{Key: 0}}), "negative key": Pack([]Point{{Key: -1}}),
	} {
		_, err = b.pool.Exec(t.Context(), `UPDATE metric_batch SET data = $1`, data)
		require.NoError(t, err)
		_, err = NewStore(b.pool, run.NewGate()).After(t.Context(), "run_1", 0)
		require.ErrorIs(t, err, errBatch, name)
	}
}

func TestStore_List_boundsPoints(t *testing.T) {
	t.Parallel()
	b := open(t)
	const requests = 10
	for n := range requests {
		points := make([]any, 0, 3*decode.MaxPoints)
		for i := range decode.MaxPoints {
			points = append(points, []string{"a", "b"}[i%2], n*decode.MaxPoints+i, i)
		}
		require.NoError(t, b.put(1, columns(points...)))
	}
	series, _, err := NewStore(b.pool, run.NewGate()).List(t.Context(), "run_1", nil, request.Page{Limit: 2})
	require.NoError(t, err)
	for i, s := range series {
		require.LessOrEqual(t, len(s.Points), maxPoints/2)
		require.Greater(t, len(s.Points), maxPoints/4, "the response has about as many points as fit")
		require.EqualValues(t, i, s.Points[0].Step, "the first point stays")
		require.EqualValues(t, requests*decode.MaxPoints-2+i, s.Points[len(s.Points)-1].Step, "the last point stays")
	}
}

func TestWrite_failedGroupCachesNoKeys(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns("a", 1, 1)))
	failed := errors.New("a write after the points failed")
	_, err := b.store.Store(t.Context(), groupcommit.Item{
		RunID: "run_1", Attempt: 1, Write: func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
			return errors.Join(Write(b.keys, columns("lost", 1, 1, "also", 1, 1))(ctx, tx, batch, r), failed)
		},
	})
	require.ErrorIs(t, err, failed)
	require.Equal(t, [2]int{1, 1}, b.counters())
	require.NoError(t, b.put(1, columns("b", 1, 1)))
	require.NoError(t, b.put(1, columns("c", 1, 1, "a", 2, 2)))
	require.Equal(t, [2]int{3, 3}, b.counters(), "ids have no gaps")
	require.Equal(t, []string{"a 1 1/1", "a 2 2/1", "b 1 1/1", "c 1 1/1"}, b.allPoints())
}

func TestWrite_loadsKeysOfOtherReplicas(t *testing.T) {
	t.Parallel()
	b := open(t)
	mine, theirs := NewKeys(), NewKeys()
	for i, keys := range []*Keys{mine, theirs, mine, theirs, NewKeys()} {
		b.keys = keys
		require.NoError(t, b.put(1, columns(fmt.Sprintf("k%d", i), i, i, "same", i, i)))
	}
	require.Equal(t, [2]int{5, 6}, b.counters())
	require.Len(t, b.allPoints("same"), 5)
	for i := range 5 {
		require.Equal(t, []string{fmt.Sprintf("k%d %d %d/1", i, i, i)}, b.allPoints(fmt.Sprintf("k%d", i)))
	}
}

func TestWrite_boundsKeysOfRun(t *testing.T) {
	t.Parallel()
	b := open(t)
	full := make([]any, 0, 3*MaxKeys)
	for i := range MaxKeys {
		full = append(full, fmt.Sprintf("k%d", i), 1, 1)
	}
	require.NoError(t, b.put(1, columns(full...)))
	err := b.put(1, columns("k1", 2, 2, "one more", 1, 1))
	require.True(t, fault.HasCode(err, "metric_keys") && fault.Is(err, fault.Refused), "%v", err)
	require.Len(t, b.allPoints("k1"), 1, "no point of the rejected request is stored")
	require.NoError(t, b.put(1, columns("k1", 2, 2)))
	require.Len(t, b.allPoints("k1"), 2)
}
