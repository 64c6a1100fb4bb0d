package oauth

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestAuthority_Issue_refreshReuse(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first := h.tokens(exchangeForm(h.code()))
	second := h.tokens(refreshForm(first.refresh))
	require.NotEqual(t, first.refresh, second.refresh)
	require.True(t, h.tokenValid(second.access))
	third := h.tokens(refreshForm(second.refresh))
	require.Equal(t, wordGrant, h.refused(refreshForm(first.refresh)), "there is no grace period")
	for _, p := range []pair{first, second, third} {
		require.False(t, h.tokenValid(p.access))
		require.Equal(t, wordGrant, h.refused(refreshForm(p.refresh)))
	}
	require.Equal(t, []string{"oauth.approve usr_1", "oauth.revoke usr_1"}, h.audits())
	require.Equal(t, "reuse", h.text(`SELECT revoked_reason FROM oauth_grant`))
}

func TestAuthority_Issue_concurrentRefreshes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 5 {
		p := h.tokens(exchangeForm(h.code()))
		var given atomic.Int32
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if _, err := h.Issue(t.Context(), refreshForm(p.refresh), here); err == nil {
					given.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, given.Load())
		require.False(t, h.tokenValid(p.access))
	}
}

func TestAuthority_Issue_manyClientsNoDeadlock(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	codes := make([]string, 40)
	for i := range codes {
		codes[i] = h.code()
	}
	var given atomic.Int32
	var wg sync.WaitGroup
	for _, code := range codes {
		wg.Go(func() {
			first, err := h.Issue(t.Context(), exchangeForm(code), here)
			if err != nil {
				return
			}
			if _, err := h.Issue(t.Context(), refreshForm(first.Refresh.Reveal()), here); err == nil {
				given.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		require.Fail(t, "the clients did not finish within 30 s; they may block each other")
	}
	require.EqualValues(t, len(codes), given.Load())
}

func TestAuthority_Issue_refreshExpiry(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	last, late := h.tokens(exchangeForm(h.code())), h.tokens(exchangeForm(h.code()))
	h.clock.Advance(RefreshTTL - time.Microsecond)
	h.tokens(refreshForm(last.refresh))
	h.clock.Advance(time.Microsecond)
	require.Equal(t, wordGrant, h.refused(refreshForm(late.refresh)))
	require.Empty(t, h.audits()[2:], "an expired token does not count as reuse")
}

func TestAuthority_Issue_rejectsBadRefreshes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.tokens(exchangeForm(h.code()))
	other, err := secret.Mint(h.Rand, secret.KindRefresh)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change form
		want   string
	}{
		"no token":         {form{"refresh_token": ""}, wordRequest},
		"another token":    {form{"refresh_token": other.Reveal()}, wordGrant},
		"the access token": {form{"refresh_token": p.access}, wordGrant},
		"no client":        {form{"client_id": ""}, wordClient},
		"another client":   {form{"client_id": otherID}, wordGrant},
		"the command line": {form{"client_id": "signalbox-cli"}, wordUnauthorized},
		"another resource": {form{"resource": public}, wordTarget},
		"more scope":       {form{"scope": "read jobs:control"}, wordScope},
		"unknown scope":    {form{"scope": "admin"}, wordScope},
	} {
		require.Equal(t, c.want, h.refused(with(refreshForm(p.refresh), c.change)), name)
	}
	require.True(t, h.tokenValid(p.access), "a refused refresh does not count as reuse")
	h.tokens(with(refreshForm(p.refresh), form{"resource": resource}))
}

func TestAuthority_Issue_narrowerScope(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.tokens(exchangeForm(h.code()))
	status, body := h.issue(with(refreshForm(p.refresh), form{"scope": "jobs:plan"}))
	require.Equal(t, 200, status)
	require.Equal(t, "jobs:plan", body["scope"])
	_, grant, err := h.Sessions.AuthenticateFor(t.Context(), body["access_token"].(string), here, public, resource)
	require.NoError(t, err)
	require.Equal(t, "jobs:plan", grant.Scope)
	_, body = h.issue(refreshForm(body["refresh_token"].(string)))
	require.Equal(t, "read jobs:plan", body["scope"])
}

func TestAuthority_Issue_revokedSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.tokens(exchangeForm(h.code()))
	h.clock.Advance(20 * 24 * time.Hour)
	ctx, c := h.person()
	require.NoError(t, h.Sessions.Revoke(ctx, c, h.text(`SELECT id FROM session WHERE method = 'oauth'`)), "the session is listed as long as its refresh token is valid")
	require.Equal(t, wordGrant, h.refused(refreshForm(p.refresh)))
}

func TestAuthority_DeleteGrants(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const kept = 24 * time.Hour
	sweep := func() {
		_, err := h.DeleteGrants(t.Context(), h.clock.Now().Add(-kept), 10)
		require.NoError(t, err)
	}
	h.code()
	p := h.tokens(exchangeForm(h.code()))
	h.clock.Advance(CodeTTL + kept + time.Microsecond)
	sweep()
	require.Equal(t, "1", h.text(`SELECT count(*)::text FROM oauth_grant`))
	h.clock.Advance(RefreshTTL - time.Hour - kept - CodeTTL)
	h.tokens(refreshForm(p.refresh))
	h.clock.Advance(RefreshTTL + kept + time.Microsecond)
	sweep()
	require.Equal(t, "0", h.text(`SELECT count(*)::text FROM oauth_grant`))
	require.Equal(t, "0", h.text(`SELECT count(*)::text FROM oauth_refresh_token`))
}
