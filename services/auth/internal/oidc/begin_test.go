package oidc

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

func (w *harness) begin(address string) error {
	_, err := w.Begin(w.t.Context(), "/", address)
	return err
}

func TestSignIn_Begin_addressLimit(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	for i := range beginMost {
		// All IPv6 addresses of a /64 network count as one client.
		require.NoError(t, w.begin("2001:db8::"+strconv.FormatInt(int64(i+1), 16)))
		if i == 0 {
			w.clock.Advance(20 * time.Second)
		}
	}
	err := w.begin("2001:db8::ffff")
	require.True(t, fault.Is(err, fault.Limited), "%v", err)
	require.Equal(t, 40*time.Second, fault.From(err).RetryAfter, "the wait ends when the first sign-in leaves the window")
	require.Equal(t, beginMost, w.count("oidc_sign_in"), "a refused sign-in adds no row")
	require.NoError(t, w.begin("192.0.2.8"), "other addresses are not limited")

	w.clock.Advance(40 * time.Second)
	require.NoError(t, w.begin("2001:db8::1"))
	require.True(t, fault.Is(w.begin("2001:db8::1"), fault.Limited), "the window slides and does not restart")
}

func TestSignIn_Begin_concurrentLimit(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	require.NoError(t, w.begin("192.0.2.8"), "the first sign-in succeeds; it also reads the provider's metadata")
	w.exec(`INSERT INTO oidc_sign_in (state_hash, binding_hash, sealed_next, address_key, begun_at, expires_at)
		SELECT sha256(n::text::bytea), sha256(n::text::bytea), '', '192.0.2.7', $1, $2 FROM generate_series(1, $3) n`,
		w.clock.Now(), w.clock.Now().Add(pendingTTL), beginMost-3)
	var all sync.WaitGroup
	errs := make([]error, 12)
	for i := range errs {
		all.Go(func() { errs[i] = w.begin("192.0.2.7") })
	}
	all.Wait()
	begun := 0
	for _, err := range errs {
		if err == nil {
			begun++
			continue
		}
		require.True(t, fault.Is(err, fault.Limited), "%v", err)
	}
	require.Equal(t, 3, begun)
}

func TestSignIn_Begin_waitingLimit(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fill := func(used any, expires time.Time, seed string) {
		w.exec(`INSERT INTO oidc_sign_in (state_hash, binding_hash, sealed_next, address_key, begun_at, used_at, expires_at)
			SELECT sha256(($3 || n)::bytea), sha256(n::text::bytea), '', 'k' || n, $1, $2, $4 FROM generate_series(1, $5) n`,
			w.clock.Now().Add(-2*time.Minute), used, seed, expires, waitingMost-1)
	}
	fill(nil, w.clock.Now(), "expired")
	fill(w.clock.Now(), w.clock.Now().Add(time.Minute), "used")
	require.NoError(t, w.begin("192.0.2.7"), "expired and used sign-ins do not count as waiting")
	fill(nil, w.clock.Now().Add(time.Minute), "waiting")
	err := w.begin("192.0.2.7")
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.Equal(t, time.Minute, fault.From(err).RetryAfter)
	w.clock.Advance(time.Minute)
	require.NoError(t, w.begin("192.0.2.7"))
}
