package oauth

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

func TestAuthority_Issue_code(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	status, body := h.issue(exchangeForm(h.code()))
	require.Equal(t, 200, status, "%v", body)
	require.Equal(t, "Bearer", body["token_type"])
	require.EqualValues(t, 3600, body["expires_in"])
	require.Equal(t, "read jobs:plan", body["scope"])
	access := body["access_token"].(string)
	caller, grant, err := h.Sessions.AuthenticateFor(t.Context(), access, here, public, resource)
	require.NoError(t, err)
	require.Equal(t, "usr_1", caller.Subject)
	require.Equal(t, session.Grant{Issuer: public, Audience: resource, Scope: "read jobs:plan", ClientID: clientID}, grant)
	_, err = h.Sessions.Authenticate(t.Context(), access, here)
	require.True(t, fault.Is(err, fault.Unauthenticated), "the API rejects the token: %v", err)
	_, err = h.Sessions.Refresh(t.Context(), body["refresh_token"].(string), here)
	require.True(t, fault.Is(err, fault.Unauthenticated), "the refresh route of browsers rejects the token: %v", err)
	require.Equal(t, "oauth Client 192.0.2.7", h.text(`SELECT concat_ws(' ', method, client_name, client_address) FROM session WHERE method = 'oauth'`))
	h.clock.Advance(time.Hour + 11*time.Second)
	require.False(t, h.tokenValid(access))
}

func TestAuthority_rejectsAPITokens(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	opened, err := h.Sessions.Open(t.Context(), session.OpenRequest{AccountID: "usr_1", Method: session.MethodPassword, WithRefresh: true})
	require.NoError(t, err)
	require.False(t, h.tokenValid(opened.Access.Reveal()))
	require.Equal(t, wordGrant, h.refused(refreshForm(opened.Refresh.Reveal())), "a browser's refresh token must be refused")
	status, word := h.revoke(form{"client_id": clientID, "token": opened.Access.Reveal()})
	require.Equal(t, 400, status)
	require.Equal(t, wordTokenType, word, "a token that stays valid is not reported as revoked")
	status, _ = h.revoke(form{"client_id": clientID, "token": opened.Refresh.Reveal()})
	require.Equal(t, 200, status)
	_, err = h.Sessions.Authenticate(t.Context(), opened.Access.Reveal(), here)
	require.NoError(t, err)
}

func TestAuthority_Issue_rejectsBadExchanges(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	code := h.code()
	before := h.text(`SELECT g::text FROM oauth_grant g`)
	other, err := secret.Mint(h.Rand, secret.KindCode)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change form
		want   string
	}{
		"no grant type":       {form{"grant_type": ""}, wordRequest},
		"password":            {form{"grant_type": "password"}, wordGrantType},
		"client credentials":  {form{"grant_type": "client_credentials"}, wordGrantType},
		"no client":           {form{"client_id": ""}, wordClient},
		"an unknown client":   {form{"client_id": "x"}, wordClient},
		"a zero byte":         {form{"client_id": "x\x00"}, wordClient},
		"another client":      {form{"client_id": otherID}, wordGrant},
		"the command line":    {form{"client_id": "signalbox-cli"}, wordUnauthorized},
		"no code":             {form{"code": ""}, wordRequest},
		"another code":        {form{"code": other.Reveal()}, wordGrant},
		"a refresh token":     {form{"code": "rft" + code[3:]}, wordGrant},
		"no verifier":         {form{"code_verifier": ""}, wordRequest},
		"another verifier":    {form{"code_verifier": verifier + "x"}, wordGrant},
		"the challenge":       {form{"code_verifier": challenge(verifier)}, wordGrant},
		"a short verifier":    {form{"code_verifier": "x"}, wordGrant},
		"another redirect":    {form{"redirect_uri": local}, wordGrant},
		"no resource":         {form{"resource": ""}, wordTarget},
		"another resource":    {form{"resource": public}, wordTarget},
		"the API as resource": {form{"resource": "signalbox-api"}, wordTarget},
	} {
		require.Equal(t, c.want, h.refused(with(exchangeForm(code), c.change)), name)
	}
	require.Equal(t, before, h.text(`SELECT g::text FROM oauth_grant g`), "a refused exchange does not use up the code")
	require.True(t, h.tokenValid(h.tokens(with(exchangeForm(code), form{"redirect_uri": ""})).access), "OAuth 2.1 does not require redirect_uri here")
}

func TestAuthority_Issue_codeExpiry(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	last, late := h.code(), h.code()
	h.clock.Advance(CodeTTL - time.Microsecond)
	h.tokens(exchangeForm(last))
	h.clock.Advance(time.Microsecond)
	require.Equal(t, wordGrant, h.refused(exchangeForm(late)))
}

func TestAuthority_Issue_codeReplay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]form{
		"unchanged": {}, "of another client": {"client_id": otherID}, "without its verifier": {"code_verifier": "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			code := h.code()
			first := h.tokens(exchangeForm(code))
			second := h.tokens(refreshForm(first.refresh))
			require.True(t, h.tokenValid(first.access))
			h.clock.Advance(CodeTTL)
			require.Equal(t, wordGrant, h.refused(with(exchangeForm(code), change)))
			require.False(t, h.tokenValid(first.access))
			require.False(t, h.tokenValid(second.access))
			require.Equal(t, wordGrant, h.refused(refreshForm(second.refresh)))
			require.Equal(t, wordGrant, h.refused(exchangeForm(code)))
			require.Equal(t, []string{"oauth.approve usr_1", "oauth.revoke usr_1"}, h.audits(), "the revocation is recorded once")
			require.Equal(t, "replay reuse", h.text(`SELECT g.revoked_reason || ' ' || s.revoked_reason FROM oauth_grant g JOIN session s ON s.id = g.session_id`))
		})
	}
}

func TestAuthority_Issue_concurrentExchanges(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	code := h.code()
	given := make(chan string, 4)
	var refusals atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			switch tokens, err := h.Issue(t.Context(), exchangeForm(code), here); {
			case err == nil:
				given <- tokens.Access.Reveal()
			case fault.From(err).OAuth == wordGrant:
				refusals.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 3, refusals.Load())
	require.False(t, h.tokenValid(<-given), "one exchange got tokens; the repeated use of the code revoked them")
	require.Equal(t, "1", h.text(`SELECT count(*)::text FROM session WHERE method = 'oauth'`))
}

func TestAuthority_Issue_userMayNotSignIn(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"disabled":       `UPDATE account SET disabled_at = now()`,
		"a raised epoch": `UPDATE account SET epoch = epoch + 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			code, pair := h.code(), h.tokens(exchangeForm(h.code()))
			h.exec(sql)
			require.Equal(t, wordGrant, h.refused(exchangeForm(code)))
			require.Equal(t, wordGrant, h.refused(refreshForm(pair.refresh)))
			require.False(t, h.tokenValid(pair.access))
		})
	}
}
