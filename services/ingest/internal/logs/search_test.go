package logs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/test/draw"
)

// search returns the lines that a query finds, each as its number and text, and the number of calls of Search. No time
// passes meanwhile, so that the number of calls does not depend on the speed of the machine.
func (b *harness) search(q Query) (found []string, calls int) {
	b.t.Helper()
	for {
		calls++
		page, err := (&Store{Pool: b.pool, Clock: clock.NewFake(b.run.Now)}).Search(b.t.Context(), b.run.ID, b.run.LineSeq, &q)
		require.NoError(b.t, err)
		for _, l := range page.Lines {
			found = append(found, fmt.Sprintf("%d %s", l.Seq, l.Text))
		}
		if page.Complete {
			require.Equal(b.t, b.run.LineSeq, page.Searched)
			return found, calls
		}
		require.Greater(b.t, page.Searched, q.After, "each call must make progress")
		q.After = page.Searched
	}
}

func TestStore_Search_conditions(t *testing.T) {
	t.Parallel()
	b := open(t)
	at := b.run.Now
	report := func(attempt int32, rank int32, after time.Duration, text string) {
		b.run.Now = at.Add(after)
		require.NoError(t, b.group(attempt, Write(groupcommit.Key{}, Origin{Rank: &rank}, []string{text})))
	}
	report(1, 0, 0, "loss 2.5\nError: no memory\n")
	report(1, 1, time.Minute, "loss 2.4\n")
	require.NoError(t, b.group(1, writeOf("", 0, "no rank\n")))
	report(2, 0, time.Hour, "loss 1.5\nerror again\n")
	one, two, zero := int32(1), int32(2), int32(0)
	minute, hour := at.Add(time.Minute), at.Add(time.Hour)
	for name, c := range map[string]struct {
		query Query
		want  []string
	}{
		"everything":          {Query{}, []string{"1 loss 2.5", "2 Error: no memory", "3 loss 2.4", "4 no rank", "5 loss 1.5", "6 error again"}},
		"pattern":             {Query{Pattern: regexp.MustCompile(`loss \d\.5$`)}, []string{"1 loss 2.5", "5 loss 1.5"}},
		"pattern of one line": {Query{Pattern: regexp.MustCompile(`(?s)2\.5.Error`)}, nil},
		"ignoring case":       {Query{Pattern: regexp.MustCompile(`(?i)error`)}, []string{"2 Error: no memory", "6 error again"}},
		"attempt":             {Query{Attempt: &two}, []string{"5 loss 1.5", "6 error again"}},
		"rank 0":              {Query{Rank: &zero, Attempt: &one}, []string{"1 loss 2.5", "2 Error: no memory"}},
		"rank 1":              {Query{Rank: &one}, []string{"3 loss 2.4"}},
		"rank without lines":  {Query{Rank: &two}, nil},
		"since":               {Query{Since: &hour}, []string{"5 loss 1.5", "6 error again"}},
		"until":               {Query{Until: &minute}, []string{"1 loss 2.5", "2 Error: no memory"}},
		"since and until":     {Query{Since: &minute, Until: &hour}, []string{"3 loss 2.4", "4 no rank"}},
		"after":               {Query{After: 5}, []string{"6 error again"}},
		"after the end":       {Query{After: 6}, nil},
		"far after the end":   {Query{After: 1 << 53}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int{1, 2, 500} {
				q := c.query
				q.Limit = limit
				found, _ := (&harness{t: t, pool: b.pool, run: b.run}).search(q)
				require.Equal(t, c.want, found, "limit %d", limit)
			}
		})
	}
}

// A search in parts finds the lines that a search of the whole text finds, each once and in their order.
func TestStore_Search_partsAreComplete(t *testing.T) {
	t.Parallel()
	b := open(t)
	random := rand.New(rand.NewPCG(draw.Seed(t), 1))
	var want []string
	for n := 0; n < 3000; {
		var text strings.Builder
		for range 1 + random.IntN(200) {
			line := fmt.Sprintf("step %d %s", n, strings.Repeat("x", random.IntN(40)))
			text.WriteString(line + "\n")
			if n++; strings.HasSuffix(line, "x") && strings.Contains(line, "7") {
				want = append(want, fmt.Sprintf("%d %s", n, line))
			}
		}
		require.NoError(t, b.group(1, writeOf("", 0, text.String())))
	}
	for _, limit := range []int{1, 7, 500} {
		found, calls := b.search(Query{Pattern: regexp.MustCompile(`7.*x$`), Limit: limit})
		require.Equal(t, want, found)
		require.GreaterOrEqual(t, calls, len(want)/limit)
	}
}

