package playground

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Store reads and writes sessions.
type Store struct{}

const columns = `id, title, owner_id, owner_name, project_id, project, visibility, state, reason, idle_timeout_s, created_at, expires_at,
	last_activity_at, ended_at`

// row is a row of the table playground_session.
type row struct {
	Session

	IdleTimeoutS int32
}

func (r *row) session() *Session {
	r.Idle = time.Duration(r.IdleTimeoutS) * time.Second
	return &r.Session
}

// Insert inserts a new session. It returns a conflict if the owner already has maxLive live sessions.
func (Store) Insert(ctx context.Context, tx pgx.Tx, s *Session) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('playground ' || $1, 0))`, s.UserID); err != nil {
		return fmt.Errorf("count playground sessions: %w", err)
	}
	var live int
	err := tx.QueryRow(ctx, `SELECT count(*) FROM playground_session WHERE owner_id = $1 AND state = 'live'`, s.UserID).Scan(&live)
	if err != nil {
		return fmt.Errorf("count playground sessions: %w", err)
	}
	if live >= maxLive {
		return fault.New(fault.Conflict, "sessions", "you already have %d playground sessions; end one first", live)
	}
	_, err = tx.Exec(ctx, `INSERT INTO playground_session (`+columns+`, visibility_version)
		VALUES (@id, @title, @owner_id, @owner_name, @project_id, @project, @visibility, @state, @reason, @idle_timeout_s,
			@created_at, @expires_at, @last_activity_at, @ended_at, @visibility_version)`, pgx.StrictNamedArgs{
		"id": s.ID, "title": s.Title, "owner_id": s.UserID, "owner_name": s.UserName, "project_id": s.ProjectID,
		"project": s.Project, "visibility": s.Visibility, "state": s.State, "reason": s.Reason,
		"idle_timeout_s": int32(s.Idle / time.Second), "created_at": s.CreatedAt, "expires_at": s.ExpiresAt,
		"last_activity_at": s.LastActivity, "ended_at": s.EndedAt, "visibility_version": s.VisibilityVersion,
	})
	if err != nil {
		return fmt.Errorf("insert a playground session: %w", err)
	}
	return nil
}

// Get returns a session that is visible in the scope.
func (Store) Get(ctx context.Context, q pg.Querier, scope authn.Scope, id string) (*Session, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM playground_session WHERE `+access.Visible+` AND id = $4`, access.Args(scope, id)...)
	return one(id, rows, err)
}

// Lock returns a session and locks its row until the transaction ends.
func (Store) Lock(ctx context.Context, tx pgx.Tx, id string) (*Session, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM playground_session WHERE id = $1 FOR UPDATE`, id)
	return one(id, rows, err)
}

func one(id string, rows pgx.Rows, err error) (*Session, error) {
	s, err := pg.One[row](rows, err)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf(SubjectKind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("load a playground session: %w", err)
	}
	return s.session(), nil
}

// List returns the sessions that are visible in the scope, newest first.
func (Store) List(ctx context.Context, q pg.Querier, scope authn.Scope, project string, p request.Page) ([]*Session, error) {
	found, err := pg.All[row](q.Query(ctx, `SELECT `+columns+` FROM playground_session WHERE `+access.Visible+` AND ($4 = '' OR $4 IN (project, project_id))
		ORDER BY created_at DESC, id DESC LIMIT $5 OFFSET $6`, access.Args(scope, project, p.FetchLimit(), p.Offset)...))
	if err != nil {
		return nil, fmt.Errorf("list playground sessions: %w", err)
	}
	sessions := make([]*Session, len(found))
	for i, r := range found {
		sessions[i] = r.session()
	}
	return sessions, nil
}

// Touch records that a live session is in use.
func (Store) Touch(ctx context.Context, q pg.Querier, id string, at time.Time) error {
	_, err := q.Exec(ctx, `UPDATE playground_session SET last_activity_at = GREATEST(last_activity_at, $2) WHERE id = $1 AND state = 'live'`, id, at)
	if err != nil {
		return fmt.Errorf("record the use of a playground session: %w", err)
	}
	return nil
}

// Extend writes the expiry of a locked session and the deadlines of its engines.
func (Store) Extend(ctx context.Context, tx pgx.Tx, s *Session) error {
	_, err := tx.Exec(ctx, `UPDATE playground_session SET expires_at = $2 WHERE id = $1 AND state = 'live'`, s.ID, s.ExpiresAt)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE revision SET deadline = $2 WHERE deployment_id = $1`, s.ID, s.ExpiresAt)
	}
	if err != nil {
		return fmt.Errorf("extend a playground session: %w", err)
	}
	return nil
}

// End writes the end of a locked live session.
func (Store) End(ctx context.Context, tx pgx.Tx, s *Session) error {
	tag, err := tx.Exec(ctx, `UPDATE playground_session SET state = $2, reason = $3, ended_at = $4 WHERE id = $1 AND state = 'live'`,
		s.ID, s.State, s.Reason, s.EndedAt)
	if err != nil {
		return fmt.Errorf("end a playground session: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fault.New(fault.Conflict, "session_over", "%s %s has already ended", SubjectKind, s.ID)
	}
	return nil
}

// Due returns the ids of live sessions that have reached their expiry or their idle timeout, at most 100.
func (Store) Due(ctx context.Context, q pg.Querier, now time.Time) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT id FROM playground_session WHERE state = 'live'
		AND LEAST(expires_at, last_activity_at + make_interval(secs => idle_timeout_s)) <= $1 ORDER BY expires_at, id LIMIT 100`, now)
	if err != nil {
		return nil, fmt.Errorf("find expired playground sessions: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find expired playground sessions: %w", err)
	}
	return found, nil
}

// DeleteBefore deletes at most limit sessions that ended before the given time, and the rows of their engines. It
// returns the number of deleted sessions.
func (Store) DeleteBefore(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	var sessions int64
	err := q.QueryRow(ctx, `
		WITH old AS (DELETE FROM playground_session WHERE id IN (
			SELECT id FROM playground_session WHERE ended_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id),
		engine AS (DELETE FROM revision WHERE deployment_id IN (SELECT id FROM old))
		SELECT count(*) FROM old`, before, limit).Scan(&sessions)
	if err != nil {
		return 0, fmt.Errorf("delete old playground sessions: %w", err)
	}
	return sessions, nil
}
