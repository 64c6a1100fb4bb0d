package recipe

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads and writes the catalog. Its methods with a scope return only versions that are visible to the scope; the
// versions that come with the installation are visible to everyone.
type Store struct{}

const (
	ownerColumns = `owner_id, owner_name, project_id, project, visibility`
	columns      = `digest, manifest, requirements, state, tree_sha256, tree_bytes, locked_at, shipped, trusted_digest, ` + ownerColumns
)

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
	return v, row.Scan(&v.Digest, &v.Text, &v.RequirementsText, &v.State, &v.TreeSHA256, &v.TreeBytes, &v.LockedAt, &v.Shipped, &v.TrustedDigest,
		&v.UserID, &v.UserName, &v.ProjectID, &v.Project, &v.Visibility)
}

// parse reads the manifest of a scanned row. The state in the row takes precedence over the state in the manifest.
func (v *Version) parse() (err error) {
	state := v.State
	v.Manifest, err = read(v.Text)
	v.State = state
	return err
}

// Filter selects the versions of a list.
type Filter struct {
	Project string // the key or the id of the project that has published them; empty for all versions
}

// List returns the versions of all recipes, ordered by name and version. It does not read the manifests whose contents
// are kept.
func (Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, f Filter, p request.Page, kept *Contents) ([]*Version, error) {
	known, read := kept.known(), contents{}
	rows, err := q.Query(ctx, `SELECT digest, CASE WHEN digest = ANY($4) THEN '' ELSE manifest END, CASE WHEN digest = ANY($4) THEN '' ELSE requirements END,
		state, tree_sha256, tree_bytes, locked_at, shipped, trusted_digest, `+ownerColumns+` FROM recipe
		WHERE `+access.Visible+` AND ($5 = '' OR $5 IN (project, project_id)) ORDER BY name, version LIMIT $6 OFFSET $7`,
		access.Args(scope, known.digests(), f.Project, p.FetchLimit(), p.Offset)...)
	found, err := collect(rows, err, known.scan(read))
	kept.keep(read)
	return found, err
}

// Shipped returns the versions that come with the installation, in the order of List.
func (Store) Shipped(ctx context.Context, q pg.Querier) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM recipe WHERE project_id = '' ORDER BY name, version`)
	return collect(rows, err, scan)
}

// Heads returns every version of one recipe, each only with its number, its digest and its state.
func (Store) Heads(ctx context.Context, q pg.Querier, scope authn.Scope, name string) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT version, digest, state FROM recipe WHERE `+access.Visible+` AND name = $4 ORDER BY version LIMIT $5`,
		access.Args(scope, name, maxVersions)...)
	return collect(rows, err, func(row pgx.CollectableRow) (*Version, error) {
		v := &Version{}
		return v, row.Scan(&v.Manifest.Version, &v.Digest, &v.State)
	})
}

// Candidates returns at most limit versions of one recipe: first the given version, if it exists, and then the newest by
// the time of their publication. Without a version, which only a jobs service of the previous version leaves out, it
// returns only what comes with the installation.
func (Store) Candidates(ctx context.Context, q pg.Querier, scope authn.Scope, name, version string, limit int) ([]*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM recipe WHERE `+access.Visible+` AND name = $4 AND ($5 <> '' OR project_id = '')
		ORDER BY version = $5 DESC, locked_at DESC, version LIMIT $6`, access.Args(scope, name, version, limit)...)
	return collect(rows, err, scan)
}

// Get returns one version.
func (Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, name, version string) (*Version, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM recipe WHERE `+access.Visible+` AND name = $4 AND version = $5`,
		access.Args(scope, name, version)...)
	found, err := collect(rows, err, scan)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fault.Absentf("recipe", name+"@"+version)
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
