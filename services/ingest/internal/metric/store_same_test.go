package metric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// A report is known whether its points are in rows or in blocks, and however it is divided into requests.
func TestStore_Has_rowsAndBlocks(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := NewStore(b.pool, run.NewGate())
	require.NoError(t, b.put(1, columns(append(steps("a", 0, 3*leastBlock), "b", 1, `"NaN"`)...)))
	require.NoError(t, b.put(1, columns("a", 3, 7)))
	require.NoError(t, b.put(2, columns("a", 500, 1)))
	check := func(where string) {
		for name, c := range map[string]struct {
			attempt int32
			points  []any
			want    bool
		}{
			"all":             {1, append(steps("a", 0, 3*leastBlock), "b", 1, `"NaN"`), true},
			"other values":    {1, steps("a", 5, 3), false},
			"replaced":        {1, []any{"a", 3, 3}, true},
			"last report":     {1, []any{"a", 3, 7}, true},
			"another value":   {1, []any{"a", 3, 8}, false},
			"another step":    {1, []any{"a", 3 * leastBlock, 0}, false},
			"another key":     {1, []any{"c", 1, 1}, false},
			"partly new":      {1, []any{"a", 1, 1, "b", 2, 1}, false},
			"another attempt": {2, []any{"a", 1, 1}, false},
			"own attempt":     {2, []any{"a", 500, 1}, true},
			"nothing":         {1, nil, false},
		} {
			got, err := s.Has(t.Context(), "run_1", c.attempt, columns(c.points...))
			require.NoError(t, err)
			require.Equal(t, c.want, got, "%s: %s", where, name)
		}
	}
	check("rows")
	b.exec(`UPDATE run SET closed_at = now()`)
	require.NoError(t, b.compactor(segmentPoints).pass(t.Context()))
	_, segments, _, _ := b.seqs()
	require.Equal(t, 1, segments)
	check("blocks")
}
