package logs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness is a database with one run.
type harness struct {
	t    *testing.T
	pool *pgxpool.Pool
	run  groupcommit.Run
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: files})
	return &harness{t: t, pool: base.Pool("ingest"), run: groupcommit.Run{ID: "run_1", Now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}}
}

// group stores the writes of an attempt in one transaction, as the committer does.
func (b *harness) group(attempt int32, writes ...groupcommit.Write) error {
	b.t.Helper()
	r := b.run
	r.Memo = map[any]any{}
	err := pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		for _, write := range writes {
			r.Attempt = max(r.Attempt, attempt)
			if err := write(ctx, tx, batch, &r); err != nil {
				return err
			}
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err == nil {
		b.run = r
	}
	return err
}

// writeOf returns the write of a writer's request.
func writeOf(writer string, seq int64, pieces ...string) groupcommit.Write {
	return Write(groupcommit.Key{Writer: writer, Seq: seq}, Origin{}, pieces)
}

// lines returns all lines. Each begins with its number and attempt.
func (b *harness) lines() []string {
	b.t.Helper()
	found, err := (&Store{Pool: b.pool, Clock: clock.Real()}).Range(b.t.Context(), b.run.ID, 0, 500)
	require.NoError(b.t, err)
	out := []string{}
	for _, l := range found {
		out = append(out, fmt.Sprintf("%d/%d %s", l.Seq, l.Attempt, l.Text))
	}
	return out
}

func TestWrite_openLineWaitsForWriter(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, writeOf("w", 1, "a\nb")))
	require.NoError(t, b.group(1, writeOf("v", 1, "c"), writeOf("w", 2, "b", "b\nd")))
	require.Equal(t, []string{"1/1 a", "2/1 bbb"}, b.lines())
	require.NoError(t, b.group(1, writeOf("w", 3, "\n"), writeOf("v", 2, "\n")))
	require.Equal(t, []string{"1/1 a", "2/1 bbb", "3/1 d", "4/1 c"}, b.lines())
	require.NoError(t, b.group(1, End))
	require.Len(t, b.lines(), 4, "without unfinished lines, End adds no line")
}

func TestWrite_noWriterFinishesLine(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, writeOf("", 0, "a", "b"), writeOf("", 0, "c\n"), writeOf("", 0)))
	require.Equal(t, []string{"1/1 ab", "2/1 c"}, b.lines())
}

func TestEnd_finishesOpenLinesOfGroup(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, writeOf("w", 1, "a")))
	require.NoError(t, b.group(1, writeOf("w", 2, "b"), End))
	require.Equal(t, []string{"1/1 ab"}, b.lines())
}

func TestWrite_newAttemptFinishesOlderLines(t *testing.T) {
	t.Parallel()
	first, more, second := writeOf("w", 1, "old"), writeOf("w", 2, "er"), writeOf("v", 1, "new\n")
	want := []string{"1/1 older", "2/2 new"}
	ways := map[string]func(b *harness) error{
		"three groups": func(b *harness) error {
			return anyOf(b.group(1, first), b.group(1, more), b.group(2, second))
		},
		"two groups": func(b *harness) error {
			if err := b.group(1, first); err != nil {
				return err
			}
			return b.group(1, more, asLaterAttempt(second))
		},
		"one group": func(b *harness) error { return b.group(1, first, more, asLaterAttempt(second)) },
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			require.NoError(t, way(b))
			require.Equal(t, want, b.lines())
			require.NoError(t, b.group(2, End))
			require.Equal(t, want, b.lines(), "no line is stored twice")
		})
	}
}

// asLaterAttempt turns a write into one of attempt 2, for a group whose other items belong to attempt 1.
func asLaterAttempt(w groupcommit.Write) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		r.Attempt = 2
		return w(ctx, tx, batch, r)
	}
}

func anyOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestWrite_sameWriterInNewAttemptFinishesLine(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, writeOf("w", 1, "old")))
	require.NoError(t, b.group(2, writeOf("w", 2, "new\n")))
	require.Equal(t, []string{"1/1 old", "2/2 new"}, b.lines())
}

func TestWrite_failedGroupStoresNoLine(t *testing.T) {
	t.Parallel()
	b := open(t)
	broken := fmt.Errorf("broken")
	require.ErrorIs(t, b.group(1, writeOf("w", 1, "a\nb"), func(context.Context, pgx.Tx, *pgx.Batch, *groupcommit.Run) error { return broken }), broken)
	require.NoError(t, b.group(1, writeOf("w", 1, "c\n")))
	require.Equal(t, []string{"1/1 c"}, b.lines())
}

