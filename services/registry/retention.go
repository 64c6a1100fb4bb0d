package registry

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
)

// Ages holds the ages, in days, at which the registry deletes rows and objects.
type Ages struct {
	Playground float64 `env:"SERVICE_REGISTRY_PLAYGROUND_DAYS, default=30" doc:"days until an ended playground session is deleted; 0 keeps it forever"`
	Upload     float64 `env:"SERVICE_REGISTRY_UPLOAD_DAYS, default=7" doc:"days until an upload that was never committed, or a package that was refused, is deleted; 0 keeps it forever"`
	Object     float64 `env:"SERVICE_OBJECT_DAYS, default=1" doc:"days until a stored object that nothing refers to is deleted; use at least 1 outside of tests; 0 keeps it forever"`
	Deleted    float64 `env:"SERVICE_REGISTRY_DELETED_DAYS, default=400" doc:"days until what remains of a deleted deployment, model or environment and of a revoked deployment token is deleted; 0 keeps it forever"`
}

func (a *Ages) check() error {
	return errors.Join(
		retention.CheckDays("SERVICE_REGISTRY_PLAYGROUND_DAYS", a.Playground), retention.CheckDays("SERVICE_REGISTRY_UPLOAD_DAYS", a.Upload),
		retention.CheckDays("SERVICE_REGISTRY_DELETED_DAYS", a.Deleted), retention.CheckDays("SERVICE_OBJECT_DAYS", a.Object),
	)
}

// Retention returns the rules that delete rows and objects of a certain age.
func (s *Service) Retention() []retention.Rule {
	pool, a := s.deps.Pool, s.cfg.Ages
	uploads, tombstones := retention.Days(a.Upload), retention.Days(a.Deleted)
	return []retention.Rule{
		{Name: "playground session", Age: retention.Days(a.Playground), Step: step(pool, s.tries.Store.DeleteBefore)},
		{Name: "dataset upload", Age: uploads, Step: step(pool, db.DeleteDatasetUploads)},
		{Name: "environment upload", Age: uploads, Step: step(pool, db.DeleteEnvironmentUploads)},
		{Name: "unused package", Age: uploads, Step: step(pool, db.DeletePackages)},
		{Name: "deployment token", Age: tombstones, Step: step(pool, db.DeleteTokens)},
		// Deployments come before models, because a model stays while a revision refers to it.
		{Name: "deleted deployment", Age: tombstones, Step: step(pool, db.DeleteDeployments)},
		{Name: "deleted model", Age: tombstones, Step: step(pool, db.DeleteModels)},
		{Name: "deleted environment", Age: tombstones, Step: step(pool, db.DeleteEnvironments)},
		{Name: "object hold", Age: retention.Days(a.Object), Step: step(pool, db.DeleteHolds)},
		// Objects come last, so that one pass deletes the rows and then the objects to which they referred.
		{Name: "unused object", Age: retention.Days(a.Object), Least: retention.LeastObjects, Step: s.sweeper.Step},
	}
}

func step(
	pool *pgxpool.Pool, del func(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error),
) func(ctx context.Context, before time.Time, limit int) (int64, error) {
	return func(ctx context.Context, before time.Time, limit int) (int64, error) {
		return del(ctx, pool, before, limit)
	}
}
