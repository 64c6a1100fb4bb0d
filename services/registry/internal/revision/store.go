package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Store reads and writes revisions.
type Store struct {
	// Keys encrypts the API keys of engines.
	Keys *secret.Keyring
}

const columns = `id, deployment_id, number, state, reason, model_id, model_version, serving, serving_digest, plan,
	work_id, work_generation, desired = 'running', fence, node_id, pid, address, api_key, started_at, engine_ready_at,
	probe_report, created_at, ready_at, promoted_at, deadline`

// keyPlace returns the context that binds an encrypted API key to its row.
func keyPlace(revisionID string) string { return "revision.api_key:" + revisionID }

func (s *Store) scan(row pgx.Row) (*Revision, error) {
	r := &Revision{}
	var reason, serving, plan, sealed, probes []byte
	err := row.Scan(&r.ID, &r.DeploymentID, &r.Number, &r.State, &reason, &r.Source.ModelID, &r.Source.Version, &serving,
		&r.ServingDigest, &plan, &r.WorkID, &r.Generation, &r.Wanted, &r.Engine.Fence, &r.Engine.NodeID, &r.Engine.PID,
		&r.Engine.Address, &sealed, &r.Engine.StartedAt, &r.Engine.ReadyAt, &probes, &r.CreatedAt, &r.ReadyAt, &r.PromotedAt, &r.Deadline)
	if err != nil {
		return nil, err
	}
	r.Probes = probes
	if reason != nil {
		r.Reason = &Reason{}
		err = json.Unmarshal(reason, r.Reason)
	}
	if err = errors.Join(err, json.Unmarshal(serving, &r.Serving), json.Unmarshal(plan, &r.Plan)); err != nil {
		return nil, fmt.Errorf("decode revision %s: %w", r.ID, err)
	}
	if sealed != nil {
		key, err := s.Keys.Open(sealed, keyPlace(r.ID))
		if err != nil {
			return nil, fmt.Errorf("decrypt the engine's API key of revision %s: %w", r.ID, err)
		}
		r.Engine.Key = secret.New(string(key))
	}
	return r, nil
}

// Insert inserts a new revision with its deployment's next number.
func (s *Store) Insert(ctx context.Context, tx pgx.Tx, r *Revision) error {
	err := tx.QueryRow(ctx, `UPDATE deployment SET next_revision = next_revision + 1 WHERE id = $1 RETURNING next_revision - 1`,
		r.DeploymentID).Scan(&r.Number)
	if err != nil {
		return fmt.Errorf("read the next revision number: %w", err)
	}
	return s.InsertNumbered(ctx, tx, r)
}

// InsertNumbered inserts a new revision with the number r.Number.
func (s *Store) InsertNumbered(ctx context.Context, tx pgx.Tx, r *Revision) error {
	reason, err1 := json.Marshal(r.Reason)
	serving, err2 := json.Marshal(r.Serving)
	plan, err3 := json.Marshal(r.Plan)
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("encode a revision: %w", err)
	}
	_, err := tx.Exec(ctx, `INSERT INTO revision (id, deployment_id, number, state, reason, model_id, model_version, serving,
			serving_digest, plan, work_id, work_generation, desired, created_at, deadline)
		VALUES (@id, @deployment_id, @number, @state, @reason, @model_id, @model_version, @serving, @serving_digest, @plan,
			@work_id, @work_generation, 'running', @created_at, @deadline)`, pgx.StrictNamedArgs{
		"id": r.ID, "deployment_id": r.DeploymentID, "number": r.Number, "state": r.State, "reason": reason,
		"model_id": r.Source.ModelID, "model_version": r.Source.Version, "serving": serving, "serving_digest": r.ServingDigest,
		"plan": plan, "work_id": r.WorkID, "work_generation": r.Generation, "created_at": r.CreatedAt, "deadline": r.Deadline,
	})
	if err != nil {
		return fmt.Errorf("insert a revision: %w", err)
	}
	return nil
}

