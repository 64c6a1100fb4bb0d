package identity

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/oidcprovider"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// signInRetryInterval is the time between two sign-in attempts.
const signInRetryInterval = 200 * time.Millisecond

func oidcGroups(groups ...string) map[string]any {
	return map[string]any{"groups": groups}
}

// startWithOIDC starts a provider and an installation whose users sign in with it.
func startWithOIDC(t *testing.T) (*oidcprovider.Provider, *testenv.Installation) {
	t.Helper()
	p := oidcprovider.New(t)
	ann := oidcGroups("admins")
	ann["preferred_username"], ann["email"], ann["email_verified"] = "ann", "ann@example.com", true
	bob := oidcGroups("staff", "vision-people")
	bob["preferred_username"], bob["email"], bob["email_verified"] = "admin", "bob@example.com", false
	p.SetPeople(oidcprovider.People{"ann": ann, "bob": bob, "guest": oidcGroups("guests")})
	return p, testenv.Single(t, testenv.Options{Env: p.Settings()})
}

// TestOIDC_signIn tests the sign-in with a real provider.
func TestOIDC_signIn(t *testing.T) {
	t.Parallel()
	p, s := startWithOIDC(t)
	ann, bob := newOIDCBrowser(t, s.URL), newOIDCBrowser(t, s.URL)
	t.Run("password login is off", func(t *testing.T) {
		a := ann.do(http.MethodGet, "/api/auth/config", "")
		require.Contains(t, a.body, `"methods":["oidc"]`)
		require.Contains(t, a.body, `"issuer":"`+p.Issuer+`"`)
		require.Contains(t, a.body, `"name":"Company login"`)
		a = ann.do(http.MethodPost, "/api/auth/login", `{"username":"admin","password":"`+s.Password.Reveal()+`"}`)
		require.NotEqual(t, http.StatusOK, a.status)
		require.Contains(t, a.body, "password_login_off")
	})
	t.Run("roles, names and teams come from the provider", func(t *testing.T) {
		me := ann.signIn("ann")
		require.Equal(t, []string{"ann", "admin"}, []string{me.Username, me.Role})
		require.Equal(t, "ann@example.com", *me.Email)
		require.Equal(t, http.StatusOK, ann.do(http.MethodGet, "/api/admin/settings", "").status)
		a := ann.do(http.MethodPost, "/api/teams", `{"key":"vision","name":"Vision"}`)
		require.Less(t, a.status, 300, a.body)
		me = bob.signIn("bob")
		require.Equal(t, "operator", me.Role)
		require.Regexp(t, `^admin-[0-9a-f]{6}$`, me.Username, "an account named admin at the provider must not become the local admin")
		require.Nil(t, me.Email, "an unverified address must be ignored")
		require.Len(t, me.Teams, 1)
		require.Equal(t, http.StatusForbidden, bob.do(http.MethodGet, "/api/admin/settings", "").status)
	})
	t.Run("passwords cannot be set", func(t *testing.T) {
		for path, body := range map[string]string{
			"/api/admin/users": `{"username":"carol","role":"operator"}`, "/api/admin/users/usr_00000000000000000000000000/reset-password": "{}",
		} {
			a := ann.do(http.MethodPost, path, body)
			require.Equal(t, http.StatusNotImplemented, a.status, a.body)
			require.Contains(t, a.body, `"code":"password_login_off"`)
		}
	})
	t.Run("OpenID discovery", func(t *testing.T) {
		a := ann.do(http.MethodGet, "/.well-known/openid-configuration", "")
		require.Equal(t, http.StatusOK, a.status, a.body)
		require.JSONEq(t, ann.do(http.MethodGet, "/.well-known/oauth-authorization-server", "").body, a.body)
		require.Equal(t, http.StatusOK, ann.do(http.MethodHead, "/.well-known/openid-configuration", "").status)
	})
	t.Run("roles follow the groups at the next sign-in", func(t *testing.T) {
		before := bob.me().Username
		p.SetPeople(oidcprovider.People{"ann": oidcGroups("staff"), "bob": oidcGroups("admins")})
		me := bob.signIn("bob")
		require.Equal(t, []string{before, "admin"}, []string{me.Username, me.Role})
		require.Empty(t, me.Teams)
		require.Equal(t, "operator", ann.signIn("ann").Role)
		p.SetPeople(oidcprovider.People{"bob": oidcGroups("staff"), "guest": oidcGroups("guests")})
		require.Equal(t, "admin", bob.signIn("bob").Role, "the last admin who can sign in must stay admin")
	})
	t.Run("sign-in refused", func(t *testing.T) {
		guest := newOIDCBrowser(t, s.URL)
		require.Equal(t, http.StatusForbidden, guest.visit("guest").status)
		require.Equal(t, http.StatusUnauthorized, guest.visit("deny").status)
		require.Equal(t, http.StatusUnauthorized, guest.do(http.MethodPost, "/api/auth/refresh", "").status)
	})
	t.Run("signing out ends the session", func(t *testing.T) {
		a := bob.do(http.MethodPost, "/api/auth/logout", "")
		require.Less(t, a.status, 300, a.body)
		require.Equal(t, http.StatusUnauthorized, bob.do(http.MethodGet, "/api/auth/me", "").status)
		bob.token = ""
		require.Equal(t, http.StatusUnauthorized, bob.do(http.MethodPost, "/api/auth/refresh", "").status)
	})
}

