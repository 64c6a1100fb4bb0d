package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// Store reads fleets and nodes; with a transaction it also writes them.
type Store struct{}

const fleetSelect = `SELECT f.id, f.name, f.kind, f.state, f.pools, f.created_at,
		(SELECT count(*) FROM node n WHERE n.fleet_id = f.id),
		(SELECT coalesce(sum(n.gpus), 0) FROM node n WHERE n.fleet_id = f.id AND n.state NOT IN ('lost', 'unhealthy')),
		(SELECT coalesce(sum(w.gpus), 0) FROM work w JOIN node n ON n.id = w.node_id
			WHERE n.fleet_id = f.id AND n.state NOT IN ('lost', 'unhealthy') AND ` + db.TakesRoom + `),
		(SELECT coalesce(sum(n.gpus), 0) FROM node n WHERE n.fleet_id = f.id AND n.state IN ('lost', 'unhealthy')),
		(SELECT max(n.last_seen_at) FROM node n WHERE n.fleet_id = f.id),
		a.slurm, coalesce(a.state IN ('lost', 'unhealthy'), false), ` + SlurmSettingsOf + `
	FROM fleet f LEFT JOIN LATERAL (` + SlurmAgentOf + `) a ON true`

// SlurmAgentOf selects the agent of the Slurm fleet f that has reported last.
const SlurmAgentOf = `SELECT n.slurm, n.state, n.runtimes FROM node n WHERE n.fleet_id = f.id AND f.kind = 'slurm' AND n.last_seen_at IS NOT NULL
		ORDER BY n.last_seen_at DESC, n.id LIMIT 1`

func scanFleet(row pgx.CollectableRow) (*Fleet, error) {
	var f Fleet
	var used int
	var away bool
	var set map[string]SlurmSettings
	err := row.Scan(&f.ID, &f.Name, &f.Kind, &f.State, &f.Pools, &f.CreatedAt, &f.Nodes, &f.GPUs, &used,
		&f.GPUsUnhealthy, &f.LastSeenAt, &f.Slurm, &away, &set)
	f.GPUsFree = max(0, f.GPUs-used)
	if f.Kind == KindSlurm {
		f.countSlurm(&Slurm{Report: f.Slurm, Pools: set}, away)
	}
	return &f, err
}

// Get returns a fleet.
func (s Store) Get(ctx context.Context, q pg.Querier, id string) (*Fleet, error) {
	rows, err := q.Query(ctx, fleetSelect+` WHERE f.id = $1`, id)
	if err != nil {
		return nil, fmt.Errorf("load fleet: %w", err)
	}
	f, err := pgx.CollectExactlyOneRow(rows, scanFleet)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("fleet", id)
	}
	if err != nil {
		return nil, fmt.Errorf("load fleet: %w", err)
	}
	return f, nil
}

// List returns the fleets by name.
func (s Store) List(ctx context.Context, q pg.Querier, p request.Page) ([]*Fleet, error) {
	rows, err := q.Query(ctx, fleetSelect+` ORDER BY f.name, f.id LIMIT $1 OFFSET $2`, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list fleets: %w", err)
	}
	fleets, err := pgx.CollectRows(rows, scanFleet)
	if err != nil {
		return nil, fmt.Errorf("read fleets: %w", err)
	}
	return fleets, nil
}

// Insert stores a new fleet. A name that is already in use is a conflict.
func (s Store) Insert(ctx context.Context, tx pgx.Tx, f *Fleet) error {
	_, err := tx.Exec(ctx, `INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ($1,$2,$3,$4,$5,$6)`,
		f.ID, f.Name, f.Kind, f.State, f.Pools, f.CreatedAt)
	if pg.IsUnique(err, "fleet_name") {
		return fault.New(fault.Conflict, "exists", "a fleet named %s already exists", f.Name)
	}
	if err != nil {
		return fmt.Errorf("insert fleet: %w", err)
	}
	return nil
}

