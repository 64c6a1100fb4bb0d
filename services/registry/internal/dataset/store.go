package dataset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// Store reads and writes datasets.
type Store struct{}

const columns = `id, name, owner_id, owner_name, project_id, project, visibility, description, format, protected,
	latest_version, created_at`

// Insert stores a new dataset. It returns a conflict if the project already has a dataset of that name.
func (Store) Insert(ctx context.Context, tx pgx.Tx, d *Dataset) error {
	_, err := tx.Exec(ctx, `INSERT INTO dataset (`+columns+`, visibility_version)
		VALUES (@id, @name, @owner_id, @owner_name, @project_id, @project, @visibility, @description, @format, @protected,
			@latest_version, @created_at, @visibility_version)`, pgx.StrictNamedArgs{
		"id": d.ID, "name": d.Name, "owner_id": d.UserID, "owner_name": d.UserName, "project_id": d.ProjectID,
		"project": d.Project, "visibility": d.Visibility, "description": d.Description, "format": d.Format,
		"protected": d.Protected, "latest_version": d.Latest, "created_at": d.CreatedAt, "visibility_version": d.VisibilityVersion,
	})
	if pg.IsUnique(err, "dataset_name_key") {
		return fault.New(fault.Conflict, "dataset_exists", "project %s already has a dataset %s", d.Project, d.Name)
	}
	if err != nil {
		return fmt.Errorf("insert a dataset: %w", err)
	}
	return nil
}

