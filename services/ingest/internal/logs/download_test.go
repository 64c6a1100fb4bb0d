package logs

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

func (b *harness) download(to io.Writer, last int64, q *Query, labeled bool) error {
	return (&Store{Pool: b.pool, Clock: clock.Real()}).Download(b.t.Context(), to, b.run.ID, last, q, labeled, func() {})
}

func TestStore_Download_conditions(t *testing.T) {
	t.Parallel()
	b := open(t)
	at := b.run.Now
	report := func(attempt int32, rank *int32, after time.Duration, text string) {
		b.run.Now = at.Add(after)
		require.NoError(t, b.group(attempt, Write(groupcommit.Key{}, Origin{Rank: rank}, []string{text})))
	}
	zero, one, two := int32(0), int32(1), int32(2)
	report(1, &zero, 0, "a\nb\n")
	report(1, &one, time.Minute, "c\n")
	report(1, nil, time.Minute, "\n")
	report(2, &zero, time.Hour, "e\nf\tg\n")
	hour := at.Add(time.Hour)
	for name, c := range map[string]struct {
		query Query
		last  int64
		want  string
	}{
		"whole":           {Query{}, 6, "a\nb\nc\n\ne\nf\tg\n"},
		"up to last":      {Query{}, 5, "a\nb\nc\n\ne\n"},
		"after":           {Query{After: 1}, 6, "b\nc\n\ne\nf\tg\n"},
		"after the end":   {Query{After: 6}, 6, ""},
		"attempt":         {Query{Attempt: &two}, 6, "e\nf\tg\n"},
		"rank":            {Query{Rank: &zero, Until: &hour}, 6, "a\nb\n"},
		"rank of no line": {Query{Rank: &two}, 6, ""},
		"since":           {Query{Since: &hour}, 6, "e\nf\tg\n"},
	} {
		var got strings.Builder
		require.NoError(t, b.download(&got, c.last, &c.query, false), name)
		require.Equal(t, c.want, got.String(), name)
	}
	var got strings.Builder
	require.NoError(t, b.download(&got, 6, &Query{After: 3}, true))
	require.Equal(t, "4\t2026-11-21T09:01:00.000000Z\t1\t-\t\n5\t2026-11-21T10:00:00.000000Z\t2\t0\te\n6\t2026-11-21T10:00:00.000000Z\t2\t0\tf\tg\n", got.String())
}

// broken is a client that is gone after some bytes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("the client is gone")
	}
	return len(p), nil
}

func TestStore_Download_failsRatherThanCut(t *testing.T) {
	t.Parallel()
	b := open(t)
	_, err := b.pool.Exec(t.Context(), `INSERT INTO log_chunk (run_id, first_seq, lines, attempt, data, created_at)
		SELECT 'run_1', n + 1, 1, 1, convert_to('line', 'UTF8') || '\x0a', now() FROM generate_series(0, 2047) AS n`)
	require.NoError(t, err)
	require.ErrorContains(t, b.download(&broken{}, 2048, &Query{}, false), "the client is gone")
	pages := 0
	err = (&Store{Pool: b.pool, Clock: clock.Real()}).Download(t.Context(), io.Discard, b.run.ID, 2048, &Query{}, false, func() {
		pages++
		_, err := b.pool.Exec(t.Context(), `DELETE FROM log_chunk`)
		require.NoError(t, err)
	})
	require.True(t, fault.HasCode(err, "log_deleted"), "%v", err)
	require.Equal(t, 1, pages)
	require.NoError(t, b.download(io.Discard, 2048, &Query{}, false), "a log that was deleted before is empty")
}

// A long log is in memory page by page.
func TestStore_Download_boundedMemory(t *testing.T) { //nolint:paralleltest // measures the memory of the process
	b := open(t)
	const rows, lines = 320, 2000 // 80 MB
	_, err := b.pool.Exec(t.Context(), `INSERT INTO log_chunk (run_id, first_seq, lines, attempt, data, created_at)
		SELECT 'run_1', n::bigint * $2::int + 1, $2::int, 1, convert_to(repeat(repeat('y', 124) || E'\n', $2::int), 'UTF8'), now()
		FROM generate_series(0, $1::int - 1) AS n`, rows, lines)
	require.NoError(t, err)
	var size, most uint64
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	counter := writerFunc(func(p []byte) (int, error) { size += uint64(len(p)); return len(p), nil })
	err = (&Store{Pool: b.pool, Clock: clock.Real()}).Download(t.Context(), counter, b.run.ID, rows*lines, &Query{}, false, func() {
		runtime.GC()
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	})
	require.NoError(t, err)
	require.EqualValues(t, rows*lines*125, size)
	require.Less(t, int64(most)-int64(before), int64(24<<20), fmt.Sprint("of ", size, " bytes"))
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
