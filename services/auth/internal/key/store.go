package key

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Store stores keys in the auth schema.
type Store struct {
	Pool    *pgxpool.Pool
	Keyring *secret.Keyring
	Clock   clock.Clock
	Rand    io.Reader
}

const columns = `kid, purpose, public_key, generation, created_at, signs_at, verifies_until, retired_at, revoked_at, sealed`

// maxLive is the maximum number of keys that live returns.
const maxLive = 200

// live lists the keys that are neither retired nor revoked, ordered by purpose and then newest first.
func (s *Store) live(ctx context.Context, q pg.Querier) ([]Key, error) {
	return collect(q.Query(ctx, `
		SELECT `+columns+` FROM signing_key WHERE retired_at IS NULL AND revoked_at IS NULL
		ORDER BY purpose, generation DESC LIMIT $1`, maxLive))
}

// list lists a page of the keys of a purpose, newest first. If purpose is empty, it lists the keys of all purposes,
// ordered by purpose.
func (s *Store) list(ctx context.Context, purpose Purpose, p request.Page) ([]Key, error) {
	return collect(s.Pool.Query(ctx, `
		SELECT `+columns+` FROM signing_key WHERE $1 = '' OR purpose = $1
		ORDER BY purpose, generation DESC LIMIT $2 OFFSET $3`, purpose, p.FetchLimit(), p.Offset))
}

func collect(rows pgx.Rows, err error) ([]Key, error) {
	if err != nil {
		return nil, fmt.Errorf("list signing keys: %w", err)
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("list signing keys: %w", err)
	}
	return list, nil
}

func scan(row pgx.CollectableRow) (Key, error) {
	var k Key
	var public []byte
	err := row.Scan(&k.ID, &k.Purpose, &public, &k.Generation, &k.CreatedAt, &k.SignsAt, &k.VerifiesUntil, &k.RetiredAt, &k.RevokedAt, &k.sealed)
	k.Public = authn.PublicKey{ID: k.ID, Key: ed25519.PublicKey(public)}
	return k, err
}

// EnsureKey creates a key if the purpose has no valid one. If processes start at the same time, only one key is
// created.
func (s *Store) EnsureKey(ctx context.Context, purpose Purpose) error {
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		newest, err := s.lock(ctx, tx, purpose)
		if err != nil || newest.verifies(s.Clock.Now()) && newest.ID != "" {
			return err
		}
		_, err = s.insert(ctx, tx, purpose, newest.Generation+1, s.Clock.Now())
		return err
	})
}

// lock lets only one replica at a time change the keys of a purpose. It returns the newest key, or a key with an empty
// id if none exists.
func (s *Store) lock(ctx context.Context, tx pgx.Tx, purpose Purpose) (Key, error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('signing_key:' || $1, 0))`, string(purpose)); err != nil {
		return Key{}, fmt.Errorf("lock the %s keys: %w", purpose, err)
	}
	list, err := collect(tx.Query(ctx, `SELECT `+columns+` FROM signing_key WHERE purpose = $1 ORDER BY generation DESC LIMIT 1`, purpose))
	if err != nil || len(list) == 0 {
		return Key{}, err
	}
	return list[0], nil
}

func (s *Store) insert(ctx context.Context, tx pgx.Tx, purpose Purpose, generation int64, signsAt time.Time) (Key, error) {
	k, err := authn.NewSigningKey(s.Rand)
	if err != nil {
		return Key{}, fmt.Errorf("create the %s key: %w", purpose, err)
	}
	sealed, err := s.Keyring.Seal(k.Private.Seed(), aad(k.ID))
	if err != nil {
		return Key{}, fmt.Errorf("seal the %s key: %w", purpose, err)
	}
	made := Key{ID: k.ID, Purpose: purpose, Public: k.Public(), Generation: generation, CreatedAt: s.Clock.Now(), SignsAt: signsAt, sealed: sealed}
	_, err = tx.Exec(ctx, `
		INSERT INTO signing_key (kid, purpose, generation, sealed, public_key, created_at, signs_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		made.ID, purpose, generation, sealed, []byte(made.Public.Key), made.CreatedAt, made.SignsAt)
	if err != nil {
		return Key{}, fmt.Errorf("store the %s key: %w", purpose, err)
	}
	return made, nil
}

// succeed sets the time at which signatures of the keys before this generation become invalid. Keys that already have
// such a time keep it.
func (s *Store) succeed(ctx context.Context, tx pgx.Tx, purpose Purpose, generation int64, until time.Time) error {
	_, err := tx.Exec(ctx, `
		UPDATE signing_key SET verifies_until = $3
		WHERE purpose = $1 AND generation < $2 AND verifies_until IS NULL AND retired_at IS NULL AND revoked_at IS NULL`,
		purpose, generation, until)
	if err != nil {
		return fmt.Errorf("set the expiry of the former %s keys: %w", purpose, err)
	}
	return nil
}

// revoke revokes every key of the purpose that is neither retired nor revoked, deletes the private halves of these keys
// and returns their ids.
func (s *Store) revoke(ctx context.Context, tx pgx.Tx, purpose Purpose) ([]string, error) {
	rows, err := tx.Query(ctx, `
		UPDATE signing_key SET revoked_at = $2, sealed = NULL
		WHERE purpose = $1 AND retired_at IS NULL AND revoked_at IS NULL RETURNING kid`, purpose, s.Clock.Now())
	if err != nil {
		return nil, fmt.Errorf("revoke the %s keys: %w", purpose, err)
	}
	kids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("revoke the %s keys: %w", purpose, err)
	}
	return kids, nil
}

// Retire retires keys whose last token has expired, and deletes their private halves.
func (s *Store) Retire(ctx context.Context) error {
	_, err := s.Pool.Exec(ctx, `
		UPDATE signing_key SET retired_at = $1, sealed = NULL
		WHERE verifies_until <= $1 AND retired_at IS NULL AND revoked_at IS NULL`, s.Clock.Now())
	if err != nil {
		return fmt.Errorf("retire signing keys: %w", err)
	}
	return nil
}
