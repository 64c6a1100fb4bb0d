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

const columns = `digest, manifest, requirements, state, tree_sha256, tree_bytes, locked_at, shipped, trusted_digest`

func scan(row pgx.CollectableRow) (*Version, error) {
	v, err := scanRow(row)
	if err != nil {
		return nil, err
	}
	return v, v.parse()
}

// scanRow scans a row without parsing its manifest.
func scanRow(row pgx.CollectableRow) (*Version, error) {
	v := &Version{}
	return v, row.Scan(&v.Digest, &v.Text, &v.RequirementsText, &v.State, &v.TreeSHA256, &v.TreeBytes, &v.LockedAt, &v.Shipped, &v.TrustedDigest)
}

// parse reads the manifest of a scanned row. The state in the row takes precedence over the state in the manifest.
func (v *Version) parse() (err error) {
	state := v.State
	v.Manifest, err = read(v.Text)
	v.State = state
	return err
}

// Put stores a version that this binary contains, and reports whether it replaced a version with another digest.
func (Store) Put(ctx context.Context, q pg.Querier, v *Version) (replaced bool, err error) {
	err = q.QueryRow(ctx, `WITH before AS (SELECT digest FROM recipe WHERE name = @name AND version = @version)
		INSERT INTO recipe AS old (name, version, digest, manifest, requirements, state, tree_sha256, tree_bytes, locked_at, shipped)
		VALUES (@name, @version, @digest, @manifest, @requirements, @state, @tree_sha256, @tree_bytes, @locked_at, true)
		ON CONFLICT (name, version) DO UPDATE SET digest = excluded.digest, manifest = excluded.manifest,
			requirements = excluded.requirements, state = excluded.state, tree_sha256 = excluded.tree_sha256,
			tree_bytes = excluded.tree_bytes, locked_at = excluded.locked_at, shipped = true
		WHERE old.digest <> excluded.digest OR NOT old.shipped
		RETURNING coalesce((SELECT digest FROM before) <> digest, false)`, pgx.StrictNamedArgs{
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

// List returns the versions of all recipes, ordered by name and version. It does not read the manifests whose contents
// are kept.
func (Store) List(ctx context.Context, q pg.Querier, p request.Page, kept *Contents) ([]*Version, error) {
	known, read := kept.known(), contents{}
	rows, err := q.Query(ctx, `SELECT digest, CASE WHEN digest = ANY($3) THEN '' ELSE manifest END, CASE WHEN digest = ANY($3) THEN '' ELSE requirements END,
		state, tree_sha256, tree_bytes, locked_at, shipped, trusted_digest FROM recipe ORDER BY name, version LIMIT $1 OFFSET $2`,
		p.FetchLimit(), p.Offset, known.digests())
	found, err := collect(rows, err, known.scan(read))
	kept.keep(read)
	return found, err
}

// All returns the whole catalog, in the order of List.
func (Store) All(ctx context.Context, q pg.Querier) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM recipe ORDER BY name, version`)
	return collect(rows, err, scan)
}

// VersionsOf returns every version of one recipe.
func (Store) VersionsOf(ctx context.Context, q pg.Querier, name string) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM recipe WHERE name = $1 ORDER BY version`, name)
	return collect(rows, err, scan)
}

// Get returns one version.
func (Store) Get(ctx context.Context, q pg.Querier, name, version string) (*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM recipe WHERE name = $1 AND version = $2`, name, version)
	found, err := collect(rows, err, scan)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fault.Absentf("recipe", name+"@"+version)
	}
	return found[0], nil
}

// Trust stores the trusted digest of a version, or removes it if trusted is false. It returns nil if the digest of the
// version differs from the given one.
func (Store) Trust(ctx context.Context, tx pgx.Tx, name, version, digest string, trusted bool) (*Version, error) {
	rows, err := tx.Query(ctx, `UPDATE recipe SET trusted_digest = CASE WHEN $4 THEN digest END
		WHERE name = $1 AND version = $2 AND digest = $3 RETURNING `+columns, name, version, digest, trusted)
	found, err := collect(rows, err, scan)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

func collect(rows pgx.Rows, err error, scan pgx.RowToFunc[*Version]) ([]*Version, error) {
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	return found, nil
}
