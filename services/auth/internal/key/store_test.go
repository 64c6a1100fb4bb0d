package key

import (
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
)

func ring(t *testing.T, id, bytes string) *secret.Keyring {
	t.Helper()
	r, err := secret.NewKeyring(secret.Key{ID: id, Bytes: []byte(bytes)})
	require.NoError(t, err)
	return r
}

func pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	return pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}).Pool("auth")
}

func store(t *testing.T, p *pgxpool.Pool) *Store {
	t.Helper()
	return &Store{
		Pool: p, Keyring: ring(t, "k1", "0123456789abcdefFEDCBA9876543210"), Rand: rand.Reader,
		Clock: clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)),
	}
}

func TestAKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	p := pool(t)
	first, err := store(t, p).Live(t.Context(), Access)
	require.NoError(t, err)
	again, err := store(t, p).Live(t.Context(), Access)
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	require.True(t, first.Private.Equal(again.Private))
	other, err := store(t, p).Live(t.Context(), Caller)
	require.NoError(t, err)
	require.NotEqual(t, first.ID, other.ID, "a key has one purpose")
}

func TestStartersThatRaceAgree(t *testing.T) {
	t.Parallel()
	p := pool(t)
	keys := make([]authn.SigningKey, 5)
	var wg sync.WaitGroup
	for n := range keys {
		s := store(t, p)
		wg.Go(func() {
			k, err := s.Live(t.Context(), Access)
			if err == nil {
				keys[n] = k
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		require.NotEmpty(t, k.ID)
		require.Equal(t, keys[0].ID, k.ID)
	}
	var rows int
	require.NoError(t, p.QueryRow(t.Context(), `SELECT count(*) FROM signing_key`).Scan(&rows))
	require.Equal(t, 1, rows)
}

func TestNoPrivateHalfIsInTheDatabase(t *testing.T) {
	t.Parallel()
	p := pool(t)
	k, err := store(t, p).Live(t.Context(), Access)
	require.NoError(t, err)
	var sealed, public []byte
	require.NoError(t, p.QueryRow(t.Context(), `SELECT sealed, public_key FROM signing_key`).Scan(&sealed, &public))
	require.NotContains(t, string(sealed), string(k.Private.Seed()))
	require.Equal(t, k.Public().Key, ed25519.PublicKey(public))
}

func TestTheRingOpensItOrNobody(t *testing.T) {
	t.Parallel()
	p := pool(t)
	_, err := store(t, p).Live(t.Context(), Access)
	require.NoError(t, err)
	stranger := store(t, p)
	stranger.Keyring = ring(t, "k1", "ANOTHER-6789abcdefFEDCBA98765432")
	_, err = stranger.Live(t.Context(), Access)
	require.ErrorContains(t, err, "open the access key")
	var rows int
	require.NoError(t, p.QueryRow(t.Context(), `SELECT count(*) FROM signing_key`).Scan(&rows))
	require.Equal(t, 1, rows, "a key that cannot be opened is not replaced behind anyone's back")
}

func TestASealedKeyHoldsForItsRowOnly(t *testing.T) {
	t.Parallel()
	p := pool(t)
	s := store(t, p)
	_, err := s.Live(t.Context(), Access)
	require.NoError(t, err)
	_, err = s.Live(t.Context(), Caller)
	require.NoError(t, err)
	_, err = p.Exec(t.Context(), `UPDATE signing_key a SET sealed = c.sealed FROM signing_key c WHERE a.purpose = 'access' AND c.purpose = 'caller'`)
	require.NoError(t, err)
	_, err = s.Live(t.Context(), Access)
	require.Error(t, err)
}

func TestARetiredKeyHasASuccessor(t *testing.T) {
	t.Parallel()
	p := pool(t)
	old, err := store(t, p).Live(t.Context(), Access)
	require.NoError(t, err)
	_, err = p.Exec(t.Context(), `UPDATE signing_key SET retired_at = now()`)
	require.NoError(t, err)
	fresh, err := store(t, p).Live(t.Context(), Access)
	require.NoError(t, err)
	require.NotEqual(t, old.ID, fresh.ID)
}

func TestNoEntropyNoKey(t *testing.T) {
	t.Parallel()
	s := store(t, pool(t))
	s.Rand = iotest.ErrReader(io.ErrUnexpectedEOF)
	_, err := s.Live(t.Context(), Access)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
