package key

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Store keeps keys in the auth schema.
type Store struct {
	Pool    *pgxpool.Pool
	Keyring *secret.Keyring
	Clock   clock.Clock
	Rand    io.Reader
}

// Live answers the purpose's live key and makes it where there is none yet.
func (s *Store) Live(ctx context.Context, purpose Purpose) (authn.SigningKey, error) {
	k, err := s.load(ctx, purpose)
	if !errors.Is(err, pgx.ErrNoRows) {
		return k, err
	}
	if err := s.create(ctx, purpose); err != nil {
		return authn.SigningKey{}, err
	}
	return s.load(ctx, purpose)
}

func (s *Store) load(ctx context.Context, purpose Purpose) (authn.SigningKey, error) {
	var kid string
	var sealed []byte
	row := s.Pool.QueryRow(ctx, `SELECT kid, sealed FROM signing_key WHERE purpose = $1 AND retired_at IS NULL`, purpose)
	if err := row.Scan(&kid, &sealed); err != nil {
		return authn.SigningKey{}, fmt.Errorf("load the %s key: %w", purpose, err)
	}
	seed, err := s.Keyring.Open(sealed, aad(kid))
	if err != nil {
		return authn.SigningKey{}, fmt.Errorf("open the %s key %s: %w", purpose, kid, err)
	}
	k, err := authn.SigningKeyFromSeed(seed)
	if err != nil {
		return authn.SigningKey{}, fmt.Errorf("read the %s key %s: %w", purpose, kid, err)
	}
	return k, nil
}

func (s *Store) create(ctx context.Context, purpose Purpose) error {
	k, err := authn.NewSigningKey(s.Rand)
	if err != nil {
		return fmt.Errorf("make the %s key: %w", purpose, err)
	}
	sealed, err := s.Keyring.Seal(k.Private.Seed(), aad(k.ID))
	if err != nil {
		return fmt.Errorf("seal the %s key: %w", purpose, err)
	}
	_, err = s.Pool.Exec(ctx, `
		INSERT INTO signing_key (kid, purpose, sealed, public_key, created_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (purpose) WHERE retired_at IS NULL DO NOTHING`,
		k.ID, purpose, sealed, []byte(k.Public().Key), s.Clock.Now())
	if err != nil {
		return fmt.Errorf("store the %s key: %w", purpose, err)
	}
	return nil
}
