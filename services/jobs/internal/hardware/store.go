package hardware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Version is a configuration with its number.
type Version struct {
	Number   int64
	Document []byte
	Config   Config
}

// Store reads configurations; with a transaction it also writes them.
type Store struct{}

const headSelect = `SELECT c.version, c.document FROM hardware_head h JOIN hardware_config c ON c.version = h.version`

// Head returns the configuration in force.
func (s Store) Head(ctx context.Context, q pg.Querier) (*Version, error) {
	return scanVersion(q.QueryRow(ctx, headSelect))
}

// Lock returns the configuration in force and locks it, so that no other transaction can replace it.
func (s Store) Lock(ctx context.Context, tx pgx.Tx) (*Version, error) {
	return s.held(ctx, tx, "UPDATE")
}

// Share is like Lock, but several transactions can hold its lock at once. It is for transactions that only read the
// configuration.
func (s Store) Share(ctx context.Context, tx pgx.Tx) (*Version, error) {
	return s.held(ctx, tx, "SHARE")
}

func (s Store) held(ctx context.Context, tx pgx.Tx, how string) (*Version, error) {
	var number int64
	if err := tx.QueryRow(ctx, `SELECT version FROM hardware_head FOR `+how).Scan(&number); err != nil {
		return nil, fmt.Errorf("lock the hardware configuration: %w", err)
	}
	// Read in a separate statement: the statement that waited for the lock may still return the old version.
	return scanVersion(tx.QueryRow(ctx, headSelect))
}

func scanVersion(row pgx.Row) (*Version, error) {
	var v Version
	if err := row.Scan(&v.Number, &v.Document); err != nil {
		return nil, fmt.Errorf("load the hardware configuration: %w", err)
	}
	if err := json.Unmarshal(v.Document, &v.Config); err != nil {
		return nil, fmt.Errorf("read the hardware configuration: %w", err)
	}
	return &v, nil
}

// Insert puts the next configuration in force. The caller holds the lock.
func (s Store) Insert(ctx context.Context, tx pgx.Tx, number int64, document []byte, by audit.Actor, now time.Time) error {
	actor, err := json.Marshal(by)
	if err != nil {
		return fmt.Errorf("encode the actor of the hardware configuration: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO hardware_config (version, document, actor, stored_at) VALUES ($1, $2, $3, $4)`,
		number, document, actor, now)
	if err != nil {
		return fmt.Errorf("store the hardware configuration: %w", err)
	}
	if _, err := tx.Exec(ctx, `UPDATE hardware_head SET version = $1`, number); err != nil {
		return fmt.Errorf("store the hardware configuration: %w", err)
	}
	return nil
}

// Uses returns the jobs that request profiles and have not ended.
func (s Store) Uses(ctx context.Context, q pg.Querier) ([]Use, error) {
	rows, err := q.Query(ctx, `SELECT id, state = 'queued', team_id, running_s, pools FROM job
		WHERE ended_at IS NULL AND EXISTS (SELECT FROM jsonb_array_elements(pools) p WHERE coalesce(p ->> 'profile', '') <> '')
		ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("list the jobs that request profiles: %w", err)
	}
	uses, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Use])
	if err != nil {
		return nil, fmt.Errorf("list the jobs that request profiles: %w", err)
	}
	return uses, nil
}

// Settle marks a configuration as settled. It returns the actor who stored the configuration, its document and the
// previous document. The result first is false if the configuration was already settled.
func (s Store) Settle(ctx context.Context, tx pgx.Tx, number int64) (by audit.Actor, after, before json.RawMessage, first bool, err error) {
	var actor []byte
	err = tx.QueryRow(ctx, `UPDATE hardware_config SET settled_at = clock_timestamp() WHERE version = $1 AND settled_at IS NULL
		RETURNING actor, document, (SELECT b.document FROM hardware_config b WHERE b.version = $1 - 1)`, number).Scan(&actor, &after, &before)
	if errors.Is(err, pgx.ErrNoRows) {
		return by, nil, nil, false, nil
	}
	if err != nil {
		return by, nil, nil, false, fmt.Errorf("settle the hardware configuration: %w", err)
	}
	if err := json.Unmarshal(actor, &by); err != nil {
		return by, nil, nil, false, fmt.Errorf("decode the actor of the hardware configuration: %w", err)
	}
	return by, after, before, true, nil
}

// Settled reports whether every instance has the configuration with this number and its audit row is written.
func (s Store) Settled(ctx context.Context, q pg.Querier, number int64) (done bool, err error) {
	err = q.QueryRow(ctx, `SELECT settled_at IS NOT NULL FROM hardware_config WHERE version = $1`, number).Scan(&done)
	if err != nil {
		return false, fmt.Errorf("check whether the hardware configuration is settled: %w", err)
	}
	return done, nil
}

// Renew lets an instance serve its copy of a version until the lease ends. The transaction holds the shared lock of the
// version, so a change either sees this lease and waits for it, or has already stored the version that the instance
// has.
func (s Store) Renew(ctx context.Context, tx pgx.Tx, replica string, number int64, lease time.Duration) error {
	_, err := tx.Exec(ctx, `INSERT INTO hardware_replica (id, version, until) VALUES ($1, $2, clock_timestamp() + $3)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, until = excluded.until`, replica, number, lease)
	if err != nil {
		return fmt.Errorf("renew the lease of the hardware configuration: %w", err)
	}
	return nil
}

// Leave deletes an instance's lease.
func (s Store) Leave(ctx context.Context, q pg.Querier, replica string) error {
	if _, err := q.Exec(ctx, `DELETE FROM hardware_replica WHERE id = $1`, replica); err != nil {
		return fmt.Errorf("release the lease of the hardware configuration: %w", err)
	}
	return nil
}

// Behind returns the number of instances that may still serve an older version. It also deletes leases that ended an
// hour ago or earlier.
func (s Store) Behind(ctx context.Context, q pg.Querier, number int64) (n int, err error) {
	if _, err := q.Exec(ctx, `DELETE FROM hardware_replica WHERE until < clock_timestamp() - interval '1 hour'`); err != nil {
		return 0, fmt.Errorf("delete the expired leases of instances: %w", err)
	}
	err = q.QueryRow(ctx, `SELECT count(*) FROM hardware_replica WHERE version < $1 AND until > clock_timestamp()`, number).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the instances with an older version: %w", err)
	}
	return n, nil
}
