package inference_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/inference"
)

func TestRetention_deletesOldRowsOnly(t *testing.T) {
	t.Parallel()
	r := open(t, func(c *inference.Config) { c.TrafficDays, c.RollupDays, c.TranscriptDays = 90, 90, 31 })
	const turn = `INSERT INTO playground_turn (id, session_id, target, at, user_id, username, method, path, status, outcome, request, request_cut,
		response, response_cut, duration_ms) VALUES ($1, 's', 0, now() - $2::interval, 'u', 'n', 'GET', '/', 200, 'ok', '', false, '', false, 1)`
	const call = `INSERT INTO call (at, request_id, deployment_id, revision_id, revision_number, token_id, token_name, replica_id, method, path,
		status, outcome, stream, usage_source, duration_ms, request_bytes, response_bytes, request_frames, response_frames)
		VALUES (now() - $2::interval, $1, 'd', 'r', 1, 't', 'n', 'p', 'GET', '/', 200, 'ok', false, 'none', 1, 1, 1, 0, 0)`
	_, err := r.pool.Exec(t.Context(), `SELECT ensure_call_partitions((now() - '92 days'::interval)::date, 5)`)
	require.NoError(t, err)
	for _, row := range []struct{ sql, id, age string }{
		{turn, "old", "32 days"}, {turn, "young", "30 days"}, {call, "old", "92 days"}, {call, "young", "89 days"},
	} {
		_, err := r.pool.Exec(t.Context(), row.sql, row.id, row.age)
		require.NoError(t, err)
	}
	kinds := []string{}
	for _, rule := range r.svc.Retention() {
		kinds = append(kinds, rule.Name)
		for {
			n, err := rule.Step(t.Context(), time.Now().Add(-rule.Age), 1)
			require.NoError(t, err, rule.Name)
			if n == 0 {
				break
			}
		}
	}
	require.Equal(t, []string{"day of calls", "rollup of calls", "batch name", "playground turn"}, kinds)
	var left []string
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT (SELECT array_agg(id) FROM playground_turn) || (SELECT array_agg(request_id) FROM call)`).Scan(&left))
	require.Equal(t, []string{"young", "young"}, left)
	var rollups int
	require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT count(*) FROM call_rollup`).Scan(&rollups))
	require.Equal(t, 4, rollups, "only the rollups of the recent call must stay: of its minute and its hour, for its token and for all tokens")
}
