package authn_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

type source struct {
	mu    sync.Mutex
	keys  []authn.PublicKey
	err   error
	calls atomic.Int32
}

func (s *source) set(err error, keys ...authn.PublicKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.keys = err, keys
}

func (s *source) fetch(context.Context) ([]authn.PublicKey, error) {
	s.calls.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys, s.err
}

type keyHarness struct {
	clk   *clock.Fake
	src   *source
	keys  *authn.Keys
	check *authn.Verifier
}

func newKeyHarness() keyHarness {
	clk, src := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)), &source{}
	keys := authn.NewKeys(clk, src.fetch)
	return keyHarness{clk, src, keys, authn.NewVerifier(clk, keys)}
}

func newKey(t *testing.T) authn.SigningKey {
	t.Helper()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	return key
}

func (k keyHarness) verify(t *testing.T, key authn.SigningKey) error {
	t.Helper()
	signer := authn.NewSigner(k.clk, func() string { return "j" }, func() authn.SigningKey { return key })
	token, _, err := signer.Sign(operator())
	require.NoError(t, err)
	_, _, err = k.check.Verify(t.Context(), token)
	return err
}

func TestKeys_rotation(t *testing.T) {
	t.Parallel()
	k, first, second := newKeyHarness(), newKey(t), newKey(t)
	k.src.set(nil, first.Public(), second.Public())
	require.NoError(t, k.verify(t, first))
	require.NoError(t, k.verify(t, second))
	require.EqualValues(t, 1, k.src.calls.Load())

	k.src.set(nil, second.Public())
	require.NoError(t, k.verify(t, first), "the key is cached for a few seconds")
	k.clk.Advance(authn.KeysMaxAge)
	require.True(t, fault.Is(k.verify(t, first), fault.Unauthenticated), "a removed key stops working within seconds")
	require.NoError(t, k.verify(t, second))
}

func TestKeys_Find_fetchesUnknownID(t *testing.T) {
	t.Parallel()
	k, known := newKeyHarness(), newKey(t)
	k.src.set(nil, known.Public())
	require.NoError(t, k.verify(t, known))
	require.True(t, fault.Is(k.verify(t, newKey(t)), fault.Unauthenticated))
	fresh := newKey(t)
	k.src.set(nil, fresh.Public())
	require.NoError(t, k.verify(t, fresh), "a new key is accepted at once")
	require.True(t, fault.Is(k.verify(t, known), fault.Unauthenticated), "the replaced key is rejected")
}

// The first fetch is blocked until all lookups wait, either for its result or for the gate.
func TestKeys_Find_unknownIDsShareFetches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, calls := make(chan struct{}), atomic.Int32{}
		keys := authn.NewKeys(clock.NewFake(time.Now()), func(context.Context) ([]authn.PublicKey, error) {
			calls.Add(1)
			<-release
			return nil, nil
		})
		for i := range 200 {
			go func() {
				_, err := keys.Find(t.Context(), fmt.Sprint("unknown", i))
				if !fault.Is(err, fault.Unauthenticated) {
					t.Errorf("the error for an unknown key id is %v", err)
				}
			}()
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		require.LessOrEqual(t, calls.Load(), int32(2), "lookups that wait for a fetch share its result")
	})
}

func TestKeys_Find_sourceUnavailable(t *testing.T) {
	t.Parallel()
	k, key := newKeyHarness(), newKey(t)
	k.src.set(errors.New("auth at 10.0.0.7 is down"))
	err := k.verify(t, key)
	require.True(t, fault.Is(err, fault.Unavailable), "an outage is not reported as a bad credential")
	require.NotContains(t, fault.From(err).Text(), "10.0.0.7")
	require.True(t, fault.Is(k.verify(t, key), fault.Unavailable))
	require.EqualValues(t, 1, k.src.calls.Load(), "a failed fetch is not repeated at once")

	k.src.set(nil, key.Public())
	k.clk.Advance(time.Second)
	require.NoError(t, k.verify(t, key))
}

