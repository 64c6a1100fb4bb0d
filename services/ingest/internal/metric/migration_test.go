package metric

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// The lowest steps of attempts that reported before an upgrade are read from their rows, blocks and rounds.
func TestMigration_findsStepsOfAttempts(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: pgtest.Before(t, files, "00210")})
	pool := base.Pool("ingest")
	seq := 0
	row := func(runID string, attempt int, steps ...int64) {
		var points []Point
		for i, step := range steps {
			points = append(points, Point{Key: int32(1000 * i), Step: step, Value: 1, Micros: 1_700_000_000_000_000})
		}
		seq++
		_, err := pool.Exec(t.Context(), `INSERT INTO metric_batch (run_id, seq, attempt, points, data, created_at) VALUES ($1, $2, $3, $4, $5, now())`,
			runID, seq, attempt, len(points), Pack(points))
		require.NoError(t, err)
	}
	row("rows", 1, 0, 1, 2)
	row("rows", 2, 300, 200, 70_000)
	row("rows", 2, 250)
	row("rows", 3)
	row("rows", 4, -5, 1<<40, -1<<50)
	row("extreme", 2, math.MaxInt64, math.MinInt64, 0)
	row("extreme", 3, math.MaxInt64)
	row("extreme", 4, math.MinInt64, math.MinInt64)
	_, err = pool.Exec(t.Context(), `INSERT INTO metric_block (run_id, first_seq, key, part, attempt, low_step, high_step, low_time, high_time, low_index,
			high_index, points, whole, pieces, data) VALUES ('blocks', 1, 1, 0, 2, 7, 9, 1, 1, 0, 0, 1, '', '', '')`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO validation_round (run_id, attempt, step, total_chunks, created_at) VALUES ('blocks', 2, 5, 1, now()), ('blocks', 1, 3, 1, now())`)
	require.NoError(t, err)
	require.NoError(t, migrate.Up(t.Context(), base.OwnerURL("ingest"), "ingest", files))
	bounds, err := boundsOf(t.Context(), pool, []string{"rows", "blocks", "extreme", "none"})
	require.NoError(t, err)
	require.Equal(t, map[string][]bound{
		"rows": {{2, -1 << 50}, {4, -1 << 50}}, "blocks": {{2, 5}}, "extreme": {{2, math.MinInt64}, {3, math.MinInt64}, {4, math.MinInt64}},
	}, bounds)
	var low int64
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT low_step FROM attempt_step WHERE run_id = 'rows' AND attempt = 2`).Scan(&low))
	require.EqualValues(t, 200, low)
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT low_step FROM attempt_step WHERE run_id = 'extreme' AND attempt = 3`).Scan(&low))
	require.EqualValues(t, math.MaxInt64, low)
}