func TestStore_Range_anyBounds(t *testing.T) {
	t.Parallel()
	b := open(t)
	text := func(from, to int) (s string) {
		var out strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&out, "line %d\n", i)
		}
		return out.String()
	}
	require.NoError(t, b.group(1, writeOf("w", 1, text(1, 10)), writeOf("w", 2, text(11, 11)), writeOf("w", 3, text(12, 30))))
	s := &Store{Pool: b.pool}
	cases := []struct{ after, limit, first, n int }{
		{0, 500, 1, 30},
		{0, 1, 1, 1},
		{0, 10, 1, 10},
		{0, 11, 1, 11},
		{5, 3, 6, 3},
		{9, 3, 10, 3},
		{10, 1, 11, 1},
		{10, 2, 11, 2},
		{11, 500, 12, 19},
		{29, 500, 30, 1},
		{30, 500, 0, 0},
		{31, 1, 0, 0},
		{100_000, 500, 0, 0},
	}
	for _, c := range cases {
		lines, err := s.Range(t.Context(), "run_1", int64(c.after), c.limit)
		require.NoError(t, err)
		require.Len(t, lines, c.n, "%+v", c)
		for i, l := range lines {
			require.EqualValues(t, c.first+i, l.Seq, "%+v", c)
			require.Equal(t, fmt.Sprintf("line %d", c.first+i), l.Text, "%+v", c)
		}
	}
	none, err := s.Range(t.Context(), "run_2", 0, 500)
	require.NoError(t, err)
	require.Empty(t, none, "another run has no lines")
}

func TestStore_Range_boundsBytes(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.group(1, writeOf("w", 1, strings.Repeat(strings.Repeat("x", MaxLine)+"\n", 40))))
	s := &Store{Pool: b.pool}
	seen := int64(0)
	for parts := 0; seen < 40; parts++ {
		lines, err := s.Range(t.Context(), "run_1", seen, 500)
		require.NoError(t, err)
		require.NotEmpty(t, lines)
		require.Less(t, len(lines), 40)
		for _, l := range lines {
			seen++
			require.Equal(t, seen, l.Seq)
			require.Len(t, l.Text, MaxLine)
		}
	}
}

func TestStore_Partial(t *testing.T) {
	t.Parallel()
	b := open(t)
	rank := int32(3)
	require.NoError(t, b.group(1,
		Write(groupcommit.Key{Writer: "w", Seq: 1}, Origin{Rank: &rank}, []string{"whole\n10%\r20%"}), writeOf("v", 1, "no rank\r"), writeOf("u", 1, "whole\n"),
		writeOf("x", 1, strings.Repeat("é", maxPartialText))))
	s := &Store{Pool: b.pool, Clock: clock.Real()}
	found, _, err := s.Partial(t.Context(), b.run.ID)
	require.NoError(t, err)
	for i := range found {
		require.True(t, b.run.Now.Equal(found[i].At))
		found[i].At = time.Time{}
	}
	require.Equal(t, []Line{
		{Attempt: 1, Text: "no rank"}, {Attempt: 1, Text: strings.Repeat("é", maxPartialText/2), Truncated: true}, {Attempt: 1, Origin: Origin{Rank: &rank}, Text: "20%"},
	}, found)
	b.exec(`UPDATE log_tail SET updated_at = NULL WHERE writer = 'w'`) // as an earlier version stored it
	var more []groupcommit.Write
	for n := range maxPartial + 5 {
		more = append(more, writeOf(fmt.Sprintf("y%d", n), 1, strings.Repeat("é", 1000)))
	}
	require.NoError(t, b.group(1, more...))
	found, _, err = s.Partial(t.Context(), b.run.ID)
	require.NoError(t, err)
	require.Len(t, found, maxPartial)
	total := 0
	for _, l := range found {
		total += len(l.Text)
		require.Equal(t, len(l.Text) > 100, l.Truncated)
		require.True(t, utf8.ValidString(l.Text))
	}
	require.LessOrEqual(t, total, maxPartialTotal)
	require.Greater(t, total, maxPartialTotal*9/10)
	require.NoError(t, b.group(1, End))
	found, _, err = s.Partial(t.Context(), b.run.ID)
	require.NoError(t, err)
	require.Empty(t, found)
}

// A text is marked if, and only if, its beginning is missing. Carriage returns at its end are not part of it.
func TestStore_Partial_marksCutTexts(t *testing.T) {
	t.Parallel()
	b := open(t)
	for text, cut := range map[string]bool{
		strings.Repeat("a", maxPartialText): false, strings.Repeat("b", maxPartialText) + "\r": false,
		strings.Repeat("c", maxPartialText+1): true, strings.Repeat("d", maxPartialText+1) + "\r": true,
		strings.Repeat("e", 2*maxPartialText): true, strings.Repeat("f", 2*maxPartialText) + "\r": true,
		"old\r" + strings.Repeat("g", maxPartialText): false,
	} {
		want := text[len(text)-2 : len(text)-1]
		require.NoError(t, b.group(1, writeOf(want, 1, text)))
		for _, returns := range []int{0, 2, 2 * maxPartialText} {
			b.exec(fmt.Sprintf(`UPDATE log_tail SET data = data || repeat(E'\r', %d)::bytea`, returns))
			found, _, err := (&Store{Pool: b.pool, Clock: clock.Real()}).Partial(t.Context(), b.run.ID)
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Equal(t, strings.Repeat(want, maxPartialText), found[0].Text)
			require.Equal(t, cut, found[0].Truncated, "%s with %d carriage returns", want, returns)
		}
		require.NoError(t, b.group(1, End))
	}
}

func (b *harness) exec(sql string) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql)
	require.NoError(b.t, err)
}
