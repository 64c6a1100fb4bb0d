package share

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// SubjectShare is the subject kind of links in the event and audit tables.
const SubjectShare = "share"

// Store reads links; with a transaction it also writes them.
type Store struct{}

const columns = `id, kind, title, owner_id, owner_name, prefix, targets, runs, fields, pinned, created_at, expires_at, revoked_at,
	views, last_viewed_at`

// Insert stores a new link under the hash of its token. It fails if the owner already has MaxLive links that are
// neither revoked nor expired. The links are counted under an advisory lock per owner, so that concurrent inserts
// cannot exceed the limit.
func (Store) Insert(ctx context.Context, tx pgx.Tx, s *Share, hash []byte) error {
	var live int
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('jobs shares ' || $1, 0))`, s.OwnerID); err != nil {
		return fmt.Errorf("count links: %w", err)
	}
	err := tx.QueryRow(ctx, `SELECT count(*) FROM share WHERE owner_id = $1 AND revoked_at IS NULL
		AND (expires_at IS NULL OR expires_at > clock_timestamp())`, s.OwnerID).Scan(&live)
	if err != nil {
		return fmt.Errorf("count links: %w", err)
	}
	if live >= MaxLive {
		return fault.New(fault.Conflict, "share_limit", "you already have %d valid links, the maximum; revoke one first", live)
	}
	_, err = tx.Exec(ctx, `INSERT INTO share (id, kind, title, owner_id, owner_name, hash, prefix, targets, runs, fields, pinned,
		created_at, expires_at) VALUES (@id, @kind, @title, @owner_id, @owner_name, @hash, @prefix, @targets, @runs, @fields,
			@pinned, @created_at, @expires_at)`, pgx.StrictNamedArgs{
		"id": s.ID, "kind": s.Kind, "title": s.Title, "owner_id": s.OwnerID, "owner_name": s.OwnerName, "hash": hash,
		"prefix": s.Prefix, "targets": s.Targets, "runs": s.Runs, "fields": s.Fields, "pinned": s.Pinned,
		"created_at": s.CreatedAt, "expires_at": s.ExpiresAt,
	})
	if err != nil {
		return fmt.Errorf("store a link: %w", err)
	}
	return nil
}

// Live returns the link with a token's hash, or errGone if the link is revoked or expired.
func (Store) Live(ctx context.Context, q pg.Querier, hash []byte) (*Share, error) {
	s, err := pg.One[Share](q.Query(ctx, `SELECT `+columns+` FROM share WHERE hash = $1 AND revoked_at IS NULL
		AND (expires_at IS NULL OR expires_at > clock_timestamp())`, hash))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errGone()
	}
	if err != nil {
		return nil, fmt.Errorf("load a link: %w", err)
	}
	return s, nil
}

// CountView adds one to the views of a link and sets the time of the last view.
func (Store) CountView(ctx context.Context, q pg.Querier, id string) error {
	if _, err := q.Exec(ctx, `UPDATE share SET views = views + 1, last_viewed_at = clock_timestamp() WHERE id = $1`, id); err != nil {
		return fmt.Errorf("count a view: %w", err)
	}
	return nil
}

// List returns a user's links, newest first. An empty owner means all users.
func (Store) List(ctx context.Context, q pg.Querier, ownerID string, p request.Page) ([]*Share, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM share WHERE $1 = '' OR owner_id = $1
		ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3`, ownerID, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	shares, err := pg.All[Share](rows, nil)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	return shares, nil
}

// Revoke revokes a user's link and deletes its pinned content. An empty owner means any user. The result first is false
// if the link was already revoked.
func (Store) Revoke(ctx context.Context, tx pgx.Tx, ownerID, id string, now time.Time) (first bool, err error) {
	err = tx.QueryRow(ctx, `WITH old AS (SELECT id, revoked_at FROM share WHERE id = $1 AND ($2 = '' OR owner_id = $2) FOR UPDATE)
		UPDATE share SET revoked_at = coalesce(old.revoked_at, $3) FROM old WHERE share.id = old.id
		RETURNING old.revoked_at IS NULL`, id, ownerID, now).Scan(&first)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, fault.Absentf(SubjectShare, id)
	}
	if err != nil {
		return false, fmt.Errorf("revoke a link: %w", err)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM share_pin WHERE share_id = $1`, id); err != nil {
		return false, fmt.Errorf("delete the pinned content of a link: %w", err)
	}
	return first, nil
}
