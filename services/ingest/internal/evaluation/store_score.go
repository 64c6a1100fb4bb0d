package evaluation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// maxScores is the maximum number of scores per run.
const maxScores = 100_000

// WriteScore stores the score of a benchmark payload, if it has one. A run with maxScores scores gets no further one.
func WriteScore(b *report.Benchmark, newID string) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, batch *pgx.Batch, r *groupcommit.Run) error {
		s := b.Score
		if s == nil {
			return nil
		}
		stored, err := counted(ctx, tx, r.Scores, `SELECT count(*) FROM benchmark_score WHERE run_id = $1`, r.ID)
		if err != nil {
			return err
		}
		if stored >= maxScores {
			return groupcommit.Refuse(fault.New(fault.Refused, "score_limit", "benchmark: a run has at most %d scores", maxScores))
		}
		r.Scores = new(stored + 1)
		batch.Queue(`INSERT INTO benchmark_score (run_id, id, attempt, name, version, metric, value, n, stderr,
				config_digest, samples_uri, created_at, rank, ranked)
			VALUES (@run_id, @id, @attempt, @name, nullif(@version, ''), @metric, @value, @n, @stderr, nullif(@config_digest, ''),
				nullif(@samples_uri, ''), @created_at, @rank, true)`, pgx.StrictNamedArgs{
			"run_id": r.ID, "id": newID, "attempt": r.Attempt, "name": b.Name, "version": b.Version, "metric": s.Metric,
			"value": s.Value, "n": s.N, "stderr": s.Stderr, "config_digest": s.ConfigDigest, "samples_uri": s.SamplesURI,
			"created_at": r.Now, "rank": value(b.Rank),
		})
		return nil
	}
}

// counted returns the number of a run's rows, normally the value of counter. If counter is nil, because the run is
// older than the counter, counted executes sql to count the rows. The count misses no row that the group has queued,
// because the first queued row sets the counter.
func counted(ctx context.Context, tx pgx.Tx, counter *int32, sql, runID string) (n int32, err error) {
	if counter != nil {
		return *counter, nil
	}
	if err := tx.QueryRow(ctx, sql, runID).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the rows of run %s: %w", runID, err)
	}
	return n, nil
}

// Score is a stored score.
type Score struct {
	ID                       string
	Attempt                  int32
	Name                     string
	Version                  *string
	Metric                   string
	Value                    float64
	N                        *int64
	Stderr                   *float64
	ConfigDigest, SamplesURI *string
	At                       time.Time
}

// ScoreStore reads scores.
type ScoreStore struct{ Pool pg.Querier }

const columns = `SELECT id, attempt, name, version, metric, value, n, stderr, config_digest, samples_uri, created_at
	FROM benchmark_score WHERE run_id = $1`

// List returns a page of a run's scores in the order of the reports, and whether another page follows.
func (s *ScoreStore) List(ctx context.Context, runID string, p request.Page) ([]Score, bool, error) {
	found, err := s.collect(ctx, columns+` ORDER BY created_at, id LIMIT $2 OFFSET $3`, runID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, false, err
	}
	found, more := request.CutPage(found, p)
	return found, more, nil
}

// maxNamed is the maximum number of metrics that Newest returns.
const maxNamed = 100

// Newest returns, for each metric of a benchmark, the newest score of the lowest rank that reported one, ordered by metric
// name. Scores that are older than ranks count as those of this rank. They have rank 0; other ranks are always known.
func (s *ScoreStore) Newest(ctx context.Context, runID, name string) ([]Score, error) {
	return s.collect(ctx, `SELECT DISTINCT ON (metric) id, attempt, name, version, metric, value, n, stderr, config_digest, samples_uri,
		created_at FROM (SELECT *, CASE WHEN ranked OR rank > 0 THEN rank
				ELSE min(rank) FILTER (WHERE ranked OR rank > 0) OVER (PARTITION BY metric) END AS of_rank
			FROM benchmark_score WHERE run_id = $1 AND name = $2) s ORDER BY metric, of_rank, created_at DESC, id DESC LIMIT $3`,
		runID, name, maxNamed)
}

func (s *ScoreStore) collect(ctx context.Context, sql string, args ...any) ([]Score, error) {
	rows, err := s.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read scores: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Score])
	if err != nil {
		return nil, fmt.Errorf("read scores: %w", err)
	}
	return found, nil
}
