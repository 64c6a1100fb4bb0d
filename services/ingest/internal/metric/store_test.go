package metric

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/commit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

// bench is the tables, one run in them, and replicas that store.
type bench struct {
	t    *testing.T
	pool *pgxpool.Pool
	// keys are what the replica remembers that stores next.
	keys  *Keys
	store *commit.Committer
}

func open(t *testing.T) *bench {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files})
	b := &bench{t: t, pool: base.Pool("ingest"), keys: NewKeys()}
	_, err = b.pool.Exec(t.Context(), `INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at)
		VALUES ('run_1', 'job', 'usr', 'prj', 'team', 'team', now())`)
	require.NoError(t, err)
	b.store = commit.New(b.pool, clock.Real(), func([]string) {})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = b.store.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

// put stores a request of an attempt.
func (b *bench) put(attempt int32, c *decode.Columns) error {
	b.t.Helper()
	_, err := b.store.Store(b.t.Context(), commit.Item{RunID: "run_1", Attempt: attempt, Write: Write(b.keys, c)})
	return err
}

// counted are the run's counters: batches and keys.
func (b *bench) counted() [2]int {
	b.t.Helper()
	var n [2]int
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT batch_seq, key_count FROM run`).Scan(&n[0], &n[1]))
	return n
}

// columns are points of key, step and value in turn; the time of each is its place.
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

// seen are the points of all series, spelled out.
func (b *bench) seen(keys ...string) []string {
	b.t.Helper()
	series, more, err := (&Store{Pool: b.pool}).List(b.t.Context(), "run_1", keys, page.Page{Limit: page.MaxLimit})
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

func TestTheLaterOfOneAttemptAndTheNewerOfTwoCounts(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.Empty(t, b.seen())
	require.NoError(t, b.put(1, columns("loss", 1, 1.0, "loss", 2, 2.0, "loss", 2, 2.5, "loss", 4, 4.0)))
	require.NoError(t, b.put(1, columns("loss", 1, 1.5)))
	require.NoError(t, b.put(1, columns("lr", 9, 0.1)))
	require.Equal(t, []string{"loss 1 1.5/1", "loss 2 2.5/1", "loss 4 4/1", "lr 9 0.1/1"}, b.seen())
	require.NoError(t, b.put(2, columns("loss", 3, 3.0)))
	require.Equal(t, []string{"loss 1 1.5/1", "loss 2 2.5/1", "loss 3 3/2", "lr 9 0.1/1"}, b.seen(), "an older attempt is hidden from a step on, key by key")
	require.NoError(t, b.put(3, columns("loss", -5, 0.0)))
	require.Equal(t, []string{"loss -5 0/3"}, b.seen("loss"))
	var kept int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT sum(points) FROM metric_batch`).Scan(&kept))
	require.Equal(t, 8, kept, "nothing is deleted")
}

func TestOddValuesComeBackAsTheyCame(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns("a", 1, `"NaN"`, "a", 2, "-Infinity", "a", 3, `"Infinity"`, "a", 4, "-0.0", "a", 5, "5e-324", "a", 6, "1.7976931348623157e308")))
	series, _, err := (&Store{Pool: b.pool}).List(t.Context(), "run_1", nil, page.Page{Limit: 1})
	require.NoError(t, err)
	points := series[0].Points
	require.True(t, math.IsNaN(points[0].Value))
	require.Equal(t, []float64{math.Inf(-1), math.Inf(1), 0, 5e-324, math.MaxFloat64}, []float64{points[1].Value, points[2].Value, points[3].Value, points[4].Value, points[5].Value})
	require.True(t, math.Signbit(points[3].Value))
	for i, p := range points {
		require.EqualValues(t, i, p.Micros)
	}
}

func TestKeysAreOfAnyTextAndListedInTheirOrder(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns("b", 1, 1, "a\x01", 1, 2, "ü", 1, 3, "A", 1, 4)))
	require.NoError(t, b.put(1, columns("a", 1, 5, "b", 2, 6)))
	require.Equal(t, []string{"A 1 4/1", "a 1 5/1", "a\x01 1 2/1", "b 1 1/1", "b 2 6/1", "ü 1 3/1"}, b.seen())
	require.Equal(t, []string{"a\x01 1 2/1", "ü 1 3/1"}, b.seen("ü", "a\x01", "none", "ü"))
	require.Empty(t, b.seen("none"))
	store := &Store{Pool: b.pool}
	var walked []string
	for offset := 0; ; offset += 2 {
		series, more, err := store.List(t.Context(), "run_1", nil, page.Page{Limit: 2, Offset: offset})
		require.NoError(t, err)
		for _, s := range series {
			walked = append(walked, s.Key)
		}
		if !more {
			break
		}
	}
	require.Equal(t, []string{"A", "a", "a\x01", "b", "ü"}, walked, "pages hold each key once")
	other, _, err := store.List(t.Context(), "run_2", nil, page.Page{Limit: 2})
	require.NoError(t, err)
	require.Empty(t, other)
}

