package evaluation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// commit stores the writes of run_1 with a committer, which loads and stores the run's counters.
func (b *harness) commit(write groupcommit.Write) error {
	b.t.Helper()
	c := groupcommit.New(b.pool, clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), &groupcommit.Quota{}, func([]string) {})
	ctx, stop := context.WithCancel(context.WithoutCancel(b.t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	defer func() { stop(); <-done }()
	_, err := c.Store(b.t.Context(), groupcommit.Item{RunID: "run_1", Attempt: 1, Write: write})
	return err
}

// insertRun stores the row of run_1 with the given counters, which are SQL expressions.
func (b *harness) insertRun(scores, rollouts string) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `DELETE FROM run`)
	require.NoError(b.t, err)
	_, err = b.pool.Exec(b.t.Context(), fmt.Sprintf(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, score_count,
		rollout_count) VALUES ('run_1', 'job', 'usr', 'prj', 'team', 'team', now(), %s, %s)`, scores, rollouts))
	require.NoError(b.t, err)
}

// counters returns the run's counters of scores and rollouts; -1 stands for null.
func (b *harness) counters() (n [2]int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT coalesce(score_count, -1), coalesce(rollout_count, -1) FROM run`).Scan(&n[0], &n[1]))
	return n
}

func score(n int) groupcommit.Write {
	return WriteScore(&report.Benchmark{Name: "b", Score: &report.Score{Metric: "m", Value: 1}}, fmt.Sprintf("score_%d", n))
}

// tries returns a benchmark payload with masked rollouts of the given tasks.
func tries(tasks ...string) *report.Benchmark {
	b := &report.Benchmark{Name: "b", Rollouts: []report.Rollout{}}
	for _, task := range tasks {
		b.Rollouts = append(b.Rollouts, report.Rollout{Task: task, Masked: true})
	}
	return b
}

func TestWrite_countsRowsOfRun(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.insertRun("DEFAULT", "DEFAULT")
	require.NoError(t, b.commit(score(1)))
	require.NoError(t, b.commit(groupcommit.All(score(2), Write(tries("a", "b")))))
	require.NoError(t, b.commit(Write(tries("b", "c"))), "the rollout of task b is replaced")
	require.NoError(t, b.commit(Write(tries())))
	require.Equal(t, [2]int{2, 3}, b.counters())
	var rows [2]int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM benchmark_score), (SELECT count(*) FROM rollout)`).Scan(&rows[0], &rows[1]))
	require.Equal(t, b.counters(), rows)
	other := tries("d")
	other.Name = "another"
	err := b.commit(groupcommit.All(score(3), Write(other)))
	require.True(t, fault.HasCode(err, "evaluation") && fault.Is(err, fault.Conflict), "%v", err)
	require.Equal(t, [2]int{2, 3}, b.counters(), "a refused report does not change the counters")
	b.insertRun("NULL", "NULL")
	require.NoError(t, b.commit(Write(tries("d"))))
	require.Equal(t, [2]int{-1, 4}, b.counters(), "the rows are counted if the run is older than its counters")
	require.NoError(t, b.commit(score(4)))
	require.Equal(t, [2]int{3, 4}, b.counters())
}

// The limits are checked with the counters alone, so the cost of a report does not grow with the number of rows.
func TestWrite_limitsWithoutCountingRows(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.insertRun(fmt.Sprint(maxScores-1), fmt.Sprint(maxRollouts-1))
	require.NoError(t, b.commit(score(1)))
	err := b.commit(score(2))
	require.True(t, fault.HasCode(err, "score_limit") && fault.Is(err, fault.Refused), "%v", err)
	err = b.commit(Write(tries("a", "b")))
	require.True(t, fault.HasCode(err, "rollout_limit") && fault.Is(err, fault.Refused), "%v", err)
	require.NoError(t, b.commit(Write(tries("a"))))
	require.NoError(t, b.commit(Write(tries("a"))), "a stored rollout may be replaced")
	err = b.commit(Write(tries("b")))
	require.True(t, fault.HasCode(err, "rollout_limit"), "%v", err)
	require.Equal(t, [2]int{maxScores, maxRollouts}, b.counters())
}
