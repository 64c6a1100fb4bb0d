package setting

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Sealed describes the column with encrypted secrets.
func Sealed() pg.SealedColumn {
	return pg.SealedColumn{Table: "setting_version", Name: "sealed", Key: "key || '/' || version"}
}

// Store reads and writes versions.
type Store struct{}

const columns = `version, is_set, value::text, sealed, changed_at, changed_by, changed_by_name`

func (v *Version) into() []any {
	return []any{&v.Number, &v.Set, &v.Value, &v.sealed, &v.ChangedAt, &v.ChangedBy, &v.ChangedByName}
}

// Newest returns a setting's newest version, or a zero Version if the setting was never changed.
func (Store) Newest(ctx context.Context, q pg.Querier, key string) (Version, error) {
	var v Version
	err := q.QueryRow(ctx, `SELECT `+columns+` FROM setting_version WHERE key = $1 ORDER BY version DESC LIMIT 1`, key).Scan(v.into()...)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return v, fmt.Errorf("load the setting %s: %w", key, err)
	}
	return v, nil
}

// Revision returns the number of changes of all settings together.
func (Store) Revision(ctx context.Context, q pg.Querier) (n int64, err error) {
	if err := q.QueryRow(ctx, `SELECT revision FROM setting_revision`).Scan(&n); err != nil {
		return 0, fmt.Errorf("read the revision of the settings: %w", err)
	}
	return n, nil
}

// All returns the newest version of each setting, by key, and the revision at which they were read.
func (Store) All(ctx context.Context, q pg.Querier) (revision int64, all map[string]Version, err error) {
	rows, err := q.Query(ctx, `SELECT revision, coalesce(key, ''), coalesce(version, 0), coalesce(is_set, false), value, sealed,
			coalesce(changed_at, 'epoch'), coalesce(changed_by, ''), coalesce(changed_by_name, '')
		FROM setting_revision LEFT JOIN (
			SELECT DISTINCT ON (key) key, version, is_set, value::text, sealed, changed_at, changed_by, changed_by_name
			FROM setting_version ORDER BY key, version DESC) newest ON true`)
	if err != nil {
		return 0, nil, fmt.Errorf("load the settings: %w", err)
	}
	all = map[string]Version{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var key string
		var v Version
		err := row.Scan(append([]any{&revision, &key}, v.into()...)...)
		if key != "" {
			all[key] = v
		}
		return struct{}{}, err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("load the settings: %w", err)
	}
	return revision, all, nil
}

// Versions returns a setting's versions, newest first.
func (Store) Versions(ctx context.Context, q pg.Querier, key string, p request.Page) ([]Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM setting_version WHERE key = $1 ORDER BY version DESC LIMIT $2 OFFSET $3`,
		key, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list the versions of %s: %w", key, err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (v Version, err error) { return v, row.Scan(v.into()...) })
	if err != nil {
		return nil, fmt.Errorf("list the versions of %s: %w", key, err)
	}
	return all, nil
}

// Lock increments the revision. Its row lock lets only one transaction at a time change settings.
func (Store) Lock(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `UPDATE setting_revision SET revision = revision + 1`); err != nil {
		return fmt.Errorf("lock the settings: %w", err)
	}
	return nil
}

// Add inserts a new version and deletes the secrets of all older versions.
func (Store) Add(ctx context.Context, tx pgx.Tx, key string, v Version) error {
	_, err := tx.Exec(ctx, `INSERT INTO setting_version (key, version, is_set, value, sealed, changed_at, changed_by, changed_by_name)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, key, v.Number, v.Set, v.Value, v.sealed, v.ChangedAt, v.ChangedBy, v.ChangedByName)
	if err != nil {
		return fmt.Errorf("store the setting %s: %w", key, err)
	}
	_, err = tx.Exec(ctx, `UPDATE setting_version SET sealed = NULL WHERE key = $1 AND version < $2 AND sealed IS NOT NULL`, key, v.Number)
	if err != nil {
		return fmt.Errorf("delete the former secrets of %s: %w", key, err)
	}
	return nil
}
