package webpage

import (
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestLoginPageShowsConfiguredMethods(t *testing.T) {
	t.Parallel()
	const form, button = `id="password-form"`, `Sign in with `
	for name, tc := range map[string]struct {
		config        *authv1.AuthConfig
		form, button  bool
		text, exclude string
	}{
		"password": {&authv1.AuthConfig{Methods: []string{"password"}}, true, false, `type="password"`, "No sign-in method"},
		"provider": {
			&authv1.AuthConfig{Methods: []string{"oidc"}, Oidc: &authv1.OidcConfig{Name: "Acme <b>", Issuer: "https://i.example"}}, false, true,
			`href="/api/auth/oidc/start?next=%2fjobs%3fa%3db%26c">Sign in with Acme &lt;b&gt;`, `type="password"`,
		},
		"no name": {&authv1.AuthConfig{Methods: []string{"oidc"}, Oidc: &authv1.OidcConfig{Issuer: "https://i.example"}}, false, true, `Sign in with https://i.example`, "No sign-in method"},
		"unnamed": {&authv1.AuthConfig{Methods: []string{"oidc"}}, false, true, `Sign in with your provider`, "No sign-in method"},
		"both":    {&authv1.AuthConfig{Methods: []string{"password", "oidc"}, Oidc: &authv1.OidcConfig{Name: "Acme"}}, true, true, `class="or"`, "No sign-in method"},
		"none":    {&authv1.AuthConfig{}, false, false, "No sign-in method is configured", form},
		"unknown": {&authv1.AuthConfig{Methods: []string{"passkey"}}, false, false, "No sign-in method is configured", form},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, true)
			h.config = tc.config
			got := h.get("/login?next=/jobs%3Fa%3Db%26c")
			require.Equal(t, http.StatusOK, got.Code)
			body := got.Body.String()
			require.Equal(t, tc.form, strings.Contains(body, form))
			require.Equal(t, tc.button, strings.Contains(body, button))
			require.Contains(t, body, tc.text)
			require.NotContains(t, body, tc.exclude)
			require.Contains(t, body, `data-next="/jobs?a=b&amp;c"`)
		})
	}
}

func TestPageFormsUsePOST(t *testing.T) {
	t.Parallel()
	body := newHarness(t, true).get("/login").Body.String()
	require.Contains(t, body, `<form id="password-form" method="post"`, "without its script the form would otherwise send the password in a GET")
	require.Contains(t, newHarness(t, true).get("/device").Body.String(), `<form id="code-form" method="post"`)
}

func TestDevicePagePrefillsCode(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"": "", "?user_code=WDJB-MJHT": "WDJB-MJHT", "?user_code=wdjbmjht": "WDJBMJHT", "?user_code=": "", "?user_code=%22%3E%3Cscript%3E": "",
		"?user_code=A/../B": "", "?user_code=" + strings.Repeat("A", 17): "", "?user_code=a%0ab": "", "?other=WDJB-MJHT": "",
	} {
		got := newHarness(t, true).get("/device" + query)
		require.Equal(t, http.StatusOK, got.Code)
		require.Contains(t, got.Body.String(), `data-code="`+want+`"`, query)
		require.NotContains(t, got.Body.String(), "<script>", query)
	}
}

func TestPageContentSecurityPolicy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	h.failed = fault.New(fault.Unavailable, "", "auth is unreachable")
	for _, target := range []string{"/device", "/login", "/auth/callback", "/pages/none.css"} {
		got := h.get(target)
		policy := got.Header().Get("Content-Security-Policy")
		for _, rule := range []string{
			"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
			"require-trusted-types-for 'script'",
		} {
			require.Contains(t, strings.Split(policy, "; "), rule, target)
		}
		require.NotContains(t, policy, "unsafe")
		require.Equal(t, "same-origin", got.Header().Get("Cross-Origin-Opener-Policy"))
		require.Equal(t, "text/html; charset=utf-8", got.Header().Get("Content-Type"))
	}
}

func TestPagesHaveNoInlineCode(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	h.config.Methods = append(h.config.Methods, "oidc")
	for _, target := range []string{"/login", "/device", "/auth/callback"} {
		body := h.get(target).Body.String()
		for _, tag := range regexp.MustCompile(`<[^>]+>`).FindAllString(body, -1) {
			require.NotRegexp(t, `(?i)\s(on[a-z]+|style)\s*=|javascript:`, tag, target)
			require.NotRegexp(t, `(?i)^<style`, tag, target)
			if strings.HasPrefix(tag, "<script") {
				require.Regexp(t, `^<script src="/pages/[a-z]+\.[0-9a-f]{12}\.js" defer>$`, tag)
			}
		}
		for _, at := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			require.Regexp(t, `^/([a-z]|$)`, at[1], "no file is loaded from another host")
		}
	}
}

// Scripts must not turn text into markup and must not store data that outlives the page.
func TestScriptsUseNoStorageOrMarkup(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(content, "asset/*.js")
	require.NoError(t, err)
	require.Len(t, names, 2)
	for _, name := range names {
		text, err := fs.ReadFile(content, name)
		require.NoError(t, err)
		require.NotRegexp(t, `localStorage|sessionStorage|indexedDB|document\.cookie|caches\.|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|https?://`, string(text), name)
	}
}

func TestAssetsCachedByContentHash(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	types := map[string]string{"login.js": "text/javascript", "device.js": "text/javascript", "page.css": "text/css", "icon.svg": "image/svg+xml"}
	require.Len(t, h.pages.assets, len(types))
	for name, typ := range types {
		at, err := h.pages.assets.path(name)
		require.NoError(t, err)
		got := h.get(at)
		require.Equal(t, http.StatusOK, got.Code, at)
		require.Equal(t, typ+"; charset=utf-8", got.Header().Get("Content-Type"))
		require.Equal(t, "public, max-age=31536000, immutable", got.Header().Get("Cache-Control"))
		base, ext, _ := strings.Cut(name, ".")
		older := h.get("/pages/" + base + ".0123456789ab." + ext)
		require.Equal(t, got.Body.String(), older.Body.String(), "a page of another version may request it")
		require.Empty(t, older.Header().Get("Cache-Control"), "a file with another hash must not be cached")
		for _, absent := range []string{name, base, base + "..", base + "." + ext + ".0123456789ab", "x.0123456789ab.js", "." + ext, "html", "page.go"} {
			require.Equal(t, http.StatusNotFound, h.get("/pages/"+absent).Code, absent)
		}
	}
	_, err := h.pages.assets.path("other.js")
	require.Error(t, err, "a page cannot name a file that does not exist")
}

func TestErrorPageOrJSON(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	h.failed = fault.New(fault.Unavailable, "", "auth is <away>")
	got := h.get("/login")
	require.Equal(t, http.StatusServiceUnavailable, got.Code)
	require.Contains(t, got.Body.String(), "Auth is &lt;away&gt;.")
	require.NotEmpty(t, got.Header().Get("Retry-After"))
	got = h.get("/login", "Accept", "application/json")
	require.Equal(t, http.StatusServiceUnavailable, got.Code)
	require.JSONEq(t, `{"detail":"auth is <away>"}`, got.Body.String())
	h.failed = fault.New(fault.Internal, "", "s3cret inside")
	require.NotContains(t, h.get("/login").Body.String(), "s3cret")
}