// Get returns one revision by its number.
func (s *Store) Get(ctx context.Context, q pg.Querier, deploymentID string, number int32) (*Revision, error) {
	return s.one(ctx, q, strconv.Itoa(int(number)), `deployment_id = $1 AND number = $2`, deploymentID, number)
}

// Lock is like Get, but also locks the row until the transaction ends.
func (s *Store) Lock(ctx context.Context, tx pgx.Tx, deploymentID string, number int32) (*Revision, error) {
	return s.one(ctx, tx, strconv.Itoa(int(number)), `deployment_id = $1 AND number = $2 FOR UPDATE`, deploymentID, number)
}

// ByID returns one revision by its ID.
func (s *Store) ByID(ctx context.Context, q pg.Querier, id string) (*Revision, error) {
	return s.one(ctx, q, id, `id = $1`, id)
}

// LockID is like ByID, but also locks the row until the transaction ends.
func (s *Store) LockID(ctx context.Context, tx pgx.Tx, id string) (*Revision, error) {
	return s.one(ctx, tx, id, `id = $1 FOR UPDATE`, id)
}

// ByWork returns the revision of a work.
func (s *Store) ByWork(ctx context.Context, q pg.Querier, workID string) (*Revision, error) {
	return s.one(ctx, q, workID, `work_id = $1`, workID)
}

// LockWork is like ByWork, but also locks the row until the transaction ends.
func (s *Store) LockWork(ctx context.Context, tx pgx.Tx, workID string) (*Revision, error) {
	return s.one(ctx, tx, workID, `work_id = $1 FOR UPDATE`, workID)
}

func (s *Store) one(ctx context.Context, q pg.Querier, named, where string, args ...any) (*Revision, error) {
	r, err := s.scan(q.QueryRow(ctx, `SELECT `+columns+` FROM revision WHERE `+where, args...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(Kind, named)
	}
	if err != nil {
		return nil, fmt.Errorf("load a revision: %w", err)
	}
	return r, nil
}

// List returns the revisions of a deployment, newest first.
func (s *Store) List(ctx context.Context, q pg.Querier, deploymentID string, p request.Page) ([]*Revision, error) {
	return s.many(ctx, q, `deployment_id = $1 ORDER BY number DESC LIMIT $2 OFFSET $3`, deploymentID, p.FetchLimit(), p.Offset)
}

// Of returns the revisions of several deployments or sessions, ordered by number. The keys of the map are the ids of
// the deployments and sessions.
func (s *Store) Of(ctx context.Context, q pg.Querier, holders []string) (map[string][]*Revision, error) {
	found, err := s.many(ctx, q, `deployment_id = ANY($1) ORDER BY deployment_id, number`, holders)
	if err != nil {
		return nil, err
	}
	out := map[string][]*Revision{}
	for _, r := range found {
		out[r.DeploymentID] = append(out[r.DeploymentID], r)
	}
	return out, nil
}

// ByIDs returns the revisions with the given ids.
func (s *Store) ByIDs(ctx context.Context, q pg.Querier, ids []string) ([]*Revision, error) {
	return s.many(ctx, q, `id = ANY($1)`, ids)
}

// LockWanted returns the wanted revisions of a deployment and locks their rows until the transaction ends.
func (s *Store) LockWanted(ctx context.Context, tx pgx.Tx, deploymentID string) ([]*Revision, error) {
	return s.many(ctx, tx, `deployment_id = $1 AND desired = 'running' ORDER BY number FOR UPDATE`, deploymentID)
}

// Wanted returns all wanted revisions.
func (s *Store) Wanted(ctx context.Context, q pg.Querier) ([]*Revision, error) {
	return s.many(ctx, q, `desired = 'running' ORDER BY id`)
}

func (s *Store) many(ctx context.Context, q pg.Querier, where string, args ...any) ([]*Revision, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM revision WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read revisions: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Revision, error) { return s.scan(row) })
	if err != nil {
		return nil, fmt.Errorf("read revisions: %w", err)
	}
	return found, nil
}
