package session

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// KeepTx keeps a session in the list of its person until then: what an authorization server does for the
// refresh tokens that it gives beside a grant's access token. It is ErrNoAccount where the session has ended.
func (s *Sessions) KeepTx(ctx context.Context, tx pgx.Tx, sessionID string, until time.Time) error {
	_, err := extend(ctx, tx, sessionID, until)
	return err
}

// EndTx ends one session in the transaction of what ends it; one that had ended stays as it is. Its audit row
// is the caller's.
func (s *Sessions) EndTx(ctx context.Context, tx pgx.Tx, sessionID string, why Reason) error {
	_, err := revoke(ctx, tx, sessionID, why, s.Clock.Now())
	return err
}