// TestOIDC_callbackValidOnceInOneBrowser uses a valid callback a second time and in another browser. Both
// must fail.
func TestOIDC_callbackValidOnceInOneBrowser(t *testing.T) {
	t.Parallel()
	_, s := startWithOIDC(t)
	ann, eve := newOIDCBrowser(t, s.URL), newOIDCBrowser(t, s.URL)
	ann.signIn("ann")
	require.Equal(t, http.StatusUnauthorized, ann.do(http.MethodGet, ann.callback, "").status, "the callback must be valid only once")
	eve.visit("deny")
	require.Equal(t, http.StatusUnauthorized, eve.do(http.MethodGet, ann.callback, "").status, "the callback must be valid only in the browser that started the sign-in")
	require.Equal(t, http.StatusUnauthorized, eve.do(http.MethodPost, "/api/auth/refresh", "").status)
	requireOIDCStart(t, s)
	require.Equal(t, http.StatusOK, ann.do(http.MethodPost, "/api/auth/refresh", "").status, "the limit must not affect a signed-in user")
}

// requireOIDCStart starts sign-ins without finishing them, until the address has reached its limit of 60 per
// minute.
func requireOIDCStart(t *testing.T, s *testenv.Installation) {
	t.Helper()
	stranger := newOIDCBrowser(t, s.URL)
	for n := 0; ; n++ {
		require.LessOrEqual(t, n, 60)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/auth/oidc/start", nil)
		require.NoError(t, err)
		got, err := stranger.http.Do(r)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		if got.StatusCode == http.StatusFound {
			continue
		}
		require.Equal(t, http.StatusTooManyRequests, got.StatusCode)
		require.Regexp(t, `^([1-9]|[1-5][0-9]|60)$`, got.Header.Get("Retry-After"))
		return
	}
}

// TestOIDC_providerDown stops the provider. Only signing in may fail.
func TestOIDC_providerDown(t *testing.T) {
	t.Parallel()
	p := oidcprovider.New(t)
	p.Stop()
	s := testenv.Single(t, testenv.Options{Env: p.Settings()})
	ann := newOIDCBrowser(t, s.URL)
	a := ann.do(http.MethodGet, "/api/auth/oidc/start", "")
	require.Equal(t, http.StatusBadGateway, a.status, "the installation must start without its provider")
	require.Contains(t, a.body, "sign-in provider cannot be reached")
	require.NotContains(t, a.body, "127.0.0.1", "the error must not contain the provider's address")
	require.Equal(t, http.StatusOK, ann.do(http.MethodGet, "/healthz", "").status)
	p.Restart()
	p.SetPeople(oidcprovider.People{"ann": oidcGroups("admins")})
	require.Eventually(t, func() bool { return ann.visit("ann").status == http.StatusSeeOther }, testenv.StageTimeout, signInRetryInterval)
	p.Stop()
	require.Equal(t, http.StatusOK, ann.do(http.MethodPost, "/api/auth/refresh", "").status, "a session must work without the provider")
	p.Restart()
	p.SetPeople(oidcprovider.People{"ann": oidcGroups("admins")})
	require.Equal(t, "admin", ann.signIn("ann").Role, "sign-in must work although the provider has new keys")
}