func TestKeys_Find_knownKeysDuringOutage(t *testing.T) {
	t.Parallel()
	k, key := newKeyHarness(), newKey(t)
	k.src.set(nil, key.Public())
	require.NoError(t, k.verify(t, key))
	k.src.set(errors.New("down"), key.Public())
	k.clk.Advance(89 * time.Second)
	require.NoError(t, k.verify(t, key))
	k.clk.Advance(time.Second)
	require.True(t, fault.Is(k.verify(t, key), fault.Unavailable), "the key expires with the last token it could have signed")
}

func TestKeys_Find_concurrentCallersFetchOnce(t *testing.T) {
	t.Parallel()
	k, key := newKeyHarness(), newKey(t)
	k.src.set(nil, key.Public())
	var wg sync.WaitGroup
	failed := atomic.Int32{}
	for range 32 {
		wg.Go(func() {
			if k.verify(t, key) != nil {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	require.Zero(t, failed.Load())
	require.EqualValues(t, 1, k.src.calls.Load())
}

func TestKeys_Find_canceledContext(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	entered, release := make(chan struct{}), make(chan struct{})
	keys := authn.NewKeys(clk, func(context.Context) ([]authn.PublicKey, error) {
		close(entered)
		<-release
		return nil, nil
	})
	key := newKey(t)
	signer := authn.NewSigner(clk, func() string { return "j" }, func() authn.SigningKey { return key })
	token, _, err := signer.Sign(operator())
	require.NoError(t, err)
	v := authn.NewVerifier(clk, keys)

	first := make(chan error, 1)
	go func() { _, _, err := v.Verify(context.Background(), token); first <- err }()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = v.Verify(ctx, token)
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	require.True(t, fault.Is(<-first, fault.Unauthenticated))
}

func TestKeys_Find_staleKeyDuringRefresh(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	key := newKey(t)
	for age, usable := range map[time.Duration]bool{time.Minute: true, 2 * time.Minute: false} {
		fetching, release := make(chan struct{}), make(chan struct{})
		calls := 0
		keys := authn.NewKeys(clk, func(context.Context) ([]authn.PublicKey, error) {
			if calls++; calls > 1 {
				fetching <- struct{}{}
				<-release
				return nil, nil
			}
			return []authn.PublicKey{key.Public()}, nil
		})
		signer := authn.NewSigner(clk, func() string { return "j" }, func() authn.SigningKey { return key })
		v := authn.NewVerifier(clk, keys)
		check := func(ctx context.Context) error {
			token, _, err := signer.Sign(operator())
			require.NoError(t, err)
			_, _, err = v.Verify(ctx, token)
			return err
		}
		require.NoError(t, check(t.Context()))
		clk.Advance(age)
		first := make(chan error, 1)
		go func() { first <- check(context.Background()) }()
		<-fetching
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // a lookup that waits for the fetch gives up
		err := check(ctx)
		require.Equal(t, usable, err == nil, "after %s", age)
		release <- struct{}{}
		require.True(t, fault.Is(<-first, fault.Unauthenticated))
	}
}

func TestKeys_ignoresInvalidKeys(t *testing.T) {
	t.Parallel()
	k, key := newKeyHarness(), newKey(t)
	k.src.set(nil, authn.PublicKey{ID: key.ID, Key: key.Public().Key[:16]}, authn.PublicKey{Key: key.Public().Key})
	require.True(t, fault.Is(k.verify(t, key), fault.Unauthenticated))
}

func TestSigningKeys(t *testing.T) {
	t.Parallel()
	a, b := newKey(t), newKey(t)
	require.NotEqual(t, a.ID, b.ID)
	again, err := authn.SigningKeyFromSeed(a.Private.Seed())
	require.NoError(t, err)
	require.Equal(t, a, again)
	_, err = authn.SigningKeyFromSeed([]byte("short"))
	require.Error(t, err)
	_, err = authn.NewSigningKey(strings.NewReader("short"))
	require.Error(t, err)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.Equal(t, "signing key "+a.ID, fmt.Sprintf(format, a))
	}
}
