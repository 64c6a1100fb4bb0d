package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Store reads fleets and nodes; with a transaction it also writes them.
type Store struct{}

const fleetSelect = `SELECT f.id, f.name, f.kind, f.state, f.pools, f.created_at,
		(SELECT count(*) FROM node n WHERE n.fleet_id = f.id),
		(SELECT coalesce(sum(n.gpus), 0) FROM node n WHERE n.fleet_id = f.id AND n.state <> 'lost'),
		(SELECT coalesce(sum(w.gpus), 0) FROM work w JOIN node n ON n.id = w.node_id
			WHERE n.fleet_id = f.id AND n.state <> 'lost' AND w.released_at IS NULL)
	FROM fleet f`

func scanFleet(row pgx.CollectableRow) (*Fleet, error) {
	var f Fleet
	var used int
	err := row.Scan(&f.ID, &f.Name, &f.Kind, &f.State, &f.Pools, &f.CreatedAt, &f.Nodes, &f.GPUs, &used)
	f.GPUsFree = max(0, f.GPUs-used)
	return &f, err
}

// Get answers a fleet.
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

// List answers the fleets by name.
func (s Store) List(ctx context.Context, q pg.Querier, p page.Page) ([]*Fleet, error) {
	rows, err := q.Query(ctx, fleetSelect+` ORDER BY f.name, f.id LIMIT $1 OFFSET $2`, p.Ask(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list fleets: %w", err)
	}
	fleets, err := pgx.CollectRows(rows, scanFleet)
	if err != nil {
		return nil, fmt.Errorf("read fleets: %w", err)
	}
	return fleets, nil
}

// Insert stores a new fleet; a name that is taken is a conflict.
func (s Store) Insert(ctx context.Context, tx pgx.Tx, f *Fleet) error {
	_, err := tx.Exec(ctx, `INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ($1,$2,$3,$4,$5,$6)`,
		f.ID, f.Name, f.Kind, f.State, f.Pools, f.CreatedAt)
	if pg.IsUnique(err, "fleet_name") {
		return fault.New(fault.Conflict, "exists", "a fleet named %s exists already", f.Name)
	}
	if err != nil {
		return fmt.Errorf("insert fleet: %w", err)
	}
	return nil
}

// ByName answers the id of a fleet, or nothing.
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

// UseToken takes one use of a join token and answers its fleet. Unknown, expired and used up look
// alike.
func (s Store) UseToken(ctx context.Context, tx pgx.Tx, hash []byte, now time.Time) (fleetID, tokenID string, err error) {
	err = tx.QueryRow(ctx, `UPDATE join_token SET uses = uses + 1
		WHERE hash = $1 AND uses < max_uses AND expires_at > $2 RETURNING fleet_id, id`, hash, now).Scan(&fleetID, &tokenID)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", "", errJoin()
	}
	if err != nil {
		return "", "", fmt.Errorf("use join token: %w", err)
	}
	return fleetID, tokenID, nil
}

func errJoin() error {
	return fault.New(fault.Unauthenticated, "join_token", "the join token is unknown, expired or used up")
}
