package oauth

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestAuthority_Decide_approval(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	query := h.decide(authorizationRequest())
	require.Equal(t, "s t&te", query.Get("state"))
	require.Equal(t, secret.KindCode, secret.Kind(query.Get("code")))
	require.Empty(t, query.Get("error"))
	var stored []byte
	require.NoError(t, h.Pool.QueryRow(t.Context(), `SELECT code_hash FROM oauth_grant`).Scan(&stored))
	require.Equal(t, secret.Hash(query.Get("code")), stored)
	require.NotContains(t, h.text(`SELECT g::text FROM oauth_grant g`), query.Get("code"))
	require.Equal(t, []string{"oauth.approve usr_1"}, h.audits())
	require.Equal(t, "0", h.text(`SELECT count(*)::text FROM session WHERE method = 'oauth'`), "an approval opens no session itself")
}

func TestAuthority_Decide_rejectsDeviceSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx, c := h.person()
	for _, method := range []string{"device", "oauth"} {
		h.exec(`UPDATE session SET method = $1 WHERE id = 'ses_1'`, method)
		_, err := h.Decide(ctx, c, authorizationRequest())
		require.True(t, fault.Is(err, fault.Forbidden), "%s: %v", method, err)
		require.Equal(t, wordDenied, h.decide(authorizationRequest(func(a *AuthorizationRequest) { a.Approve = false })).Get("error"), "a device session may deny a request")
	}
	require.Equal(t, "0", h.text(`SELECT count(*)::text FROM oauth_grant`))
}

func TestAuthority_Decide_errorsForClient(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for name, c := range map[string]struct {
		change func(*AuthorizationRequest)
		want   string
	}{
		"denied":             {func(a *AuthorizationRequest) { a.Approve = false }, wordDenied},
		"response_type":      {func(a *AuthorizationRequest) { a.ResponseType = "token" }, wordResponseType},
		"code and token":     {func(a *AuthorizationRequest) { a.ResponseType = "code token" }, wordResponseType},
		"no PKCE":            {func(a *AuthorizationRequest) { a.Challenge, a.Method = "", "" }, wordRequest},
		"plain":              {func(a *AuthorizationRequest) { a.Challenge, a.Method = verifier[:43], "plain" }, wordRequest},
		"no method":          {func(a *AuthorizationRequest) { a.Method = "" }, wordRequest},
		"another method":     {func(a *AuthorizationRequest) { a.Method = "s256" }, wordRequest},
		"a short challenge":  {func(a *AuthorizationRequest) { a.Challenge = a.Challenge[1:] }, wordRequest},
		"a padded challenge": {func(a *AuthorizationRequest) { a.Challenge = a.Challenge[1:] + "=" }, wordRequest},
		"no resource":        {func(a *AuthorizationRequest) { a.Resource = "" }, wordTarget},
		"the API":            {func(a *AuthorizationRequest) { a.Resource = public + "/api" }, wordTarget},
		"trailing slash":     {func(a *AuthorizationRequest) { a.Resource += "/" }, wordTarget},
		"another host":       {func(a *AuthorizationRequest) { a.Resource = "https://evil.example/api/mcp" }, wordTarget},
		"an unknown scope":   {func(a *AuthorizationRequest) { a.Scope = "read admin" }, wordScope},
	} {
		query := h.decide(authorizationRequest(c.change))
		require.Equal(t, c.want, query.Get("error"), name)
		require.NotEmpty(t, query.Get("error_description"), name)
		require.Equal(t, "s t&te", query.Get("state"), name)
		require.Empty(t, query.Get("code"), name)
	}
	require.Equal(t, "0", h.text(`SELECT count(*)::text FROM oauth_grant`))
	require.Equal(t, []string{"oauth.deny usr_1"}, h.audits())
}

func TestAuthority_Decide_untrustedClientOrRedirect(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx, c := h.person()
	for name, change := range map[string]func(*AuthorizationRequest){
		"unknown client":    func(a *AuthorizationRequest) { a.ClientID = "https://evil.example/metadata" },
		"zero byte":         func(a *AuthorizationRequest) { a.ClientID = "a\x00b" },
		"no client":         func(a *AuthorizationRequest) { a.ClientID = "" },
		"the device flow":   func(a *AuthorizationRequest) { a.ClientID = "signalbox-cli" },
		"another host":      func(a *AuthorizationRequest) { a.Redirect = "https://evil.example/cb" },
		"a longer path":     func(a *AuthorizationRequest) { a.Redirect += "/x" },
		"a query":           func(a *AuthorizationRequest) { a.Redirect += "?x=1" },
		"no address":        func(a *AuthorizationRequest) { a.Redirect = "" },
		"of another client": func(a *AuthorizationRequest) { a.ClientID, a.Redirect = otherID, local },
	} {
		in := authorizationRequest(change)
		in.Approve = false
		_, err := h.Decide(ctx, c, in)
		require.True(t, fault.Is(err, fault.Refused), "%s: %v", name, err)
		require.NotEmpty(t, fault.From(err).OAuth, name)
	}
	require.Empty(t, h.audits())
}