// One call searches a bounded part of a long log, whether the log has large rows or many small ones.
func TestStore_Search_boundedInLongLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows, lines int
		calls       int
	}{
		"large rows": {320, 2000, 3}, // 80 MB
		"small rows": {150_000, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			_, err := b.pool.Exec(t.Context(), `INSERT INTO log_chunk (run_id, first_seq, lines, attempt, data, created_at)
				SELECT 'run_1', n::bigint * $2::int + 1, $2::int, 1, convert_to(repeat(repeat('y', 120) || E'\n', $2::int), 'UTF8'), now()
				FROM generate_series(0, $1::int - 1) AS n`, c.rows, c.lines)
			require.NoError(t, err)
			b.run.LineSeq = int64(c.rows * c.lines)
			require.NoError(t, b.group(1, writeOf("", 0, "the needle\n")))
			found, calls := b.search(Query{Pattern: regexp.MustCompile("needle"), Limit: 10})
			require.Equal(t, []string{fmt.Sprintf("%d the needle", b.run.LineSeq)}, found)
			require.Equal(t, c.calls, calls)
		})
	}
}

// A condition without an index that no line meets is checked in bounded parts, too.
func TestStore_Search_boundedIfNothingMatches(t *testing.T) {
	t.Parallel()
	b := open(t)
	const rows = 150_000
	_, err := b.pool.Exec(t.Context(), `INSERT INTO log_chunk (run_id, first_seq, lines, attempt, rank, data, created_at)
		SELECT 'run_1', n, 1, 1, 0, convert_to(E'y\n', 'UTF8'), $2 FROM generate_series(1, $1::int) AS n`,
		rows, b.run.Now.Add(-time.Hour))
	require.NoError(t, err)
	b.run.LineSeq = rows
	rank := int32(7)
	require.NoError(t, b.group(1, Write(groupcommit.Key{}, Origin{Rank: &rank}, []string{"of rank 7\n"})))
	for name, q := range map[string]Query{"rank": {Rank: &rank}, "since": {Since: &b.run.Now}} {
		q.Limit = 10
		found, calls := b.search(q)
		require.Equal(t, []string{fmt.Sprintf("%d of rank 7", rows+1)}, found, name)
		require.Equal(t, 3, calls, name)
	}
}

// The lines around matches are those that grep -C prints, whatever the size of the parts in which they are read.
func TestStore_Search_context(t *testing.T) {
	t.Parallel()
	b := open(t)
	random := rand.New(rand.NewPCG(draw.Seed(t), 2))
	const lines = 400
	hits, ranks := map[int64]bool{}, map[int64]int32{}
	for n := int64(0); n < lines; {
		var text strings.Builder
		rank := random.Int32N(2)
		for range 1 + random.IntN(12) {
			n++
			hits[n], ranks[n] = random.IntN(25) == 0 || n == lines, rank
			fmt.Fprintf(&text, "%s %d\n", map[bool]string{true: "hit", false: "line"}[hits[n]], n)
		}
		require.NoError(t, b.group(1, Write(groupcommit.Key{}, Origin{Rank: &rank}, []string{text.String()})))
	}
	zero := int32(0)
	for _, rank := range []*int32{nil, &zero} {
		for _, around := range []int{0, 1, 3, 20} {
			selected := func(n int64) bool { return n >= 1 && n <= b.run.LineSeq && (rank == nil || ranks[n] == *rank) }
			var want, matching []int64
			for n := range b.run.LineSeq + 1 {
				near := false
				for m := n - int64(around); m <= n+int64(around); m++ {
					near = near || selected(m) && hits[m]
				}
				if selected(n) && near {
					want = append(want, n)
					if hits[n] {
						matching = append(matching, n)
					}
				}
			}
			for _, limit := range []int{1, 2, 7, 500} {
				q := Query{Pattern: regexp.MustCompile("^hit"), Rank: rank, Context: around, Limit: limit}
				var got, matched []int64
				for complete := false; !complete; {
					page, err := (&Store{Pool: b.pool, Clock: clock.NewFake(b.run.Now)}).Search(t.Context(), b.run.ID, b.run.LineSeq, &q)
					require.NoError(t, err)
					require.LessOrEqual(t, len(page.Lines), limit)
					for _, l := range page.Lines {
						require.True(t, strings.HasSuffix(l.Text, fmt.Sprintf(" %d", l.Seq)), l.Text)
						got = append(got, l.Seq)
					}
					matched, complete = append(matched, page.Matches...), page.Complete
					require.True(t, complete || page.Searched > q.After, "each call must make progress")
					q.After = page.Searched
				}
				require.Equal(t, want, got, "context %d, limit %d", around, limit)
				require.Equal(t, matching, matched, "context %d, limit %d", around, limit)
			}
		}
	}
}

