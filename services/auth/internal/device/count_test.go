package device

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

func retryAfter(t *testing.T, err error) time.Duration {
	t.Helper()
	require.True(t, fault.Is(err, fault.Limited), "%v", err)
	return fault.From(err).RetryAfter
}

func (h *harness) attempts(purpose string) (n int) {
	h.t.Helper()
	require.NoError(h.t, h.Pool.QueryRow(h.t.Context(), `SELECT count(*) FROM device_attempt WHERE purpose = $1`, purpose).Scan(&n))
	return n
}

func TestFlow_Poll_limitAcrossReplicas(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	second := *h.Flow
	replicas := []*Flow{h.Flow, &second, {Pool: h.Pool, Sessions: h.opener, Audit: h.Audit, Clock: h.clock, IDs: h.IDs, Rand: h.Rand}}
	var passed atomic.Int32
	var wg sync.WaitGroup
	for n := range 60 {
		wg.Go(func() {
			_, err := replicas[n%3].Poll(t.Context(), Poll{Code: c.Device, ClientID: ClientID, Address: here})
			if !fault.Is(err, fault.Limited) {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 20, passed.Load())
	_, err := h.poll(c)
	wait := retryAfter(t, err)
	require.Greater(t, wait, time.Second)
	require.LessOrEqual(t, wait, time.Minute)
	require.Equal(t, wordSlow, fault.From(err).OAuth)
	require.Equal(t, 20, h.attempts("poll"), "a refused poll adds no row")
	_, err = h.Poll(t.Context(), Poll{Code: c.Device, ClientID: ClientID, Address: elsewhere})
	require.Equal(t, wordGrant, errorCode(t, err), "polls from another address are counted separately")
	require.NoError(t, h.decide("usr_1", c, true))
	_, err = h.Poll(pg.WithOffset(t.Context(), time.Minute+time.Second), Poll{Code: c.Device, ClientID: ClientID, Address: here})
	require.NoError(t, err, "the oldest attempts have left the window")
}

func TestFlow_Begin_limit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 30 {
		h.begin()
	}
	start := Start{ClientID: ClientID, ClientName: "x", Address: here}
	_, err := h.Begin(t.Context(), start)
	require.Positive(t, retryAfter(t, err))
	start.Address = elsewhere
	_, err = h.Begin(t.Context(), start)
	require.NoError(t, err)
}

func TestFlow_Begin_pendingLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	fill := func(n int, address string) {
		h.exec(`
			INSERT INTO device_code (id, hash, user_code_hash, client_id, client_name, client_address, address_key, created_at, expires_at, interval_seconds)
			SELECT 'x' || $2 || n, sha256(($2 || n)::bytea), sha256(('u' || $2 || n)::bytea), 'c', 'n', $2, $2, $3, $4, 5 FROM generate_series(1, $1::int) n`,
			n, address, h.clock.Now(), h.clock.Now().Add(TTL))
	}
	start := Start{ClientID: ClientID, ClientName: "x", Address: here}
	fill(openOfAddress-1, here)
	last := h.begin()
	_, err := h.Begin(t.Context(), start)
	require.Equal(t, time.Minute, retryAfter(t, err))
	require.NoError(t, h.decide("usr_1", last, false))
	h.begin()
	fill(openInAll-openOfAddress, elsewhere)
	start.Address = "192.0.2.9"
	_, err = h.Begin(t.Context(), start)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	h.clock.Advance(TTL)
	_, err = h.Begin(t.Context(), start)
	require.NoError(t, err, "expired flows are not pending")
}

func TestFlow_View_guessLimits(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	guess := func(account, address string) error {
		p := person(account)
		p.ClientAddr = address
		_, err := h.View(authn.NewContext(t.Context(), p), p, "BBBB-BBBB")
		return err
	}
	for n := range 10 {
		require.True(t, fault.Is(guess("usr_1", fmt.Sprintf("192.0.2.%d", n)), fault.Absent))
	}
	require.Positive(t, retryAfter(t, guess("usr_1", "192.0.2.100")), "the account has used up its wrong guesses")
	require.True(t, fault.Is(h.decide("usr_1", c, true), fault.Limited), "the limit also refuses the correct code")
	require.NoError(t, h.decide("usr_2", c, true))
	for n := range 30 {
		require.True(t, fault.Is(guess(fmt.Sprintf("usr_%d", 100+n), "198.51.100.9"), fault.Absent))
	}
	require.Positive(t, retryAfter(t, guess("usr_200", "198.51.100.9")), "the address has used up its wrong guesses")
}

func TestFlow_View_concurrentGuesses(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var tried atomic.Int32
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if _, err := h.View(h.as("usr_1"), person("usr_1"), "BBBB-BBBB"); fault.Is(err, fault.Absent) {
				tried.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 10, tried.Load())
}

func TestFlow_View_correctCodesNotCounted(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.begin()
	for range 12 {
		_, err := h.View(h.as("usr_1"), person("usr_1"), c.User)
		require.NoError(t, err)
	}
	require.NoError(t, h.decide("usr_1", c, true))
	require.True(t, fault.Is(h.decide("usr_1", c, true), fault.Conflict))
	require.Zero(t, h.attempts("guess_account"))
	require.Zero(t, h.attempts("guess_address"))
}

func TestFlow_Sweep_keepsAttemptsInWindow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.begin()
	require.NoError(t, h.Sweep(pg.WithOffset(t.Context(), TTL)))
	require.Equal(t, 1, h.attempts("create"))
	require.NoError(t, h.Sweep(pg.WithOffset(t.Context(), 2*TTL+time.Second)))
	require.Zero(t, h.attempts("create"))
}
