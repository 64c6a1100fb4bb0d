package key

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func ring(t *testing.T, id, bytes string) *secret.Keyring {
	t.Helper()
	r, err := secret.NewKeyring(secret.Key{ID: id, Bytes: []byte(bytes)})
	require.NoError(t, err)
	return r
}

// harness is a database and a clock that replicas share.
type harness struct {
	t     *testing.T
	pool  *pgxpool.Pool
	clock *clock.Fake
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	return &harness{
		t: t, pool: pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: files}).Pool("auth"),
		clock: clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)),
	}
}

func (b *harness) store() *Store {
	b.t.Helper()
	return &Store{Pool: b.pool, Keyring: ring(b.t, "k1", "0123456789abcdefFEDCBA9876543210"), Clock: b.clock, Rand: rand.Reader}
}

// replica returns the rotation of another process that uses the database.
func (b *harness) replica() *Rotation {
	b.t.Helper()
	r, err := NewRing(b.t.Context(), b.store())
	require.NoError(b.t, err)
	ids := id.NewSource(b.clock, rand.Reader)
	return &Rotation{
		Ring: r, Audit: audit.NewLog(b.clock, ids, "auth"), Every: 30 * 24 * time.Hour,
		Lives: map[Purpose]time.Duration{Access: 8 * time.Hour, Caller: time.Minute},
	}
}

func (b *harness) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *harness) count(where string) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM signing_key WHERE `+where).Scan(&n))
	return n
}

// signingKey returns the key with which the replica signs.
func signingKey(t *testing.T, r *Rotation, p Purpose) authn.SigningKey {
	t.Helper()
	k, err := r.Ring.Of(p).Signing(t.Context())
	require.NoError(t, err)
	return k
}

func finds(ctx context.Context, r *Rotation, p Purpose, kid string) bool {
	_, err := r.Ring.Of(p).Find(ctx, kid)
	return err == nil
}

func TestNewRing_createsKeysOnce(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	first, again := b.replica(), b.replica()
	require.Equal(t, signingKey(t, first, Access), signingKey(t, again, Access))
	require.NotEqual(t, signingKey(t, first, Access).ID, signingKey(t, first, Caller).ID, "each purpose has its own key")
	require.False(t, finds(t.Context(), first, Caller, signingKey(t, first, Access).ID))
	require.Equal(t, 2, b.count("true"))
}

func TestNewRing_concurrent(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	replicas := make([]*Rotation, 5)
	var wg sync.WaitGroup
	for n := range replicas {
		wg.Go(func() { replicas[n] = b.replica() })
	}
	wg.Wait()
	for _, r := range replicas {
		require.Equal(t, signingKey(t, replicas[0], Access), signingKey(t, r, Access))
	}
	require.Equal(t, 2, b.count("true"))
}

func TestStore_sealsPrivateHalves(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	k := signingKey(t, b.replica(), Access)
	var sealed, public []byte
	row := b.pool.QueryRow(t.Context(), `SELECT sealed, public_key FROM signing_key WHERE purpose = 'access'`)
	require.NoError(t, row.Scan(&sealed, &public))
	require.NotContains(t, string(sealed), string(k.Private.Seed()))
	require.Equal(t, k.Public().Key, ed25519.PublicKey(public))
}

func TestNewRing_wrongKeyring(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.replica()
	stranger := b.store()
	stranger.Keyring = ring(t, "k1", "ANOTHER-6789abcdefFEDCBA98765432")
	_, err := NewRing(t.Context(), stranger)
	require.ErrorContains(t, err, "decrypt the access key")
	require.Equal(t, 2, b.count("true"), "a key that cannot be opened is not silently replaced")
}

func TestNewRing_sealedKeyOfAnotherRow(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.replica()
	b.exec(`UPDATE signing_key a SET sealed = c.sealed FROM signing_key c WHERE a.purpose = 'access' AND c.purpose = 'caller'`)
	_, err := NewRing(t.Context(), b.store())
	require.ErrorContains(t, err, "decrypt the access key")
}

func TestNewRing_noEntropy(t *testing.T) {
	t.Parallel()
	s := newHarness(t).store()
	s.Rand = iotest.ErrReader(io.ErrUnexpectedEOF)
	_, err := NewRing(t.Context(), s)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestNewRing_noLiveKey(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	old := signingKey(t, b.replica(), Access)
	b.exec(`UPDATE signing_key SET retired_at = now()`)
	require.NotEqual(t, old.ID, signingKey(t, b.replica(), Access).ID)
	require.Equal(t, 4, b.count("true"))
}
