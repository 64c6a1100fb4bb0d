package playgroundproxy

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Turn is one call of a playground session, as the transcript stores it.
type Turn struct {
	ID, SessionID           string
	Target                  int32
	At                      time.Time
	UserID, Username        string
	Method, Path            string
	Status                  int32
	Outcome                 string
	Request, Response       string
	RequestCut, ResponseCut bool
	Duration                float64 `db:"duration_ms"`
}

// Store reads and writes the table of turns.
type Store struct{ Pool *pgxpool.Pool }

// maxTurns is the maximum number of stored turns of a session.
const maxTurns = 1000

const columns = `id, session_id, target, at, user_id, username, method, path, status, outcome, request, request_cut, response, response_cut, duration_ms`

// Put stores a turn. It drops the turn if the session already has maxTurns turns or a turn with this id is stored.
func (s *Store) Put(ctx context.Context, t *Turn) error {
	_, err := s.Pool.Exec(ctx, `INSERT INTO playground_turn (`+columns+`)
		SELECT @id, @session_id, @target, @at, @user_id, @username, @method, @path, @status, @outcome, @request, @request_cut,
			@response, @response_cut, @duration_ms
		WHERE (SELECT count(*) FROM playground_turn WHERE session_id = @session_id) < @most ON CONFLICT DO NOTHING`, pgx.StrictNamedArgs{
		"id": t.ID, "session_id": t.SessionID, "target": t.Target, "at": t.At, "user_id": t.UserID, "username": t.Username,
		"method": t.Method, "path": t.Path, "status": t.Status, "outcome": t.Outcome, "request": t.Request,
		"request_cut": t.RequestCut, "response": t.Response, "response_cut": t.ResponseCut, "duration_ms": t.Duration,
		"most": maxTurns,
	})
	if err != nil {
		return fmt.Errorf("store a turn: %w", err)
	}
	return nil
}

// List returns a page of a session's turns, oldest first. If more turns follow, it returns one turn more than the page
// size.
func (s *Store) List(ctx context.Context, sessionID string, p request.Page) ([]*Turn, error) {
	found, err := pg.All[Turn](s.Pool.Query(ctx, `SELECT `+columns+` FROM playground_turn WHERE session_id = $1 ORDER BY at, id LIMIT $2 OFFSET $3`,
		sessionID, p.FetchLimit(), p.Offset))
	if err != nil {
		return nil, fmt.Errorf("list turns: %w", err)
	}
	return found, nil
}

// DeleteBefore deletes turns from before the given time, up to the given limit, and returns their number.
func (s *Store) DeleteBefore(ctx context.Context, before time.Time, limit int) (int64, error) {
	tag, err := s.Pool.Exec(ctx, `DELETE FROM playground_turn WHERE id IN (
		SELECT id FROM playground_turn WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("delete old turns: %w", err)
	}
	return tag.RowsAffected(), nil
}
