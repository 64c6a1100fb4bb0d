package db_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/db"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/evaluation"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness is a database that was upgraded from the version before the migration 00213, and a committer. That version has
// stored reports of the ranks 0 and 1 of the run "ranks". Of the run "mixed" it has stored only reports of rank 0, and of
// the run "few" also one metric of rank 1.
type harness struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *groupcommit.Committer
}

func upgraded(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "ingest", Migrations: pgtest.Before(t, files, "00213")})
	b := &harness{t: t, pool: base.Pool("ingest")}
	for _, id := range []string{"ranks", "mixed", "few"} {
		b.exec(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, attempt, key_count)
			VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now(), 1, 3)`, id)
		b.exec(`INSERT INTO metric_key (run_id, id, key, rank) VALUES ($1, 1, 'loss', 0), ($1, 2, 'acc', 0), ($1, 3, 'last', CASE $1 WHEN 'mixed' THEN 0 ELSE 1 END)`, id)
		b.exec(`INSERT INTO hparam (run_id, key, value, attempt, updated_at) VALUES ($1, 'lr', '0', 1, now())`, id)
		b.exec(`INSERT INTO validation_round (run_id, attempt, step, total_chunks, created_at) VALUES ($1, 1, 1, 1, now()), ($1, 1, 2, 1, now())`, id)
		b.exec(`INSERT INTO benchmark_score (run_id, id, attempt, name, metric, value, created_at) VALUES ($1, 'score_0', 1, 'b', 'm', 0, now() - interval '2 hours')`, id)
		b.exec(`INSERT INTO evaluation (run_id, name, head, started_at) VALUES ($1, 'b', '{}', now())`, id)
		b.exec(`INSERT INTO rollout (run_id, task, number, attempt, reward, masked, reported_at) VALUES ($1, 't', 0, 1, 0, false, now())`, id)
	}
	b.exec(`INSERT INTO rank_hparam (run_id, rank, key, value, attempt, updated_at) VALUES ('ranks', 1, 'lr', '1', 1, now())`)
	b.exec(`INSERT INTO rank_validation_round (run_id, attempt, rank, step, total_chunks, created_at) VALUES ('ranks', 1, 1, 1, 1, now())`)
	b.exec(`INSERT INTO benchmark_score (run_id, id, attempt, name, metric, value, created_at, rank)
		VALUES ('ranks', 'score_1', 1, 'b', 'm', 1, now() - interval '1 hour', 1)`)
	b.exec(`INSERT INTO rollout (run_id, task, number, attempt, reward, masked, reported_at, rank) VALUES ('ranks', 'u', 0, 1, 1, false, now(), 1)`)
	b.pool.Reset() // its statements are prepared for the earlier tables
	require.NoError(t, migrate.Up(t.Context(), base.OwnerURL("ingest"), "ingest", files))

	b.store = groupcommit.New(b.pool, clock.Real(), &groupcommit.Quota{}, func([]string) {})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = b.store.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return b
}

func (b *harness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *harness) put(runID string, writes ...groupcommit.Write) {
	b.t.Helper()
	_, err := b.store.Store(b.t.Context(), groupcommit.Item{RunID: runID, Attempt: 1, Write: groupcommit.All(writes...)})
	require.NoError(b.t, err)
}

// shown returns what readers see of a run who select no rank.
func (b *harness) shown(runID string) string {
	b.t.Helper()
	ctx := b.t.Context()
	params, err := (&run.HParamStore{Pool: b.pool}).Get(ctx, runID, nil)
	require.NoError(b.t, err)
	rounds, _, err := (&evaluation.ValidationStore{Pool: b.pool}).Rounds(ctx, runID, 0, nil, request.Page{Limit: 10})
	require.NoError(b.t, err)
	var steps []string
	for _, r := range rounds {
		steps = append(steps, fmt.Sprintf("%d of %d", r.Step, r.Rank))
	}
	scores, err := (&evaluation.ScoreStore{Pool: b.pool}).Newest(ctx, runID, "b")
	require.NoError(b.t, err)
	rollouts, err := (&evaluation.Store{Pool: b.pool}).Rollouts(ctx, runID)
	require.NoError(b.t, err)
	return fmt.Sprint(string(params), steps, scores[0].Value, *rollouts[0].Reward)
}

// keys returns the keys of a run in the order of their ids, with their ranks.
func (b *harness) keys(runID string) []string {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `SELECT convert_from(key, 'UTF8') || ' ' || rank FROM metric_key WHERE run_id = $1 ORDER BY id`, runID)
	require.NoError(b.t, err)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b.t, err)
	return keys
}

// ofRank returns the same reports of a rank as those of rank 0 that the earlier version has stored, with a higher value.
func ofRank(rank int32, keys *metric.Keys, names ...string) []groupcommit.Write {
	c := &decode.Columns{Rank: &rank}
	for i, name := range names {
		c.Names, c.Key, c.Step = append(c.Names, name), append(c.Key, uint32(i)), append(c.Step, 1)
		c.Value, c.Micros = append(c.Value, 9), append(c.Micros, 1)
	}
	value := 9.0
	return []groupcommit.Write{
		metric.Write(keys, c), run.WriteHParams([]report.Param{{Key: "lr", Value: []byte("9")}}, rank),
		evaluation.WriteValidation(&report.Validation{Rank: &rank, Step: 1, Total: 1}),
		evaluation.WriteScore(&report.Benchmark{Name: "b", Rank: &rank, Score: &report.Score{Metric: "m", Value: value}}, fmt.Sprint("new_", rank)),
		evaluation.Write(&report.Benchmark{Name: "b", Rank: &rank, Rollouts: []report.Rollout{{Task: "t", Reward: &value}}}),
	}
}

// The rank of a row is known if a version with ranks has stored it. Rank 0 then stays the lowest one that is shown.
func TestMigrations_keepRanksOfVersionWithRanks(t *testing.T) {
	t.Parallel()
	b := upgraded(t)
	const want = `{"lr":0}[1 of 0 2 of 0] 0 0`
	for _, id := range []string{"ranks", "few"} {
		require.Equal(t, want, b.shown(id), id)
		b.put(id, ofRank(1, metric.NewKeys(), "loss", "acc", "last")...)
		require.Equal(t, want, b.shown(id), id)
		require.Equal(t, []string{"loss 0", "acc 0", "last 1", "loss 1", "acc 1"}, b.keys(id), "rank 1 must not take the series of rank 0")
	}
}

// If the earlier version has stored only rows of rank 0, an even earlier one may have stored those of any rank.
func TestMigrations_leaveUnknownRanksUnknown(t *testing.T) {
	t.Parallel()
	b := upgraded(t)
	require.Equal(t, `{"lr":0}[1 of 0 2 of 0] 0 0`, b.shown("mixed"))
	b.put("mixed", ofRank(1, metric.NewKeys(), "loss")...)
	require.Equal(t, `{"lr":9}[1 of 1 2 of 0] 9 9`, b.shown("mixed"))
	require.Equal(t, []string{"loss 1", "acc 0", "last 0"}, b.keys("mixed"))
}

// While an installation is upgraded, replicas of the earlier version still add rows.
func TestMigrations_keepRanksOfEarlierReplica(t *testing.T) {
	t.Parallel()
	b := upgraded(t)
	b.exec(`INSERT INTO metric_key (run_id, id, key, rank) VALUES ('ranks', 4, 'late', 0)`)
	b.exec(`UPDATE run SET key_count = 4 WHERE id = 'ranks'`)
	b.exec(`INSERT INTO benchmark_score (run_id, id, attempt, name, metric, value, created_at, rank) VALUES ('ranks', 'score_2', 1, 'b', 'm', 2, now(), 1)`)
	b.exec(`INSERT INTO rollout (run_id, task, number, attempt, reward, masked, reported_at, rank) VALUES ('ranks', 's', 0, 1, 0, false, now(), 1)`)
	b.put("ranks", ofRank(1, metric.NewKeys(), "late")...)
	require.Equal(t, []string{"loss 0", "acc 0", "last 1", "late 0", "late 1"}, b.keys("ranks"))
	require.Equal(t, `{"lr":0}[1 of 0 2 of 0] 0 0`, b.shown("ranks"))
	two, value := int32(2), 9.0
	b.put("ranks", evaluation.Write(&report.Benchmark{Name: "b", Rank: &two, Rollouts: []report.Rollout{{Task: "s", Reward: &value}}}))
	rollouts, err := (&evaluation.Store{Pool: b.pool}).Rollouts(t.Context(), "ranks")
	require.NoError(t, err)
	require.Zero(t, *rollouts[0].Reward, "rank 2 must not replace the rollout of rank 1")
}
