package session

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

var mcp = Grant{Issuer: "https://signalbox.example", Audience: "https://signalbox.example/api/mcp", Scope: "runs:read", ClientID: "cli_1"}

// open opens a session of ann with this method. A session with MethodOAuth is for the grant mcp.
func (h *harness) open(m Method) Tokens {
	h.t.Helper()
	r := OpenRequest{AccountID: userID, Method: m, ClientAddress: "192.0.2.7", ClientName: "a program", WithRefresh: m == MethodOIDC}
	if m == MethodOAuth {
		r.Grant = &mcp
	}
	tokens, err := h.Open(h.t.Context(), r)
	require.NoError(h.t, err)
	return tokens
}

func TestSessions_Open_eachMethod(t *testing.T) {
	t.Parallel()
	for method, want := range map[Method]struct {
		refresh bool
		lives   time.Duration
	}{
		MethodPassword: {false, 8 * time.Hour}, MethodOIDC: {true, 8 * time.Hour}, MethodDevice: {false, 8 * time.Hour}, MethodOAuth: {false, time.Hour},
	} {
		h := newHarness(t)
		tokens := h.open(method)
		require.Equal(t, want.refresh, !tokens.Refresh.IsZero(), method)
		require.Equal(t, want.lives, tokens.ExpiresIn, method)
		require.Equal(t, []string{"ann", "operator", userID}, []string{tokens.Username, tokens.Role, tokens.AccountID})
		require.Equal(t, []string{"session.open"}, h.audits())
		list, more, err := h.List(t.Context(), userID, request.Page{Limit: 10})
		require.NoError(t, err)
		require.False(t, more)
		now := h.clock.Now()
		require.Equal(t, []Info{{
			ID: tokens.SessionID, Method: method, ClientAddress: "192.0.2.7", ClientName: new("a program"), CreatedAt: now, LastUsedAt: now,
		}}, list)
		h.clock.Advance(want.lives)
		list, _, err = h.List(t.Context(), userID, request.Page{Limit: 10})
		require.NoError(t, err)
		require.Equal(t, want.refresh, len(list) == 1, "%s: a session is listed until its last token expires", method)
	}
}

func TestSessions_Open_unknownOrDisabledAccount(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`INSERT INTO account (id, username, role, password_hash, created_at, disabled_at) VALUES ('usr_2', 'bob', 'operator', '', now(), now())`)
	for _, account := range []string{"usr_2", "usr_3", ""} {
		tokens, err := h.Open(t.Context(), OpenRequest{AccountID: account, Method: MethodDevice, WithRefresh: true})
		require.ErrorIs(t, err, ErrAccountUnusable, account)
		require.Zero(t, tokens)
	}
	require.Zero(t, h.count("session"))
	require.Empty(t, h.audits())
}

func TestSessions_OpenTx_rollback(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var tokens Tokens
	err := pg.InTx(t.Context(), h.Pool, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		tokens, err = h.OpenTx(ctx, tx, OpenRequest{AccountID: userID, Method: MethodDevice})
		require.NoError(t, err)
		return pgx.ErrTxClosed
	})
	require.ErrorIs(t, err, pgx.ErrTxClosed)
	_, err = h.authenticate(tokens.Access)
	h.refused(err)
	require.Zero(t, h.count("session"))
	require.Empty(t, h.audits())
}

func TestSessions_AuthenticateFor_separatesGrantAndAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	granted, api := h.open(MethodOAuth), h.open(MethodDevice)
	for name, tc := range map[string]struct {
		token            secret.String
		issuer, audience string
		ok               bool
	}{
		"own token":               {granted.Access, mcp.Issuer, mcp.Audience, true},
		"another resource":        {granted.Access, mcp.Issuer, "https://signalbox.example/api/other", false},
		"another issuer":          {granted.Access, "https://other.example", mcp.Audience, false},
		"no resource":             {granted.Access, "", "", false},
		"API token":               {api.Access, mcp.Issuer, mcp.Audience, false},
		"API token, API audience": {api.Access, apiIssuer, apiAudience, false},
		"no token":                {secret.String{}, mcp.Issuer, mcp.Audience, false},
	} {
		c, g, err := h.AuthenticateFor(t.Context(), tc.token.Reveal(), "192.0.2.7", tc.issuer, tc.audience)
		if !tc.ok {
			require.True(t, fault.Is(err, fault.Unauthenticated), "%s: %v", name, err)
			require.Nil(t, c, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, mcp, g)
		require.Equal(t, userID, c.Subject)
	}
	_, err := h.authenticate(granted.Access)
	h.refused(err)
	_, err = h.authenticate(api.Access)
	require.NoError(t, err)
}

func TestSessions_Authenticate_apiTokenOfGrantSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	granted := h.open(MethodOAuth)
	l, err := loadLive(t.Context(), h.Pool, granted.SessionID)
	require.NoError(t, err)
	token, err := h.Access.issue(t.Context(), nil, l, nil, "tok_1")
	require.NoError(t, err)
	_, err = h.authenticate(token)
	h.refused(err)
}

func TestSessions_Open_invalidGrant(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for name, g := range map[string]Grant{
		"no issuer": {Audience: "a"}, "no audience": {Issuer: "i"}, "API audience": {Issuer: "i", Audience: apiAudience}, "API issuer": {Issuer: apiIssuer, Audience: "a"},
	} {
		_, err := h.Open(t.Context(), OpenRequest{AccountID: userID, Method: MethodOAuth, Grant: &g})
		require.Error(t, err, name)
	}
	require.Zero(t, h.count("session"))
}

func TestSessions_IssueFor_extendsSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first := h.open(MethodOAuth)
	h.clock.Advance(GrantTTL - time.Minute)
	second, err := h.IssueFor(t.Context(), h.Pool, first.SessionID, mcp)
	require.NoError(t, err)
	require.Equal(t, first.SessionID, second.SessionID)
	h.clock.Advance(2 * time.Minute)
	authenticates := func(token secret.String) bool {
		_, _, err := h.AuthenticateFor(t.Context(), token.Reveal(), "", mcp.Issuer, mcp.Audience)
		return err == nil
	}
	require.False(t, authenticates(first.Access))
	require.True(t, authenticates(second.Access))
	list, _, err := h.List(t.Context(), userID, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1)
	h.exec(`UPDATE session SET revoked_at = now(), revoked_reason = 'user'`)
	require.False(t, authenticates(second.Access))
	_, err = h.IssueFor(t.Context(), h.Pool, first.SessionID, mcp)
	require.ErrorIs(t, err, ErrAccountUnusable)
}