// Get returns a dataset visible to the scope.
func (Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Dataset, error) {
	d, err := pg.One[Dataset](q.Query(ctx, `SELECT `+columns+` FROM dataset WHERE `+access.Visible+` AND id = $4`, access.Args(scope, id)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load a dataset: %w", err)
	}
	return d, nil
}

// List returns the datasets visible to the scope, newest first, if they match the filter.
func (Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f access.Filter, p request.Page) ([]*Dataset, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM dataset WHERE `+access.Filtered+`
		ORDER BY created_at DESC, id DESC LIMIT $7 OFFSET $8`, f.Args(scope, p.FetchLimit(), p.Offset)...)
	if err != nil {
		return nil, fmt.Errorf("list datasets: %w", err)
	}
	found, err := pg.All[Dataset](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("list datasets: %w", err)
	}
	return found, nil
}

// Resolve finds a ready version by its reference, without its manifest. It returns nil values if no such version is
// visible.
func (s Store) Resolve(ctx context.Context, q pg.Querier, scope authn.Scope, r ref.Ref) (*Dataset, *Version, error) {
	d, v, err := s.find(ctx, q, scope, r, s.head)
	if err != nil || v == nil || v.State != StateReady {
		return nil, nil, err
	}
	return d, v, nil
}

// Guards reports whether the caller may change all given datasets, which are the protected datasets that a run read.
// Only such callers may use the artifacts and models of the run. If ids is empty, the datasets are unknown, and Guards
// returns true only for an administrator. An id may occur several times.
func (Store) Guards(ctx context.Context, q pg.Querier, c *authn.Caller, ids []string) (bool, error) {
	if len(ids) == 0 {
		return c.Role == authn.RoleAdmin, nil
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	rows, err := q.Query(ctx, `SELECT owner_id, project_id FROM dataset WHERE id = ANY($1)`, ids)
	if err != nil {
		return false, fmt.Errorf("look up protected datasets: %w", err)
	}
	type owner struct{ UserID, ProjectID string }
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[owner])
	if err != nil {
		return false, fmt.Errorf("look up protected datasets: %w", err)
	}
	for _, o := range found {
		if !c.CanEdit(o.UserID, o.ProjectID) {
			return false, nil
		}
	}
	return len(found) == len(ids), nil
}

// Find finds a ready or archived version by its reference. It returns nil values if no such version is visible.
func (s Store) Find(ctx context.Context, q pg.Querier, scope authn.Scope, r ref.Ref) (*Dataset, *Version, error) {
	return s.find(ctx, q, scope, r, s.Version)
}

// load returns one version of a dataset.
type load func(ctx context.Context, q pg.Querier, datasetID, version string) (*Version, error)

func (Store) find(ctx context.Context, q pg.Querier, scope authn.Scope, r ref.Ref, one load) (*Dataset, *Version, error) {
	d, err := pg.One[Dataset](q.Query(ctx, `SELECT `+columns+` FROM dataset WHERE `+access.Visible+` AND project = $4 AND name = $5`,
		access.Args(scope, r.Project, r.Name)...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("resolve a dataset: %w", err)
	}
	v, err := one(ctx, q, d.ID, r.Version)
	if fault.Is(err, fault.Absent) && r.Version == ref.Latest && d.Latest != nil {
		v, err = one(ctx, q, d.ID, *d.Latest)
	}
	if fault.Is(err, fault.Absent) || (err == nil && v.State != StateReady && v.State != StateArchived) {
		return nil, nil, nil
	}
	return d, v, err
}

const versionColumns = `id, dataset_id, version, state, digest, files, bytes, creator_id, created_at, committed_at, archived_at,
	row_schema, schema_source, sampled_rows, apart`

// NameClaim states how InsertVersion obtained the name of a version.
type NameClaim string

// The results of a claim: the name was unused, was taken over from another user's abandoned upload or from an upload of
// the same user, or is not available.
const (
	ClaimedNew       NameClaim = "fresh"
	ClaimedAbandoned NameClaim = "left"
	ClaimedOwn       NameClaim = "own"
	ClaimedNot       NameClaim = ""
)

// InsertVersion stores a new version under its name.
//
// If an upload already has the name, InsertVersion replaces it if it has the same creator, or if its URLs had expired by
// v.CreatedAt. It does not replace an upload with the same creator and digest, because the request is then a repeat,
// which resumes the upload. A replacement changes the row's id, so that a commit of the former upload finds no row.
//
// It also sets v.Isolated if another dataset of the project is protected but still has one of the files under a shared
// key, because that file was uploaded before the dataset was protected.
func (Store) InsertVersion(ctx context.Context, tx pgx.Tx, v *Version) (NameClaim, error) {
	raw, err := json.Marshal(v.Manifest)
	if err != nil {
		return ClaimedNot, fmt.Errorf("encode a manifest: %w", err)
	}
	how := ClaimedNot
	sums := make([]string, len(v.Manifest))
	for i, f := range v.Manifest {
		sums[i] = f.SHA256
	}
	err = tx.QueryRow(ctx, `INSERT INTO dataset_version AS left_behind (`+versionColumns+`, manifest, upload_until)
		VALUES (@id, @dataset_id, @version, @state, @digest, @files, @bytes, @creator_id, @created_at, @committed_at, @archived_at,
			@row_schema, @schema_source, @sampled_rows, @apart OR EXISTS (
			SELECT FROM dataset mine JOIN dataset d ON d.project_id = mine.project_id AND d.protected AND d.id <> mine.id
				JOIN dataset_version o ON o.dataset_id = d.id AND NOT o.apart CROSS JOIN json_array_elements(o.manifest) f
			WHERE mine.id = @dataset_id AND f->>'sha256' = ANY(@sums)), @manifest, @upload_until)
		ON CONFLICT ON CONSTRAINT dataset_version_key DO UPDATE SET id = @id, state = @state, digest = @digest, files = @files,
			bytes = @bytes, creator_id = @creator_id, created_at = @created_at, committed_at = @committed_at,
			row_schema = @row_schema, schema_source = @schema_source, sampled_rows = @sampled_rows, apart = excluded.apart,
			manifest = @manifest, upload_until = @upload_until
		WHERE left_behind.state = 'uploading' AND CASE WHEN left_behind.creator_id = @creator_id
			THEN left_behind.digest <> @digest ELSE left_behind.upload_until <= @created_at END
		RETURNING CASE WHEN xmax = 0 THEN 'fresh' WHEN EXISTS (SELECT FROM dataset_version before
			WHERE before.dataset_id = @dataset_id AND before.version = @version AND before.creator_id <> @creator_id)
			THEN 'left' ELSE 'own' END, apart`, pgx.StrictNamedArgs{
		"id": v.ID, "dataset_id": v.DatasetID, "version": v.Version, "state": v.State, "digest": v.Digest, "files": v.Count,
		"bytes": v.Bytes, "creator_id": v.CreatorID, "created_at": v.CreatedAt, "committed_at": v.CommittedAt,
		"archived_at": v.ArchivedAt, "row_schema": orNull(v.Schema), "schema_source": cmp.Or(v.SchemaSource, SchemaNone),
		"sampled_rows": v.SampledRows, "apart": v.Isolated, "manifest": raw, "upload_until": v.UploadUntil, "sums": sums,
	}).Scan(&how, &v.Isolated)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return ClaimedNot, fmt.Errorf("insert a version of a dataset: %w", err)
	}
	return how, nil
}

// RenewUpload stores the time at which the new URLs of an upload expire. It returns false if the version is no longer
// uploading.
func (Store) RenewUpload(ctx context.Context, tx pgx.Tx, id string, until time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE dataset_version SET upload_until = greatest(upload_until, $2)
		WHERE id = $1 AND state = 'uploading'`, id, until)
	if err != nil {
		return false, fmt.Errorf("renew an upload: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// Version returns one version with its manifest.
func (Store) Version(ctx context.Context, q pg.Querier, datasetID, version string) (*Version, error) {
	v, err := pg.One[struct {
		Version

		Files []File `db:"manifest"`
	}](q.Query(ctx, `SELECT `+versionColumns+`, manifest FROM dataset_version WHERE dataset_id = $1 AND version = $2`, datasetID, version))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(VersionKind, version)
	}
	if err != nil {
		return nil, fmt.Errorf("load a version of a dataset: %w", err)
	}
	v.Manifest = v.Files
	return &v.Version, nil
}

// head returns one version without its manifest.
func (Store) head(ctx context.Context, q pg.Querier, datasetID, version string) (*Version, error) {
	v, err := pg.One[Version](q.Query(ctx, `SELECT `+versionColumns+` FROM dataset_version WHERE dataset_id = $1 AND version = $2`, datasetID, version))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(VersionKind, version)
	}
	if err != nil {
		return nil, fmt.Errorf("load a version of a dataset: %w", err)
	}
	return v, nil
}

// LoadInputs sets v.Packs and v.Alone, which jobs download. If packed is false or the version has no packs, v.Alone
// holds all files.
func (Store) LoadInputs(ctx context.Context, q pg.Querier, v *Version, packed bool) error {
	v.Packs, v.Alone = nil, nil
	err := q.QueryRow(ctx, `SELECT CASE WHEN $2 THEN packs END, CASE WHEN $2 AND packs IS NOT NULL THEN alone ELSE manifest END
		FROM dataset_version WHERE id = $1`, v.ID, packed).Scan(&v.Packs, &v.Alone)
	if err != nil {
		return fmt.Errorf("load the files of a version of a dataset: %w", err)
	}
	return nil
}

// SavePacks stores the packs of an uploading version and its files that are in no pack.
func (Store) SavePacks(ctx context.Context, q pg.Querier, v *Version) error {
	packs, err := json.Marshal(v.Packs)
	if err != nil {
		return fmt.Errorf("encode the packs of a version: %w", err)
	}
	alone, err := json.Marshal(v.Alone)
	if err != nil {
		return fmt.Errorf("encode the packs of a version: %w", err)
	}
	_, err = q.Exec(ctx, `UPDATE dataset_version SET packs = $2, alone = $3 WHERE id = $1 AND state = 'uploading'`, v.ID, packs, alone)
	if err != nil {
		return fmt.Errorf("save the packs of a version: %w", err)
	}
	return nil
}

// Versions returns the versions of a dataset without their manifests, newest first.
func (Store) Versions(ctx context.Context, q pg.Querier, datasetID string, p request.Page) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+versionColumns+` FROM dataset_version WHERE dataset_id = $1
		ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`, datasetID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list versions of a dataset: %w", err)
	}
	found, err := pg.All[Version](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("list versions of a dataset: %w", err)
	}
	return found, nil
}

