package ingesttoken

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func TestChecker_Check_resolvesOnlyWellFormedTokens(t *testing.T) {
	t.Parallel()
	var hashes [][]byte
	c := NewChecker(clock.NewFake(fixtures.Now()), func(_ context.Context, hash []byte) (*Grant, error) {
		hashes = append(hashes, hash)
		return &Grant{}, nil
	})
	good := strings.TrimPrefix(bearer(t).Get("Authorization"), "Bearer ")
	deployment, err := secret.Mint(rand.Reader, secret.KindDeployment)
	require.NoError(t, err)
	last := byte('0')
	if strings.HasSuffix(good, "0") {
		last = '1'
	}
	for name, token := range map[string]string{
		"empty": "", "another kind": deployment.Reveal(), "a digit wrong": good[:len(good)-1] + string(last), "cut": good[:len(good)-1], "longer": good + "0",
		"in caps": strings.ToUpper(good), "a jwt": "eyJhbGciOiJub25lIn0.e30.", "no checksum": good[:len(good)-6], "its hash": string(secret.Hash(good)), "huge": strings.Repeat("a", 1<<20),
	} {
		_, err := c.Check(t.Context(), http.Header{HeaderToken: {token}})
		require.True(t, fault.Is(err, fault.Unauthenticated) && fault.HasCode(err, "ingest_token"), "%s: %v", name, err)
		if token != "" {
			require.NotContains(t, err.Error(), token[:min(len(token), 20)], "%s: no error repeats a credential", name)
		}
	}
	require.Empty(t, hashes)
	_, err = c.Check(t.Context(), http.Header{HeaderToken: {good}})
	require.NoError(t, err)
	require.Equal(t, [][]byte{secret.Hash(good)}, hashes, "only the hash is sent")
}

func TestChecker_Check_tokenExpires(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(fixtures.Now())
	ends := fixtures.Now().Add(3 * time.Second)
	c := NewChecker(clk, func(context.Context, []byte) (*Grant, error) { return &Grant{ExpiresAt: ends}, nil })
	h := bearer(t)
	for _, step := range []struct {
		wait time.Duration
		ok   bool
	}{{0, true}, {3*time.Second - time.Microsecond, true}, {time.Microsecond, false}, {time.Hour, false}} {
		clk.Advance(step.wait)
		_, err := c.Check(t.Context(), h)
		require.Equal(t, step.ok, err == nil, "%v: %v", clk.Now(), err)
	}
}

func TestChecker_Check_noticesRevocationWithinSeconds(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(fixtures.Now())
	revoked := false
	c := NewChecker(clk, func(context.Context, []byte) (*Grant, error) {
		if revoked {
			return nil, fault.New(fault.Unauthenticated, "ingest_token", "revoked")
		}
		return &Grant{}, nil
	})
	h := bearer(t)
	check := func() bool { _, err := c.Check(t.Context(), h); return err == nil }
	require.True(t, check())
	revoked = true
	clk.Advance(rememberGood - time.Microsecond)
	require.True(t, check(), "the grant is still cached")
	clk.Advance(time.Microsecond)
	require.False(t, check())
	revoked = false
	clk.Advance(rememberBad - time.Microsecond)
	require.False(t, check())
	clk.Advance(time.Microsecond)
	require.True(t, check(), "the token is valid again, because the cached refusal has expired")
}

func TestChecker_Check_keepsTokensApart(t *testing.T) {
	t.Parallel()
	owners := map[string]string{}
	var headers []http.Header
	for _, run := range []string{"run_1", "run_2", "run_3"} {
		h := bearer(t)
		headers = append(headers, h)
		owners[string(secret.Hash(strings.TrimPrefix(h.Get("Authorization"), "Bearer ")))] = run
	}
	c := NewChecker(clock.Real(), func(_ context.Context, hash []byte) (*Grant, error) {
		g := &Grant{}
		g.Owner.RunID = owners[string(hash)]
		return g, nil
	})
	var all sync.WaitGroup
	for i := range 90 {
		all.Go(func() {
			g, err := c.Check(t.Context(), headers[i%3])
			if err != nil || g.Run([]string{"run_1", "run_2", "run_3"}[i%3]) != nil {
				t.Error(i, err)
			}
		})
	}
	all.Wait()
}

func TestChecker_Check_errorGoesToAllWaiting(t *testing.T) {
	t.Parallel()
	away := fault.New(fault.Unavailable, "", "jobs is unavailable")
	gate, called := make(chan struct{}), make(chan struct{}, 100)
	c := NewChecker(clock.Real(), func(context.Context, []byte) (*Grant, error) {
		called <- struct{}{}
		<-gate
		return nil, away
	})
	h := bearer(t)
	errs := make(chan error, 10)
	for range 10 {
		go func() { _, err := c.Check(t.Context(), h); errs <- err }()
	}
	<-called
	close(gate)
	for range 10 {
		require.ErrorIs(t, <-errs, away)
	}
	require.Empty(t, c.cache.entries, "the error is not cached")
}

func TestCache_shrink_removesExpiredEntries(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(fixtures.Now())
	good, bad := &Grant{Attempt: 1}, errors.New("no such token")
	c := newCache(clk, func(_ context.Context, hash []byte) (*Grant, error) {
		if hash[31] == 1 {
			return nil, fault.New(fault.Unauthenticated, "", "unknown").Wrap(bad)
		}
		return good, nil
	})
	hash := func(i int, kind byte) [32]byte { return [32]byte{byte(i), byte(i >> 8), 31: kind} }
	for i := range 100 {
		_, err := c.get(t.Context(), hash(i, 0))
		require.NoError(t, err)
	}
	clk.Advance(rememberGood - rememberBad/2)
	for i := range maxEntries - 100 {
		_, err := c.get(t.Context(), hash(i, 1))
		require.Error(t, err)
	}
	require.Len(t, c.entries, maxEntries)
	clk.Advance(rememberBad)
	_, err := c.get(t.Context(), hash(0, 2))
	require.NoError(t, err)
	require.Len(t, c.entries, 1, "all expired entries are removed")
}