func TestRedirects_registeredAddressesOnly(t *testing.T) {
	t.Parallel()
	registered := []string{"https://client.example/cb?a=1", "http://127.0.0.1/cb", "http://[::1]:7000/cb", "http://localhost:1/cb?x"}
	for given, want := range map[string]bool{
		"https://client.example/cb?a=1":       true,
		"https://client.example/cb":           false,
		"https://client.example:443/cb?a=1":   false,
		"https://client.example:8443/cb?a=1":  false,
		"HTTPS://client.example/cb?a=1":       false,
		"https://CLIENT.example/cb?a=1":       false,
		"https://client.example/cb?a=1#x":     false,
		"https://client.example/x/../cb?a=1":  false,
		"http://127.0.0.1/cb":                 true,
		"http://127.0.0.1:51000/cb":           true,
		"http://127.0.0.1:51000/cb/":          false,
		"http://127.0.0.1:51000/cb?x=1":       false,
		"http://127.0.0.1:51000/cb#x":         false,
		"http://127.0.0.1:/cb":                false,
		"http://127.0.0.1:x/cb":               false,
		"https://127.0.0.1:51000/cb":          false,
		"http://127.0.0.2:51000/cb":           false,
		"http://127.1:51000/cb":               false,
		"http://u@127.0.0.1:51000/cb":         false,
		"http://127.0.0.1:80@evil.example/cb": false,
		"http://127.0.0.1.evil.example/cb":    false,
		"http://[::1]/cb":                     true,
		"http://[::1]:9/cb":                   true,
		"http://localhost:51000/cb?x":         true,
		"http://localhost:51000/cb":           false,
		"http://localhost.evil.example/cb?x":  false,
		"javascript:alert(1)":                 false,
		"":                                    false,
	} {
		require.Equal(t, want, redirects(registered, given), given)
	}
}

func TestAuthority_Decide_keepsRedirectQuery(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.Clients.Register(t.Context(), Client{ID: "q", Name: "Q", Redirects: []string{"https://q.example/cb?z=%20&a=b+c"}}))
	ctx, c := h.person()
	to, err := h.Decide(ctx, c, authorizationRequest(func(a *AuthorizationRequest) {
		a.ClientID, a.Redirect, a.State = "q", "https://q.example/cb?z=%20&a=b+c", nil
	}))
	require.NoError(t, err)
	require.Regexp(t, `^https://q\.example/cb\?z=%20&a=b\+c&code=acd_[0-9A-Za-z]{49}&iss=https%3A%2F%2Fsignalbox\.example$`, to)
}

func TestClients_Register(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for name, c := range map[string]Client{
		"nothing": {}, "no name": {ID: "a", Redirects: []string{redirect}}, "no address": {ID: "a", Name: "A"},
		"the built-in one": {ID: "signalbox-cli", Name: "A", Redirects: []string{redirect}},
		"the device flow":  {ID: "a", Name: "A", Redirects: []string{redirect}, Device: true},
		"plain http":       {ID: "a", Name: "A", Redirects: []string{"http://client.example/cb"}},
		"a fragment":       {ID: "a", Name: "A", Redirects: []string{redirect + "#"}},
		"a user":           {ID: "a", Name: "A", Redirects: []string{"https://u:p@client.example/cb"}},
		"a script":         {ID: "a", Name: "A", Redirects: []string{"javascript:alert(1)"}},
		"a scheme":         {ID: "a", Name: "A", Redirects: []string{"com.example:/cb"}},
		"no host":          {ID: "a", Name: "A", Redirects: []string{"https:///cb"}},
		"one bad of two":   {ID: "a", Name: "A", Redirects: []string{redirect, "%"}},
	} {
		require.Error(t, h.Clients.Register(t.Context(), c), name)
	}
	require.NoError(t, h.Clients.Register(t.Context(), Client{ID: clientID, Name: "Renamed", Redirects: []string{local}}))
	c, err := h.Clients.find(t.Context(), clientID)
	require.NoError(t, err)
	require.Equal(t, Client{ID: clientID, Name: "Renamed", Redirects: []string{local}}, c)
}

func TestScopes_order(t *testing.T) {
	t.Parallel()
	for requested, want := range map[string]string{
		"": "read", " ": "read", "read": "read", "jobs:control read jobs:plan read": "read jobs:plan jobs:control",
	} {
		got, err := scopes(requested, Scopes())
		require.NoError(t, err)
		require.Equal(t, want, got, requested)
	}
}
