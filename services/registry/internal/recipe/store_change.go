package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// shipped is what Ship did with a version.
type shipped int

const (
	unchanged shipped = iota
	added
	replaced // the version had another digest
	taken    // a project has published a recipe of this name, which stays
)

// Ship stores a version that this binary contains.
func (Store) Ship(ctx context.Context, q pg.Querier, v *Version) (did shipped, err error) {
	var wrote, ofProject, other bool
	err = q.QueryRow(ctx, `WITH before AS (SELECT version, digest, project_id FROM recipe WHERE name = @name),
		now AS (INSERT INTO recipe AS old (name, version, digest, manifest, requirements, state, tree_sha256, tree_bytes, locked_at, shipped)
			SELECT @name, @version, @digest, @manifest, @requirements, @state, @tree_sha256, @tree_bytes, @locked_at, true
			WHERE NOT EXISTS (SELECT FROM before WHERE project_id <> '')
			ON CONFLICT (name, version) DO UPDATE SET digest = excluded.digest, manifest = excluded.manifest,
				requirements = excluded.requirements, state = excluded.state, tree_sha256 = excluded.tree_sha256,
				tree_bytes = excluded.tree_bytes, locked_at = excluded.locked_at, shipped = true
			WHERE old.project_id = '' AND (old.digest <> excluded.digest OR NOT old.shipped)
			RETURNING digest)
		SELECT EXISTS (SELECT FROM now), EXISTS (SELECT FROM before WHERE project_id <> ''),
			EXISTS (SELECT FROM before WHERE version = @version AND digest <> @digest)`, pgx.StrictNamedArgs{
		"name": v.Name, "version": v.Manifest.Version, "digest": v.Digest, "manifest": string(v.Text),
		"requirements": v.RequirementsText, "state": v.State, "tree_sha256": v.TreeSHA256, "tree_bytes": v.TreeBytes,
		"locked_at": v.LockedAt,
	}).Scan(&wrote, &ofProject, &other)
	switch {
	case err != nil:
		return unchanged, fmt.Errorf("store recipe %s: %w", v.Name, err)
	case ofProject:
		return taken, nil
	case wrote && other:
		return replaced, nil
	case wrote:
		return added, nil
	}
	return unchanged, nil
}

// Lock serializes the publication of the versions of one recipe until the end of the transaction.
func (Store) Lock(ctx context.Context, tx pgx.Tx, name string) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('registry recipe ' || $1, 0))`, name); err != nil {
		return fmt.Errorf("lock recipe %s: %w", name, err)
	}
	return nil
}

// Taken describes the name of a recipe that is about to be published.
type Taken struct {
	Versions int
	Shipped  bool   // recipes with the same namespace come with the installation
	Digest   string // of the version; empty if it does not exist
	// OwnerID, OwnerName and ProjectID are those of the first version. The owner of the first version owns all.
	OwnerID, OwnerName, ProjectID string
}

// Taken returns what exists of a recipe and of one version of it, also if the caller cannot see it.
func (Store) Taken(ctx context.Context, tx pgx.Tx, namespace, name, version string) (t Taken, err error) {
	err = tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM recipe WHERE name = $1),
		EXISTS (SELECT FROM recipe WHERE project_id = '' AND starts_with(name, $2 || '/')),
		coalesce((SELECT digest FROM recipe WHERE name = $1 AND version = $3), ''), coalesce(first.owner_id, ''), coalesce(first.owner_name, ''), coalesce(first.project_id, '')
		FROM (VALUES (1)) one LEFT JOIN LATERAL (SELECT owner_id, owner_name, project_id FROM recipe WHERE name = $1
			ORDER BY locked_at, version LIMIT 1) first ON true`, name, namespace, version).
		Scan(&t.Versions, &t.Shipped, &t.Digest, &t.OwnerID, &t.OwnerName, &t.ProjectID)
	if err != nil {
		return t, fmt.Errorf("look up recipe %s: %w", name, err)
	}
	return t, nil
}

// Publish stores a version of a project.
func (Store) Publish(ctx context.Context, tx pgx.Tx, v *Version) error {
	_, err := tx.Exec(ctx, `INSERT INTO recipe (id, name, version, digest, manifest, requirements, state, tree_sha256, tree_bytes, locked_at,
			owner_id, owner_name, project_id, project, visibility, visibility_version)
		VALUES (@name || '@' || @version, @name, @version, @digest, @manifest, '', @state, @tree_sha256, @tree_bytes, @locked_at,
			@owner_id, @owner_name, @project_id, @project, @visibility, @visibility_version)`, pgx.StrictNamedArgs{
		"name": v.Name, "version": v.Manifest.Version, "digest": v.Digest, "manifest": string(v.Text), "state": v.State,
		"tree_sha256": v.TreeSHA256, "tree_bytes": v.TreeBytes, "locked_at": v.LockedAt, "owner_id": v.UserID, "owner_name": v.UserName,
		"project_id": v.ProjectID, "project": v.Project, "visibility": v.Visibility, "visibility_version": v.VisibilityVersion,
	})
	if err != nil {
		return fmt.Errorf("store recipe %s: %w", v.Name, err)
	}
	return nil
}

// SetState changes the state of a version that a project has published, and returns the state before.
func (Store) SetState(ctx context.Context, tx pgx.Tx, name, version, state string) (before string, err error) {
	err = tx.QueryRow(ctx, `WITH old AS (SELECT name, version, state FROM recipe WHERE name = $1 AND version = $2 AND project_id <> '' FOR UPDATE)
		UPDATE recipe r SET state = $3 FROM old WHERE r.name = old.name AND r.version = old.version RETURNING old.state`, name, version, state).Scan(&before)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", fault.Absentf("recipe", name+"@"+version)
	}
	if err != nil {
		return "", fmt.Errorf("change the state of recipe %s: %w", name, err)
	}
	return before, nil
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
