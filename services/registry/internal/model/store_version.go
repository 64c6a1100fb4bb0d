package model

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
)

const versionColumns = `id, model_id, version, status, status_reason, lifecycle, run_id, artifact_id, format, digest,
	size_bytes, uri, file, packed, facts, created_at, protected, protected_datasets, base, pickle`

// versionListed is the column list of lists, which do not show the files. versionShown is that of other reads.
const (
	versionListed = versionColumns + `, card_digest, promoted_by, promoted_at, '[]'::json AS files`
	versionShown  = versionColumns + `, card_digest, promoted_by, promoted_at, files`
)

// InsertVersion inserts a version under the model's next number, or returns the existing version with the same digest. A
// rejected version does not keep out one that is ready.
func (s Store) InsertVersion(ctx context.Context, tx pgx.Tx, v *Version) (kept *Version, fresh bool, err error) {
	// The lock on the model serializes the numbering.
	err = tx.QueryRow(ctx, `SELECT next_version FROM model WHERE id = $1 FOR UPDATE`, v.ModelID).Scan(&v.Number)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, fault.Absentf(SubjectKind, v.ModelID)
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the next version number of a model: %w", err)
	}
	known, err := s.ByDigest(ctx, tx, v.ModelID, v.Digest)
	if err != nil || known != nil && (known.Status == StatusReady || v.Status == StatusRejected) {
		return known, false, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO model_version (`+versionColumns+`, files)
		VALUES (@id, @model_id, @version, @status, @status_reason, @lifecycle, @run_id, @artifact_id, @format, @digest,
			@size_bytes, @uri, @file, @packed, @facts, @created_at, @protected, coalesce(@protected_datasets, '{}'::text[]),
			@base, @pickle, @files)`, pgx.StrictNamedArgs{
		"id": v.ID, "model_id": v.ModelID, "version": v.Number, "status": v.Status, "status_reason": v.StatusReason,
		"lifecycle": v.Lifecycle, "run_id": v.RunID, "artifact_id": v.ArtifactID, "format": v.Format, "digest": v.Digest,
		"size_bytes": v.Size, "uri": v.URI, "file": v.File, "packed": v.Packed, "facts": []byte(v.Facts),
		"created_at": v.CreatedAt, "protected": v.Protected, "protected_datasets": v.ProtectedDatasets,
		"files": append([]manifest.File{}, v.Files...), "base": v.Base, "pickle": v.Pickle,
	})
	if err != nil {
		return nil, false, fmt.Errorf("insert a version of a model: %w", err)
	}
	_, err = tx.Exec(ctx, `UPDATE model SET next_version = $2 + 1,
		latest_version = CASE WHEN $3 THEN $2 ELSE latest_version END WHERE id = $1`,
		v.ModelID, v.Number, v.Status == StatusReady)
	if err != nil {
		return nil, false, fmt.Errorf("update the version counter of a model: %w", err)
	}
	return v, true, nil
}

// ByDigest returns the version of a model with the given digest, a ready one rather than a rejected one, or nil.
func (Store) ByDigest(ctx context.Context, q pg.Querier, modelID, digest string) (*Version, error) {
	v, err := pg.One[Version](q.Query(ctx, `SELECT `+versionShown+` FROM model_version WHERE model_id = $1 AND digest = $2
		ORDER BY status = 'rejected', version LIMIT 1`, modelID, digest))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nil means no such version
	}
	if err != nil {
		return nil, fmt.Errorf("find a version of a model: %w", err)
	}
	return v, nil
}

// Version returns one version.
func (Store) Version(ctx context.Context, q pg.Querier, modelID string, number int32) (*Version, error) {
	v, err := pg.One[Version](q.Query(ctx, `SELECT `+versionShown+` FROM model_version WHERE model_id = $1 AND version = $2`,
		modelID, number))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(VersionKind, strconv.Itoa(int(number)))
	}
	if err != nil {
		return nil, fmt.Errorf("load a version of a model: %w", err)
	}
	return v, nil
}

// Hold prevents a version from being archived until the transaction tx ends. The caller must record its use of the
// version in tx.
func (Store) Hold(ctx context.Context, tx pgx.Tx, modelID string, number int32) error {
	var lifecycle string
	err := tx.QueryRow(ctx, `SELECT lifecycle FROM model_version WHERE model_id = $1 AND version = $2 FOR SHARE`, modelID, number).Scan(&lifecycle)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fault.New(fault.Conflict, "version_gone", "version %d of the model no longer exists", number)
	case err != nil:
		return fmt.Errorf("lock a version of a model: %w", err)
	case lifecycle == lifecycleArchived:
		return fault.New(fault.Conflict, "version_archived", "version %d of the model is archived; unarchive it first", number)
	}
	return nil
}

// Versions returns the versions of a model, newest first.
func (Store) Versions(ctx context.Context, q pg.Querier, modelID string, p request.Page) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+versionListed+` FROM model_version WHERE model_id = $1
		ORDER BY version DESC LIMIT $2 OFFSET $3`, modelID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list versions of a model: %w", err)
	}
	found, err := pg.All[Version](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("list versions of a model: %w", err)
	}
	return found, nil
}

// ArtifactsInUse returns those of the given artifacts of the given runs from which a model version was registered, in any
// lifecycle. It includes versions whose models were deleted later, until their rows are deleted.
func (Store) ArtifactsInUse(ctx context.Context, q pg.Querier, runs, artifacts []string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT DISTINCT artifact_id FROM model_version WHERE run_id = ANY($1) AND artifact_id = ANY($2)`, runs, artifacts)
	if err != nil {
		return nil, fmt.Errorf("find the artifacts of models: %w", err)
	}
	used, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find the artifacts of models: %w", err)
	}
	return used, nil
}

// RunsInUse returns those of the given runs from which a model version was registered. It includes runs whose models
// were deleted later.
func (Store) RunsInUse(ctx context.Context, q pg.Querier, runs []string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT DISTINCT run_id FROM model_version WHERE run_id = ANY($1)`, runs)
	if err != nil {
		return nil, fmt.Errorf("find the runs of models: %w", err)
	}
	used, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find the runs of models: %w", err)
	}
	return used, nil
}