// A search of a log that grows, each call up to the line that is the last one then, finds the same lines as one at the end.
func TestStore_Search_contextOfGrowingLog(t *testing.T) {
	t.Parallel()
	b := open(t)
	text := strings.Repeat("line\n", 6) + "hit\n" + strings.Repeat("line\n", 2) + "hit\nhit\n" + strings.Repeat("line\n", 9) + "hit\n"
	for line := range strings.Lines(text) {
		require.NoError(t, b.group(1, writeOf("", 0, line)))
	}
	store := &Store{Pool: b.pool, Clock: clock.NewFake(b.run.Now)}
	for _, around := range []int{0, 1, 3, 20} {
		q := Query{Pattern: regexp.MustCompile("hit"), Context: around, Limit: 500}
		whole, err := store.Search(t.Context(), b.run.ID, b.run.LineSeq, &q)
		require.NoError(t, err)
		require.True(t, whole.Complete)
		var want []int64
		for _, l := range whole.Lines {
			want = append(want, l.Seq)
		}
		for _, step := range []int64{1, 2, 5} {
			q.After = 0
			var got, matches []int64
			for last := int64(1); last < b.run.LineSeq+step; last += step {
				page, err := store.Search(t.Context(), b.run.ID, min(last, b.run.LineSeq), &q)
				require.NoError(t, err)
				require.True(t, page.Complete)
				require.GreaterOrEqual(t, page.Searched, q.After)
				for _, l := range page.Lines {
					got = append(got, l.Seq)
				}
				matches, q.After = append(matches, page.Matches...), page.Searched
			}
			require.Equal(t, want, got, "context %d, %d lines more for each call", around, step)
			require.Equal(t, whole.Matches, matches, "context %d, %d lines more for each call", around, step)
		}
	}
}

// A search that ends early, for its time, leaves no line out either.
func TestStore_Search_contextInParts(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, writeOf("", 0, strings.Repeat("line\n", 10)+"hit\n"+strings.Repeat("line\n", 10))))
	q := Query{Pattern: regexp.MustCompile("hit"), Context: 4, Limit: 500}
	var got []int64
	for complete, calls := false, 0; !complete; calls++ {
		require.Less(t, calls, 30)
		page, err := (&Store{Pool: b.pool, Clock: &hurried{}}).Search(t.Context(), b.run.ID, b.run.LineSeq, &q)
		require.NoError(t, err)
		for _, l := range page.Lines {
			got = append(got, l.Seq)
		}
		require.Greater(t, page.Searched, q.After)
		q.After, complete = page.Searched, page.Complete
	}
	require.Equal(t, []int64{7, 8, 9, 10, 11, 12, 13, 14, 15}, got)
}

func TestStore_Search_boundsResponse(t *testing.T) {
	t.Parallel()
	b := open(t)
	line := strings.Repeat("z", MaxLine-1) + "\n"
	for range 3 {
		require.NoError(t, b.group(1, writeOf("", 0, strings.Repeat(line, 20))))
	}
	page, err := (&Store{Pool: b.pool, Clock: clock.Real()}).Search(t.Context(), b.run.ID, b.run.LineSeq, &Query{Limit: 500})
	require.NoError(t, err)
	require.False(t, page.Complete)
	require.LessOrEqual(t, len(page.Lines)*MaxLine, maxRead+MaxLine)
	found, _ := b.search(Query{Limit: 500})
	require.Len(t, found, 60)
}

func TestStore_Search_endsWithItsContext(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, writeOf("", 0, strings.Repeat("line\n", 50))))
	ctx, cancel := context.WithCancel(t.Context())
	full := (&Store{Clock: clock.Real()}).searchEnd(ctx, &Query{Limit: 500})
	require.False(t, full(&Found{}))
	cancel()
	require.True(t, full(&Found{}), "a search without a caller must make room for others")
	_, err := (&Store{Pool: b.pool, Clock: clock.Real()}).Search(ctx, b.run.ID, b.run.LineSeq, &Query{Limit: 500})
	require.Error(t, err)
}

// hurried is a clock on which a second passes between two readings.
type hurried struct {
	clock.Clock

	now time.Time
}

func (c *hurried) Now() time.Time {
	c.now = c.now.Add(time.Second)
	return c.now
}

func TestStore_Search_boundedInTime(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, writeOf("", 0, strings.Repeat("line\n", 50))))
	page, err := (&Store{Pool: b.pool, Clock: &hurried{}}).Search(t.Context(), b.run.ID, b.run.LineSeq, &Query{Limit: 500})
	require.NoError(t, err)
	require.EqualValues(t, 2, page.Searched, "the search must end after two seconds")
	require.False(t, page.Complete)
}
