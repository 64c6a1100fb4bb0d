package environment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

const versionColumns = `id, environment_id, version, state, reason, digest, manifest, package_sha256, package_bytes, creator_id, created_at, ready_at`

func scanVersion(row pgx.Row) (*Version, error) {
	v := &Version{}
	var manifest []byte
	err := row.Scan(&v.ID, &v.EnvironmentID, &v.Version, &v.State, &v.Reason, &v.Digest, &manifest, &v.Package.SHA256, &v.Package.Size,
		&v.CreatorID, &v.CreatedAt, &v.ReadyAt)
	v.Manifest = manifest
	return v, err
}

// InsertVersion stores a new version. If the name is taken, it replaces the existing version only if that version is
// still uploading and has another digest, and if both versions have the same creator or the existing one was created
// before the given time. Otherwise InsertVersion returns false.
func (Store) InsertVersion(ctx context.Context, tx pgx.Tx, v *Version, tasksetSHA256 string, left time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `INSERT INTO environment_version AS old (`+versionColumns+`, taskset_sha256)
		VALUES (@id, @environment_id, @version, @state, @reason, @digest, @manifest, @package_sha256, @package_bytes, @creator_id,
			@created_at, @ready_at, @taskset_sha256)
		ON CONFLICT ON CONSTRAINT environment_version_key DO UPDATE SET id = @id, state = @state, reason = @reason,
			digest = @digest, manifest = @manifest, package_sha256 = @package_sha256, package_bytes = @package_bytes,
			creator_id = @creator_id, created_at = @created_at, taskset_sha256 = @taskset_sha256
		WHERE old.state = 'uploading' AND old.digest <> @digest AND (old.creator_id = @creator_id OR old.created_at <= @left)`, pgx.StrictNamedArgs{
		"id": v.ID, "environment_id": v.EnvironmentID, "version": v.Version, "state": v.State, "reason": v.Reason,
		"digest": v.Digest, "manifest": []byte(v.Manifest), "package_sha256": v.Package.SHA256, "package_bytes": v.Package.Size,
		"creator_id": v.CreatorID, "created_at": v.CreatedAt, "ready_at": v.ReadyAt, "taskset_sha256": tasksetSHA256, "left": left,
	})
	if err != nil {
		return false, fmt.Errorf("insert a version of an environment: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// Begin moves a version from uploading to validating. It returns false if the version is not uploading.
func (Store) Begin(ctx context.Context, tx pgx.Tx, v *Version) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE environment_version SET state = 'validating' WHERE id = $1 AND state = 'uploading'`, v.ID)
	if err != nil {
		return false, fmt.Errorf("begin the validation of a version: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// Settle stores the result of a validation. It returns false if the version is not validating. A ready version becomes
// the latest of its environment.
func (Store) Settle(ctx context.Context, tx pgx.Tx, v *Version, to State, reason string, at time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE environment_version SET state = $2, reason = $3,
		ready_at = CASE WHEN $2 = 'ready' THEN $4::timestamptz END WHERE id = $1 AND state = 'validating'`, v.ID, to, reason, at)
	if err != nil {
		return false, fmt.Errorf("end the validation of a version: %w", err)
	}
	if tag.RowsAffected() == 0 || to != StateReady {
		return tag.RowsAffected() == 1, nil
	}
	_, err = tx.Exec(ctx, `UPDATE environment SET latest_version = $2 WHERE id = $1`, v.EnvironmentID, v.Version)
	if err != nil {
		return false, fmt.Errorf("set the latest version: %w", err)
	}
	return true, nil
}

// Deprecate deprecates a ready version. The most recent other ready version becomes the latest. The method returns
// false if the version is not ready.
func (Store) Deprecate(ctx context.Context, tx pgx.Tx, v *Version) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE environment_version SET state = 'deprecated' WHERE id = $1 AND state = 'ready'`, v.ID)
	if err != nil {
		return false, fmt.Errorf("deprecate a version: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	_, err = tx.Exec(ctx, `UPDATE environment SET latest_version = (SELECT version FROM environment_version
		WHERE environment_id = $1 AND state = 'ready' ORDER BY ready_at DESC, id DESC LIMIT 1) WHERE id = $1`, v.EnvironmentID)
	if err != nil {
		return false, fmt.Errorf("set the latest version: %w", err)
	}
	return true, nil
}

// Validating returns a version that is validating, and its environment. It returns nil values if the version has
// another state.
func (s Store) Validating(ctx context.Context, q pg.Querier, id string) (*Environment, *Version, error) {
	v, err := scanVersion(q.QueryRow(ctx, `SELECT `+versionColumns+` FROM environment_version WHERE id = $1 AND state = 'validating'`, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("load a version to validate: %w", err)
	}
	e, err := pg.One[Environment](q.Query(ctx, `SELECT `+columns+` FROM environment WHERE id = $1`, v.EnvironmentID))
	if err != nil {
		return nil, nil, fmt.Errorf("load the environment of a version: %w", err)
	}
	return e, v, nil
}

// Version returns one version.
func (Store) Version(ctx context.Context, q pg.Querier, environmentID, version string) (*Version, error) {
	v, err := scanVersion(q.QueryRow(ctx, `SELECT `+versionColumns+` FROM environment_version
		WHERE environment_id = $1 AND version = $2`, environmentID, version))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(VersionKind, version)
	}
	if err != nil {
		return nil, fmt.Errorf("load a version of an environment: %w", err)
	}
	return v, nil
}

// Versions returns the versions of an environment, newest first.
func (Store) Versions(ctx context.Context, q pg.Querier, environmentID string, p request.Page) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+versionColumns+` FROM environment_version WHERE environment_id = $1
		ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`, environmentID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list versions of an environment: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Version, error) { return scanVersion(row) })
	if err != nil {
		return nil, fmt.Errorf("list versions of an environment: %w", err)
	}
	return found, nil
}