// Update changes a fleet. A name that is already in use is a conflict.
func (s Store) Update(ctx context.Context, tx pgx.Tx, id string, c Change) error {
	tag, err := tx.Exec(ctx, `UPDATE fleet SET name = coalesce($2, name), state = coalesce($3, state),
		pools = CASE WHEN cardinality($4::text[]) > 0 THEN $4 ELSE pools END WHERE id = $1`, id, c.Name, c.State, append([]string{}, c.Pools...))
	if pg.IsUnique(err, "fleet_name") {
		return fault.New(fault.Conflict, "exists", "a fleet named %s already exists", *c.Name)
	}
	if err != nil {
		return fmt.Errorf("update fleet: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.Absentf("fleet", id)
	}
	return nil
}

// Delete removes a fleet with its nodes and join tokens, and returns the ids of the nodes. It fails with a conflict
// if work items hold capacity on its nodes. The nodes are locked first, so nothing is placed on them meanwhile.
func (s Store) Delete(ctx context.Context, tx pgx.Tx, id string) (nodes []string, err error) {
	if _, err := tx.Exec(ctx, `SELECT id FROM fleet WHERE id = $1 FOR UPDATE`, id); err != nil {
		return nil, fmt.Errorf("lock fleet: %w", err)
	}
	rows, err := tx.Query(ctx, `SELECT id FROM node WHERE fleet_id = $1 ORDER BY id FOR UPDATE`, id)
	if err != nil {
		return nil, fmt.Errorf("lock the nodes of a fleet: %w", err)
	}
	if nodes, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, fmt.Errorf("lock the nodes of a fleet: %w", err)
	}
	var works int
	err = tx.QueryRow(ctx, `SELECT count(*) FROM work WHERE node_id = ANY($1) AND released_at IS NULL`, nodes).Scan(&works)
	if err != nil {
		return nil, fmt.Errorf("count the work items of a fleet: %w", err)
	}
	if works > 0 {
		return nil, fault.New(fault.Conflict, "fleet_in_use", "%d attempts or engines run on fleet %s; drain its nodes first", works, id)
	}
	for _, statement := range []string{
		`DELETE FROM node WHERE fleet_id = $1`, `DELETE FROM join_token WHERE fleet_id = $1`, `DELETE FROM fleet WHERE id = $1`,
	} {
		tag, err := tx.Exec(ctx, statement, id)
		if err != nil {
			return nil, fmt.Errorf("delete fleet: %w", err)
		}
		if tag.RowsAffected() == 0 && statement == `DELETE FROM fleet WHERE id = $1` {
			return nil, fault.Absentf("fleet", id)
		}
	}
	return nodes, nil
}

// RemoveUnservedPools removes the settings of the pools that no fleet serves any more.
func (s Store) RemoveUnservedPools(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `DELETE FROM pool WHERE NOT EXISTS (SELECT FROM fleet f WHERE pool.name = ANY(f.pools))`)
	if err != nil {
		return fmt.Errorf("remove the settings of unserved pools: %w", err)
	}
	return nil
}

// ByName returns the id of a fleet, or "" if there is no fleet of that name.
func (s Store) ByName(ctx context.Context, q pg.Querier, name string) (string, error) {
	var id string
	err := q.QueryRow(ctx, `SELECT id FROM fleet WHERE name = $1`, name).Scan(&id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("find fleet: %w", err)
	}
	return id, nil
}

// InsertToken stores a join token's hash.
func (s Store) InsertToken(ctx context.Context, tx pgx.Tx, t *JoinToken, hash []byte, now time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO join_token (id, fleet_id, hash, max_uses, expires_at, created_at)
		VALUES ($1,$2,$3,$4,$5,$6)`, t.ID, t.FleetID, hash, t.MaxUses, t.ExpiresAt, now)
	if err != nil {
		return fmt.Errorf("insert join token: %w", err)
	}
	return nil
}

const joinSelect = `SELECT id, fleet_id, max_uses, uses, expires_at, created_at, revoked_at FROM join_token`

func scanToken(row pgx.CollectableRow) (*JoinToken, error) {
	var t JoinToken
	err := row.Scan(&t.ID, &t.FleetID, &t.MaxUses, &t.Uses, &t.ExpiresAt, &t.CreatedAt, &t.RevokedAt)
	return &t, err
}

// Tokens returns the join tokens of a fleet, newest first.
func (s Store) Tokens(ctx context.Context, q pg.Querier, fleetID string, p request.Page) ([]*JoinToken, error) {
	rows, err := q.Query(ctx, joinSelect+` WHERE fleet_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`,
		fleetID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list join tokens: %w", err)
	}
	tokens, err := pgx.CollectRows(rows, scanToken)
	if err != nil {
		return nil, fmt.Errorf("read join tokens: %w", err)
	}
	return tokens, nil
}

// RevokeToken revokes a join token of a fleet. The result first is false if the token was already revoked.
func (s Store) RevokeToken(ctx context.Context, tx pgx.Tx, fleetID, id string, now time.Time) (first bool, err error) {
	err = tx.QueryRow(ctx, `WITH old AS (SELECT id, revoked_at FROM join_token WHERE id = $1 AND fleet_id = $2 FOR UPDATE)
		UPDATE join_token SET revoked_at = coalesce(old.revoked_at, $3) FROM old WHERE join_token.id = old.id
		RETURNING old.revoked_at IS NULL`, id, fleetID, now).Scan(&first)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, fault.Absentf("join token", id)
	}
	if err != nil {
		return false, fmt.Errorf("revoke join token: %w", err)
	}
	return first, nil
}

// UseToken counts one use of a join token and returns its fleet. Unknown, expired, revoked and used-up tokens give
// the same error.
func (s Store) UseToken(ctx context.Context, tx pgx.Tx, hash []byte, now time.Time) (fleetID, tokenID string, err error) {
	err = tx.QueryRow(ctx, `UPDATE join_token SET uses = uses + 1
		WHERE hash = $1 AND uses < max_uses AND expires_at > $2 AND revoked_at IS NULL RETURNING fleet_id, id`, hash, now).Scan(&fleetID, &tokenID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", "", errJoin()
	}
	if err != nil {
		return "", "", fmt.Errorf("use join token: %w", err)
	}
	return fleetID, tokenID, nil
}

func errJoin() error {
	return fault.New(fault.Unauthenticated, "join_token", "the join token is unknown, expired, revoked or used up")
}
