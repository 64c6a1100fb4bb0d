package assignment

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Store reads and writes works. Every write except Renew needs a transaction.
type Store struct {
	// Keys encrypts the engines' API keys at rest.
	Keys *secret.Keyring
}

// columns are all columns of a work. A spec has several megabytes if its datasets have many files, so a query that does
// not need the spec selects only the columns head; Work.Spec is then nil.
const (
	columns = common + `, spec`
	head    = common + `, NULL::bytea AS spec`
	common  = `id, generation, fence, phase, detail, preparing_at, running_at, exited_at,
	exit_code, exit_signal, exit_reason, exit_message, uncollected, engine, engine_key,
	kind, desired, desired_at, pool, gpus, slots, cpus, memory_bytes, owner_id, project_id, node_id, waiting,
	job_id, attempt, rank, nnodes, role, master, master_port, driver, created_at, updated_at, released_at, force, deadline, renewed_at, team_id,
	batch, batch_id, batch_reason, batch_detail, batch_nodes`
)

// row is a row of the table work: a Work, with the columns of its exit and its encrypted key.
type row struct {
	Work

	ExitCode                *int
	ExitSignal              int
	ExitReason, ExitMessage string
	Sealed                  []byte `db:"engine_key"`
}

func (s *Store) work(r *row) (*Work, error) {
	w := &r.Work
	if r.ExitCode != nil {
		w.Exit = &gang.Exit{Code: *r.ExitCode, Signal: r.ExitSignal, Reason: r.ExitReason, Message: r.ExitMessage}
	}
	if len(r.Sealed) > 0 {
		plain, err := s.Keys.Open(r.Sealed, keyPlace(w.ID))
		if err != nil {
			return nil, fmt.Errorf("decrypt the API key of engine %s: %w", w.ID, err)
		}
		w.EngineKey = secret.New(string(plain))
	}
	return w, nil
}

func keyPlace(id string) string { return "work.engine_key:" + id }

func (s *Store) collect(rows pgx.Rows) ([]*Work, error) {
	found, err := pg.All[row](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("read works: %w", err)
	}
	works := make([]*Work, len(found))
	for i, r := range found {
		if works[i], err = s.work(r); err != nil {
			return nil, fmt.Errorf("read works: %w", err)
		}
	}
	return works, nil
}

// Get loads a work.
func (s *Store) Get(ctx context.Context, q pg.Querier, id string) (*Work, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM work WHERE id = $1`, id)
	return s.one(id, rows, err)
}

// Head loads a work without its spec.
func (s *Store) Head(ctx context.Context, q pg.Querier, id string) (*Work, error) {
	rows, err := q.Query(ctx, `SELECT `+head+` FROM work WHERE id = $1`, id)
	return s.one(id, rows, err)
}

// Lock loads a work and locks its row.
func (s *Store) Lock(ctx context.Context, tx pgx.Tx, id string) (*Work, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM work WHERE id = $1 FOR UPDATE`, id)
	return s.one(id, rows, err)
}

func (s *Store) one(id string, rows pgx.Rows, err error) (*Work, error) {
	r, err := pg.One[row](rows, err)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("work", id)
	}
	if err != nil {
		return nil, fmt.Errorf("load work: %w", err)
	}
	w, err := s.work(r)
	if err != nil {
		return nil, fmt.Errorf("load work: %w", err)
	}
	return w, nil
}

// OnNode returns the works that are placed on a node and not released, without their specs.
func (s *Store) OnNode(ctx context.Context, q pg.Querier, nodeID string) ([]*Work, error) {
	rows, err := q.Query(ctx, `SELECT `+head+` FROM work WHERE node_id = $1 AND released_at IS NULL ORDER BY id`, nodeID)
	if err != nil {
		return nil, fmt.Errorf("list the works of a node: %w", err)
	}
	return s.collect(rows)
}

// The ports at which the ranks 0 of attempts listen. They are lower than the ports of outgoing connections.
const (
	firstMasterPort = 29500
	masterPorts     = 1000
)

// FreeMasterPort returns the lowest port at which no rank 0 on the node listens. The caller holds the lock of the node, so
// that no other attempt gets the same port.
func (s *Store) FreeMasterPort(ctx context.Context, tx pgx.Tx, nodeID string) (port int, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(min(p), $2) FROM generate_series($2, $3::integer) p WHERE NOT EXISTS (
		SELECT FROM work WHERE node_id = $1 AND kind = 'attempt' AND rank = 0 AND released_at IS NULL AND master_port = p)`,
		nodeID, firstMasterPort, firstMasterPort+masterPorts-1).Scan(&port)
	if err != nil {
		return 0, fmt.Errorf("find a free port for rank 0: %w", err)
	}
	return port, nil
}

// LockAttempt loads and locks the works of an attempt, without their specs, ordered by rank.
func (s *Store) LockAttempt(ctx context.Context, tx pgx.Tx, jobID string, number int) ([]*Work, error) {
	rows, err := tx.Query(ctx, `SELECT `+head+` FROM work
		WHERE kind = 'attempt' AND job_id = $1 AND attempt = $2 ORDER BY rank FOR UPDATE`, jobID, number)
	if err != nil {
		return nil, fmt.Errorf("lock the works of an attempt: %w", err)
	}
	return s.collect(rows)
}

// Engines returns the works of all engines, except those that have been gone for an hour. The works have no specs.
func (s *Store) Engines(ctx context.Context, q pg.Querier) ([]*Work, error) {
	rows, err := q.Query(ctx, `SELECT `+head+` FROM work WHERE kind = 'engine'
		AND (phase <> 'gone' OR updated_at > clock_timestamp() - interval '1 hour') ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("list the engines: %w", err)
	}
	return s.collect(rows)
}
