package db

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Each function of this file deletes at most limit old rows and returns their number. The age of a row counts from an
// event such as its deletion; the row is old if that event is earlier than the given time. Concurrent calls delete
// different rows.

// DeleteDatasetUploads deletes versions of datasets that were never committed and whose upload URLs expired before the
// given time.
func DeleteDatasetUploads(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "abandoned uploads of datasets", `
		WITH old AS (DELETE FROM dataset_version WHERE id IN (SELECT id FROM dataset_version WHERE state = 'uploading' AND upload_until < $1
			ORDER BY upload_until LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id)
		SELECT count(*) FROM old`, before, limit)
}

// DeleteEnvironmentUploads deletes versions of environments whose bytes were never uploaded.
func DeleteEnvironmentUploads(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "abandoned uploads of environments", `
		WITH old AS (DELETE FROM environment_version WHERE id IN (SELECT id FROM environment_version WHERE state = 'uploading' AND created_at < $1
			ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id)
		SELECT count(*) FROM old`, before, limit)
}

// DeletePackages deletes packages that were never committed or were refused.
func DeletePackages(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "unused packages", `
		WITH old AS (DELETE FROM package WHERE id IN (SELECT id FROM package WHERE state <> 'accepted' AND created_at < $1
			ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id)
		SELECT count(*) FROM old`, before, limit)
}

// DeleteDeployments deletes the rows of deleted deployments whose engines are gone, with their revisions and tokens.
func DeleteDeployments(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "deleted deployments", `
		WITH old AS MATERIALIZED (SELECT id FROM deployment d WHERE deleted_at IS NOT NULL AND deleted_at < $1
			AND NOT EXISTS (SELECT FROM revision r WHERE r.deployment_id = d.id AND r.desired <> 'gone')
			ORDER BY deleted_at LIMIT $2 FOR UPDATE SKIP LOCKED),
		tokens AS (DELETE FROM deployment_token t USING old WHERE t.deployment_id = old.id),
		revisions AS (DELETE FROM revision r USING old WHERE r.deployment_id = old.id),
		deployments AS (DELETE FROM deployment d USING old WHERE d.id = old.id RETURNING d.id)
		SELECT count(*) FROM deployments`, before, limit)
}

// DeleteTokens deletes revoked tokens of deployments.
func DeleteTokens(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "revoked deployment tokens", `
		WITH old AS (DELETE FROM deployment_token WHERE id IN (SELECT id FROM deployment_token WHERE revoked_at IS NOT NULL AND revoked_at < $1
			ORDER BY revoked_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id)
		SELECT count(*) FROM old`, before, limit)
}

// DeleteModels deletes the rows of deleted models to which no revision refers, with their versions.
func DeleteModels(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "deleted models", `
		WITH old AS MATERIALIZED (SELECT id FROM model m WHERE deleted_at IS NOT NULL AND deleted_at < $1
			AND NOT EXISTS (SELECT FROM revision r WHERE r.model_id = m.id)
			ORDER BY deleted_at LIMIT $2 FOR UPDATE SKIP LOCKED),
		versions AS (DELETE FROM model_version v USING old WHERE v.model_id = old.id),
		models AS (DELETE FROM model m USING old WHERE m.id = old.id RETURNING m.id)
		SELECT count(*) FROM models`, before, limit)
}

// DeleteEnvironments deletes the rows of deleted environments, with their versions.
func DeleteEnvironments(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "deleted environments", `
		WITH old AS MATERIALIZED (SELECT id FROM environment WHERE deleted_at IS NOT NULL AND deleted_at < $1
			ORDER BY deleted_at LIMIT $2 FOR UPDATE SKIP LOCKED),
		versions AS (DELETE FROM environment_version v USING old WHERE v.environment_id = old.id),
		environments AS (DELETE FROM environment e USING old WHERE e.id = old.id RETURNING e.id)
		SELECT count(*) FROM environments`, before, limit)
}

func deleted(ctx context.Context, q pg.Querier, what, sql string, before time.Time, limit int) (int64, error) {
	var n int64
	if err := q.QueryRow(ctx, sql, before, limit).Scan(&n); err != nil {
		return 0, fmt.Errorf("delete %s: %w", what, err)
	}
	return n, nil
}