// Commit makes a version ready and the latest of its dataset. It returns false if the version is no longer uploading.
func (Store) Commit(ctx context.Context, tx pgx.Tx, v *Version) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE dataset_version SET state = 'ready', committed_at = $2, row_schema = $3, schema_source = $4, sampled_rows = $5
		WHERE id = $1 AND state = 'uploading'`, v.ID, v.CommittedAt, orNull(v.Schema), cmp.Or(v.SchemaSource, SchemaNone), v.SampledRows)
	if err != nil {
		return false, fmt.Errorf("commit a version of a dataset: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	if _, err := tx.Exec(ctx, `UPDATE dataset SET latest_version = $2 WHERE id = $1`, v.DatasetID, v.Version); err != nil {
		return false, fmt.Errorf("set the latest version: %w", err)
	}
	return true, nil
}

func orNull(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	return raw
}

// Delete deletes a version that is still uploading. It returns false if the version is no longer uploading.
func (Store) Delete(ctx context.Context, tx pgx.Tx, id string) (bool, error) {
	tag, err := tx.Exec(ctx, `DELETE FROM dataset_version WHERE id = $1 AND state = 'uploading'`, id)
	if err != nil {
		return false, fmt.Errorf("delete a version of a dataset: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// Update changes the description of a dataset and protects it if protected is set. It never removes protection.
func (Store) Update(ctx context.Context, tx pgx.Tx, id string, description *string, protected bool) (*Dataset, error) {
	d, err := pg.One[Dataset](tx.Query(ctx, `UPDATE dataset SET description = coalesce($2, description), protected = protected OR $3
		WHERE id = $1 RETURNING `+columns, id, description, protected))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("update a dataset: %w", err)
	}
	return d, nil
}

// Archive archives a ready version. The most recently committed other ready version becomes the latest. It returns
// false if the version is not ready.
func (Store) Archive(ctx context.Context, tx pgx.Tx, v *Version, at time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE dataset_version SET state = 'archived', archived_at = $2 WHERE id = $1 AND state = 'ready'`, v.ID, at)
	if err != nil {
		return false, fmt.Errorf("archive a version: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	_, err = tx.Exec(ctx, `UPDATE dataset SET latest_version = (SELECT version FROM dataset_version
		WHERE dataset_id = $1 AND state = 'ready' ORDER BY committed_at DESC, id DESC LIMIT 1) WHERE id = $1`, v.DatasetID)
	if err != nil {
		return false, fmt.Errorf("set the latest version: %w", err)
	}
	return true, nil
}
