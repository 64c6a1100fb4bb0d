package identity

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// oidcBrowser is a person's browser. It has cookies, follows redirects and stores the access token of its
// pages.
type oidcBrowser struct {
	t     *testing.T
	base  string
	http  *http.Client
	token string
	// callback is the last URL to which the provider redirected the browser.
	callback string
}

func newOIDCBrowser(t *testing.T, base string) *oidcBrowser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	b := &oidcBrowser{t: t, base: base, http: &http.Client{Jar: jar, Timeout: time.Minute}}
	b.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return b
}

// oidcResponse is a response whose body has been read.
type oidcResponse struct {
	status   int
	body     string
	location string
}

func (b *oidcBrowser) do(method, address, body string) oidcResponse {
	b.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = b.base + address
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(body))
	require.NoError(b.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet {
		r.Header.Set("Origin", b.base)
	}
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	got, err := b.http.Do(r)
	require.NoError(b.t, err)
	defer got.Body.Close() //nolint:errcheck // the body is only read
	text, err := io.ReadAll(got.Body)
	require.NoError(b.t, err)
	a := oidcResponse{status: got.StatusCode, body: string(text)}
	if at, err := got.Location(); err == nil {
		a.location = at.String()
	}
	return a
}

// visit signs in with the provider as the person and follows the redirects to the installation's callback.
func (b *oidcBrowser) visit(person string) oidcResponse {
	b.t.Helper()
	b.token = ""
	a := b.do(http.MethodGet, "/api/auth/oidc/start?next=/device", "")
	if a.status != http.StatusFound {
		return a
	}
	a.location += "&login_hint=" + person
	for range 12 {
		if strings.HasPrefix(a.location, b.base+"/auth/callback") {
			b.callback = a.location
			return b.do(http.MethodGet, a.location, "")
		}
		a = b.do(http.MethodGet, a.location, "")
		require.NotEmpty(b.t, a.location, "the provider did not redirect: %d %s", a.status, a.body)
	}
	require.FailNow(b.t, "the provider redirects too often")
	return a
}

// signIn is like visit, but the sign-in must succeed. It then exchanges the cookie for an access token.
func (b *oidcBrowser) signIn(person string) oidcMe {
	b.t.Helper()
	a := b.visit(person)
	require.Equal(b.t, http.StatusSeeOther, a.status, a.body)
	require.Equal(b.t, b.base+"/device", a.location, "the redirect must lead to the page that the person requested")
	a = b.do(http.MethodPost, "/api/auth/refresh", "")
	require.Equal(b.t, http.StatusOK, a.status, a.body)
	var session struct {
		Token string `json:"token"`
	}
	require.NoError(b.t, json.Unmarshal([]byte(a.body), &session))
	b.token = session.Token
	return b.me()
}

// oidcMe is the response of /api/auth/me.
type oidcMe struct {
	Username string   `json:"username"`
	Role     string   `json:"role"`
	Email    *string  `json:"email"`
	Teams    []string `json:"teams"`
}

func (b *oidcBrowser) me() (m oidcMe) {
	b.t.Helper()
	a := b.do(http.MethodGet, "/api/auth/me", "")
	require.Equal(b.t, http.StatusOK, a.status, a.body)
	require.NoError(b.t, json.Unmarshal([]byte(a.body), &m))
	return m
}