func TestARequestIsOneRowOrSoManyAsAMessageHolds(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns()))
	require.NoError(t, b.put(1, columns("a", 1, 1, "a", 2, 2)))
	require.Equal(t, [2]int{1, 1}, b.counted(), "a request without points makes no row")
	long := strings.Repeat("k", decode.MaxKey)
	many := make([]any, 0, 3*decode.MaxPoints)
	for i := range decode.MaxPoints {
		many = append(many, long, i, i)
	}
	require.NoError(t, b.put(1, columns(many...)))
	require.Equal(t, [2]int{3, 2}, b.counted(), "2 MiB of text a row")
	store := &Store{Pool: b.pool}
	total := 0
	for seq := int64(1); seq < 3; seq++ {
		batches, err := store.After(t.Context(), "run_1", seq)
		require.NoError(t, err)
		require.Len(t, batches, int(3-seq))
		require.Equal(t, seq+1, batches[0].Seq)
		require.LessOrEqual(t, len(batches[0].Points)*(decode.MaxKey+pointText), maxBatchText+decode.MaxKey+pointText)
		for i, p := range batches[0].Points {
			require.Equal(t, long, p.Key)
			require.EqualValues(t, total+i, p.Step, "no point is left out between two rows")
		}
		total += len(batches[0].Points)
	}
	require.Equal(t, decode.MaxPoints, total)
}

func TestBatchesAreFollowedByTheirPlace(t *testing.T) {
	t.Parallel()
	b := open(t)
	const requests = followed + 5
	for i := range requests {
		require.NoError(t, b.put(1, columns(fmt.Sprintf("k%d", i), i, i)))
	}
	store := &Store{Pool: b.pool}
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

func TestARowThatCannotBeReadIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	b := open(t)
	_, err := b.pool.Exec(t.Context(), `INSERT INTO metric_batch (run_id, seq, attempt, points, data, created_at) VALUES ('run_1', 1, 1, 1, '', now())`)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `INSERT INTO metric_key (run_id, id, key) VALUES ('run_1', 1, 'a')`)
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"empty": {}, "another version": {9, 1}, "cut": Pack([]Point{{1, 2, 3, 4}})[:5], "longer": append(Pack([]Point{{1, 2, 3, 4}}), 0),
		"a key that is not there": Pack([]Point{{Key: 7}}), "no key": Pack([]Point{{Key: 0}}), "a key below": Pack([]Point{{Key: -1}}),
	} {
		_, err = b.pool.Exec(t.Context(), `UPDATE metric_batch SET data = $1`, data)
		require.NoError(t, err)
		_, err = (&Store{Pool: b.pool}).After(t.Context(), "run_1", 0)
		require.ErrorIs(t, err, errBatch, name)
	}
}

func TestThePointsOfOneAnswerAreBounded(t *testing.T) {
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
	series, _, err := (&Store{Pool: b.pool}).List(t.Context(), "run_1", nil, page.Page{Limit: 2})
	require.NoError(t, err)
	for i, s := range series {
		require.LessOrEqual(t, len(s.Points), maxAnswer/2)
		require.Greater(t, len(s.Points), maxAnswer/4, "as many as fit, about")
		require.EqualValues(t, i, s.Points[0].Step, "the first stays")
		require.EqualValues(t, requests*decode.MaxPoints-2+i, s.Points[len(s.Points)-1].Step, "and the last")
	}
}

func TestKeysOfAFailedGroupAreForgotten(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns("a", 1, 1)))
	failed := errors.New("what comes behind the points failed")
	_, err := b.store.Store(t.Context(), commit.Item{
		RunID: "run_1", Attempt: 1, Write: func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *commit.Run) error {
			return errors.Join(Write(b.keys, columns("lost", 1, 1, "also", 1, 1))(ctx, tx, batch, r), failed)
		},
	})
	require.ErrorIs(t, err, failed)
	require.Equal(t, [2]int{1, 1}, b.counted())
	require.NoError(t, b.put(1, columns("b", 1, 1)))
	require.NoError(t, b.put(1, columns("c", 1, 1, "a", 2, 2)))
	require.Equal(t, [2]int{3, 3}, b.counted(), "ids have no gaps")
	require.Equal(t, []string{"a 1 1/1", "a 2 2/1", "b 1 1/1", "c 1 1/1"}, b.seen())
}

func TestWhatAnotherReplicaAddedIsLearned(t *testing.T) {
	t.Parallel()
	b := open(t)
	mine, theirs := NewKeys(), NewKeys()
	for i, keys := range []*Keys{mine, theirs, mine, theirs, NewKeys()} {
		b.keys = keys
		require.NoError(t, b.put(1, columns(fmt.Sprintf("k%d", i), i, i, "same", i, i)))
	}
	require.Equal(t, [2]int{5, 6}, b.counted())
	require.Len(t, b.seen("same"), 5)
	for i := range 5 {
		require.Equal(t, []string{fmt.Sprintf("k%d %d %d/1", i, i, i)}, b.seen(fmt.Sprintf("k%d", i)))
	}
}

func TestARunHasSoManyKeysAndNoMore(t *testing.T) {
	t.Parallel()
	b := open(t)
	full := make([]any, 0, 3*MaxKeys)
	for i := range MaxKeys {
		full = append(full, fmt.Sprintf("k%d", i), 1, 1)
	}
	require.NoError(t, b.put(1, columns(full...)))
	err := b.put(1, columns("k1", 2, 2, "one more", 1, 1))
	require.True(t, fault.HasCode(err, "metric_keys") && fault.Is(err, fault.Refused), "%v", err)
	require.Len(t, b.seen("k1"), 1, "of the refused request nothing is stored")
	require.NoError(t, b.put(1, columns("k1", 2, 2)))
	require.Len(t, b.seen("k1"), 2)
}
