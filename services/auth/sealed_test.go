package auth_test

import (
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth"
)

// The keyring gets a new key and then loses the old one. The signing keys stay the same.
func TestSigningKeys_surviveKeyringRotation(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	k1 := secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")}
	k2 := secret.Key{ID: "k2", Bytes: []byte("fedcba98765432100123456789ABCDEF")}
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	start := func(keys ...secret.Key) (*auth.Service, error) {
		ring, err := secret.NewKeyring(keys...)
		require.NoError(t, err)
		svc, err := auth.New(t.Context(), auth.Config{JWTHours: 8, KeyDays: 30, HashParallel: 1, HashMemoryKiB: 64, HashIterations: 1}, auth.Deps{
			Pool: db.Pool(auth.Name), Keyring: ring, Clock: clk, IDs: id.NewSource(clk, rand.Reader), Rand: rand.Reader, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return nil, err
		}
		moved, err := pg.Reseal(t.Context(), db.Pool(auth.Name), ring, svc.Sealed()...)
		require.NoError(t, err)
		require.Equal(t, len(keys) == 2, moved >= 2, "%d", moved)
		return svc, nil
	}
	before, err := start(k1)
	require.NoError(t, err)
	_, err = start(k2)
	require.ErrorIs(t, err, secret.ErrOpen)
	_, err = start(k2, k1)
	require.NoError(t, err)
	after, err := start(k2)
	require.NoError(t, err)
	want, err := before.Keys(t.Context())
	require.NoError(t, err)
	got, err := after.Keys(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
}
