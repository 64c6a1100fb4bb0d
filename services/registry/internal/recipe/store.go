package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads and writes the catalog.
type Store struct{}

const columns = `digest, manifest, requirements, state, tree_sha256, tree_bytes, locked_at`

func scan(row pgx.CollectableRow) (*Version, error) {
	v := &Version{}
	var text, state string
	if err := row.Scan(&v.Digest, &text, &v.RequirementsText, &state, &v.TreeSHA256, &v.TreeBytes, &v.LockedAt); err != nil {
		return nil, err
	}
	v.Text = []byte(text)
	m, err := read(v.Text)
	v.Manifest, v.State = m, state
	return v, err
}

// Put stores a version. replaced reports whether the version existed with another digest.
func (Store) Put(ctx context.Context, q pg.Querier, v *Version) (replaced bool, err error) {
	err = q.QueryRow(ctx, `INSERT INTO recipe AS old (name, version, digest, manifest, requirements, state, tree_sha256,
			tree_bytes, locked_at)
		VALUES (@name, @version, @digest, @manifest, @requirements, @state, @tree_sha256, @tree_bytes, @locked_at)
		ON CONFLICT (name, version) DO UPDATE SET digest = excluded.digest, manifest = excluded.manifest,
			requirements = excluded.requirements, state = excluded.state, tree_sha256 = excluded.tree_sha256,
			tree_bytes = excluded.tree_bytes, locked_at = excluded.locked_at
		WHERE old.digest <> excluded.digest
		RETURNING xmax <> 0`, pgx.StrictNamedArgs{
		"name": v.Name, "version": v.Manifest.Version, "digest": v.Digest, "manifest": string(v.Text),
		"requirements": v.RequirementsText, "state": v.State, "tree_sha256": v.TreeSHA256, "tree_bytes": v.TreeBytes,
		"locked_at": v.LockedAt,
	}).Scan(&replaced)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("store recipe %s: %w", v.Name, err)
	}
	return replaced, nil
}

// List returns the versions of all recipes, ordered by name and version.
func (Store) List(ctx context.Context, q pg.Querier, p request.Page) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM recipe ORDER BY name, version LIMIT $1 OFFSET $2`, p.FetchLimit(), p.Offset)
	return collect(rows, err)
}

// All returns the whole catalog, in the order of List.
func (Store) All(ctx context.Context, q pg.Querier) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM recipe ORDER BY name, version`)
	return collect(rows, err)
}

// VersionsOf returns every version of one recipe.
func (Store) VersionsOf(ctx context.Context, q pg.Querier, name string) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM recipe WHERE name = $1 ORDER BY version`, name)
	return collect(rows, err)
}

// Get returns one version.
func (Store) Get(ctx context.Context, q pg.Querier, name, version string) (*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM recipe WHERE name = $1 AND version = $2`, name, version)
	found, err := collect(rows, err)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fault.Absentf("recipe", name+"@"+version)
	}
	return found[0], nil
}

func collect(rows pgx.Rows, err error) ([]*Version, error) {
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	return found, nil
}
