package ingesttoken

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func bearer(t *testing.T) http.Header {
	t.Helper()
	token, err := secret.Mint(rand.Reader, secret.KindIngest)
	require.NoError(t, err)
	return http.Header{"Authorization": {"Bearer " + token.Reveal()}}
}

func TestChecker_Check_cachesForSeconds(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	var calls atomic.Int64
	var resolve atomic.Value
	resolve.Store(func() (*Grant, error) { return &Grant{Attempt: 1}, nil })
	c := NewChecker(clk, func(context.Context, []byte) (*Grant, error) {
		calls.Add(1)
		return resolve.Load().(func() (*Grant, error))()
	})
	h := bearer(t)
	check := func(want int64) error {
		_, err := c.Check(t.Context(), h)
		require.Equal(t, want, calls.Load())
		return err
	}
	require.NoError(t, check(1))
	clk.Advance(4 * time.Second)
	require.NoError(t, check(1))
	clk.Advance(time.Second)
	resolve.Store(func() (*Grant, error) { return nil, fault.New(fault.Unauthenticated, "", "revoked") })
	require.True(t, fault.Is(check(2), fault.Unauthenticated))
	require.True(t, fault.Is(check(2), fault.Unauthenticated))
	clk.Advance(time.Second)
	resolve.Store(func() (*Grant, error) { return nil, fault.New(fault.Unavailable, "", "jobs is unavailable") })
	require.True(t, fault.Is(check(3), fault.Unavailable))
	resolve.Store(func() (*Grant, error) { return &Grant{ExpiresAt: clk.Now().Add(2 * time.Second)}, nil })
	require.NoError(t, check(4), "the error is not cached")
	clk.Advance(2 * time.Second)
	require.True(t, fault.Is(check(4), fault.Unauthenticated), "a cached token expires on time")
}

func TestChecker_Check_concurrentCallsShareOneCall(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	gate := make(chan struct{})
	c := NewChecker(clock.Real(), func(context.Context, []byte) (*Grant, error) {
		calls.Add(1)
		<-gate
		return &Grant{}, nil
	})
	h := bearer(t)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := c.Check(t.Context(), h); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return calls.Load() == 1 }, time.Minute, time.Millisecond)
	close(gate)
	all.Wait()
	require.EqualValues(t, 1, calls.Load())
}

func TestChecker_Check_canceledCallerDoesNotFailOthers(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 2)
	c := NewChecker(clock.Real(), func(ctx context.Context, _ []byte) (*Grant, error) {
		started <- struct{}{}
		if len(started) == 2 {
			return &Grant{}, nil
		}
		<-ctx.Done()
		return nil, fault.FromContext(ctx.Err())
	})
	h := bearer(t)
	first, giveUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := c.Check(first, h)
		gone <- err
	}()
	require.Eventually(t, func() bool { return len(started) == 1 }, time.Minute, time.Millisecond)
	second := make(chan error, 1)
	go func() {
		_, err := c.Check(t.Context(), h)
		second <- err
	}()
	giveUp()
	require.Error(t, <-gone)
	require.NoError(t, <-second)
}

func TestCache_get_boundsEntries(t *testing.T) {
	t.Parallel()
	c := newCache(clock.Real(), func(context.Context, []byte) (*Grant, error) {
		return nil, fault.New(fault.Unauthenticated, "", "unknown")
	})
	for i := range maxEntries + 100 {
		_, err := c.get(t.Context(), [32]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		require.Error(t, err)
	}
	require.LessOrEqual(t, len(c.entries), maxEntries)
}

func TestCache_get_panicLeavesNoEntry(t *testing.T) {
	t.Parallel()
	c := newCache(clock.Real(), func(context.Context, []byte) (*Grant, error) { panic(errors.New("x")) })
	require.Panics(t, func() { _, _ = c.get(t.Context(), [32]byte{}) })
	require.Empty(t, c.entries)
}

func TestGrant_Fence_untilEndOfRun(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	require.NoError(t, (&Grant{Current: true}).Fence())
	require.True(t, fault.HasCode((&Grant{Current: true, EndedAt: &ended}).Fence(), "run_closed"))
	require.True(t, fault.HasCode((&Grant{}).Fence(), "attempt_replaced"))
	require.NoError(t, (&Grant{Current: true, EndedAt: &ended}).Replaced())
	require.True(t, fault.HasCode((&Grant{EndedAt: &ended}).Replaced(), "attempt_replaced"))
}
