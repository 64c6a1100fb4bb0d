package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	jobrun "github.com/signalbox-dev/signalbox/services/jobs/internal/run"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/tablefeed"
)

// Ages are the settings of the ages at which the service deletes rows, in days.
type Ages struct {
	Job     float64 `env:"SERVICE_JOBS_ENDED_DAYS, default=400" doc:"days until an ended job is deleted with its attempts, but without its run; 0 keeps the job forever"`
	Work    float64 `env:"SERVICE_JOBS_WORK_DAYS, default=30" doc:"days until the records of what nodes ran for an ended attempt are deleted; 0 keeps them forever"`
	Engine  float64 `env:"SERVICE_JOBS_ENGINE_DAYS, default=1" doc:"days until the records of what nodes ran for an ended engine are deleted; 0 keeps them forever"`
	Token   float64 `env:"SERVICE_JOBS_TOKEN_DAYS, default=30" doc:"days until an expired ingest or join token is deleted; 0 keeps it forever"`
	Share   float64 `env:"SERVICE_JOBS_SHARE_DAYS, default=30" doc:"days until an expired or revoked public link is deleted; 0 keeps it forever"`
	Change  float64 `env:"SERVICE_JOBS_CHANGE_DAYS, default=1" doc:"days until a change of a job or run is deleted; a client of GET /api/jobs/stream or GET /api/runs/stream that is away for longer must read the list again; 0 keeps changes forever"`
	RunData float64 `env:"SERVICE_RUN_DATA_DAYS, default=400" doc:"days after the end of a run until its metrics, logs, samples and artifacts are deleted, unless a model was registered from it; 0 keeps them forever"`
}

func (a *Ages) check() error {
	return errors.Join(
		retention.CheckDays("SERVICE_JOBS_ENDED_DAYS", a.Job), retention.CheckDays("SERVICE_JOBS_WORK_DAYS", a.Work),
		retention.CheckDays("SERVICE_JOBS_ENGINE_DAYS", a.Engine), retention.CheckDays("SERVICE_JOBS_TOKEN_DAYS", a.Token),
		retention.CheckDays("SERVICE_JOBS_SHARE_DAYS", a.Share), retention.CheckDays("SERVICE_RUN_DATA_DAYS", a.RunData),
		retention.CheckDays("SERVICE_JOBS_CHANGE_DAYS", a.Change),
	)
}

// Retention returns the rules by which old rows are deleted.
func (s *Service) Retention() []retention.Rule {
	a := s.cfg.Ages
	runs := &jobrun.Expirer{Pool: s.deps.Pool, Ingest: s.deps.RunData, Catalog: s.deps.Catalog}
	return []retention.Rule{
		{Name: "ended job", Age: retention.Days(a.Job), Step: step(s.deps.Pool, db.DeleteJobs)},
		{Name: "ended work", Age: retention.Days(a.Work), Step: step(s.deps.Pool, db.DeleteWorks)},
		{Name: "ended engine", Age: retention.Days(a.Engine), Step: step(s.deps.Pool, db.DeleteEngines)},
		{Name: "ingest token", Age: retention.Days(a.Token), Step: step(s.deps.Pool, db.DeleteIngestTokens)},
		{Name: "join token", Age: retention.Days(a.Token), Step: step(s.deps.Pool, db.DeleteJoinTokens)},
		{Name: "share", Age: retention.Days(a.Share), Step: step(s.deps.Pool, db.DeleteShares)},
		{Name: "job change", Age: retention.Days(a.Change), Step: changes(s.deps.Pool, tablefeed.Jobs)},
		{Name: "run change", Age: retention.Days(a.Change), Step: changes(s.deps.Pool, tablefeed.Runs)},
		{Name: "run with data", Age: retention.Days(a.RunData), Step: runs.Expire},
	}
}

func step(
	pool *pgxpool.Pool, del func(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error),
) func(ctx context.Context, before time.Time, limit int) (int64, error) {
	return func(ctx context.Context, before time.Time, limit int) (int64, error) {
		return del(ctx, pool, before, limit)
	}
}

func changes(pool *pgxpool.Pool, feed tablefeed.Feed) func(ctx context.Context, before time.Time, limit int) (int64, error) {
	return func(ctx context.Context, before time.Time, limit int) (int64, error) {
		return feed.Delete(ctx, pool, before, limit)
	}
}
