package gateway_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
)

func TestRefreshCookieReachesOnlyRefresh(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	cookie := []string{"Cookie", "other=1; service_refresh=rft_x"}

	got := r.do("POST", "/api/auth/refresh", "", cookie...)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, []string{"rft_x"}, r.reached()[0].md.Get("x-service-refresh"))
	require.NotContains(t, got.body, "rft_x")

	require.Equal(t, http.StatusOK, r.do("POST", "/api/auth/login", `{"username":"a","password":"b"}`, cookie...).status)
	require.Empty(t, r.reached()[1].md.Get("x-service-refresh"))
	require.Equal(t, http.StatusUnauthorized, r.do("GET", "/api/jobs", "", cookie...).status)
}

func TestRefreshCookieNameFitsScheme(t *testing.T) {
	t.Parallel()
	plain := start(t, nil)
	secured := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Public.URL = "https://box.example" })
	for name, tc := range map[string]struct {
		r      *harness
		cookie string
		want   int
	}{
		"http":                 {plain, "service_refresh=x", http.StatusOK},
		"http, __Host- cookie": {plain, "__Host-service_refresh=x", http.StatusUnauthorized},
		"http, two":            {plain, "service_refresh=x; service_refresh=y", http.StatusUnauthorized},
		"https":                {secured, "__Host-service_refresh=x", http.StatusOK},
		"https, plain name":    {secured, "service_refresh=x", http.StatusUnauthorized},
		"https, both names":    {secured, "service_refresh=y; __Host-service_refresh=x", http.StatusOK},
	} {
		got := tc.r.do("POST", "/api/auth/refresh", "", "Cookie", tc.cookie)
		require.Equal(t, tc.want, got.status, name)
	}
}

func TestOnlyRefreshCookieIsSet(t *testing.T) {
	t.Parallel()
	good := "service_refresh=rft_x; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict"
	r := start(t, nil)
	r.auth.cookies = []string{"session=evil", good, "__Host-service_refresh=x; Secure", "no cookie"}
	got := r.do("POST", "/api/auth/login", `{"username":"a","password":"b"}`)
	require.Equal(t, []string{good}, got.header.Values("Set-Cookie"))

	failed := r.do("POST", "/api/auth/refresh", "")
	require.Equal(t, http.StatusUnauthorized, failed.status)
	require.Equal(t, []string{"service_refresh=; Max-Age=0; HttpOnly"}, failed.header.Values("Set-Cookie"), "a failed refresh clears the cookie")
}

func TestCrossOriginRequestsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Public.URL = "https://box.example" })
	host := r.url
	cases := map[string]struct {
		headers []string
		want    int
	}{
		"no browser":             {nil, http.StatusOK},
		"same origin":            {[]string{"Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		"address bar":            {[]string{"Sec-Fetch-Site", "none"}, http.StatusOK},
		"same host":              {[]string{"Origin", host}, http.StatusOK},
		"public origin":          {[]string{"Origin", "https://box.example", "Sec-Fetch-Site", "cross-site"}, http.StatusOK},
		"another origin":         {[]string{"Origin", "https://evil.example"}, http.StatusForbidden},
		"another site":           {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, http.StatusForbidden},
		"sibling host":           {[]string{"Sec-Fetch-Site", "same-site", "Origin", "https://x.box.example"}, http.StatusForbidden},
		"null origin":            {[]string{"Origin", "null"}, http.StatusForbidden},
		"public host, no scheme": {[]string{"Origin", "http://box.example"}, http.StatusForbidden},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			headers := append([]string{"Cookie", "__Host-service_refresh=x"}, tc.headers...)
			got := r.do("POST", "/api/auth/refresh", "", headers...)
			require.Equal(t, tc.want, got.status, got.body)
			login := r.do("POST", "/api/auth/login", `{"username":"a","password":"b"}`, tc.headers...)
			require.Equal(t, tc.want, login.status, "a foreign page cannot sign a user in")
			require.Equal(t, http.StatusOK, r.do("GET", "/api/jobs", "", as(userToken, tc.headers...)...).status, "a GET changes nothing and is allowed")
		})
	}
}

// A proxy in front of the gateway may rewrite Host. Then only the browser's Origin header identifies the page.
func TestPublicOriginNormalized(t *testing.T) {
	t.Parallel()
	for public, origin := range map[string]string{
		"https://Box.Example": "https://box.example", "https://box.example:443": "https://box.example", "https://box.example:8443": "https://box.example:8443",
		"http://BOX.example:80": "http://box.example", "http://box.example:443": "http://box.example:443", "https://[2001:DB8::1]:443": "https://[2001:db8::1]",
	} {
		r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Public.URL = public })
		got := r.do("POST", "/api/auth/login", `{"username":"a","password":"b"}`, "Origin", origin)
		require.Equal(t, http.StatusOK, got.status, public)
	}
}

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Public.URL = "https://box.example" })
	for _, got := range []response{
		r.do("GET", "/api/jobs", "", as(userToken)...), r.do("GET", "/api/jobs", ""), r.do("GET", "/nope", ""), r.do("GET", "/healthz", ""),
	} {
		require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
		require.Equal(t, "DENY", got.header.Get("X-Frame-Options"))
		require.Equal(t, "no-referrer", got.header.Get("Referrer-Policy"))
		require.Equal(t, "default-src 'none'; frame-ancestors 'none'", got.header.Get("Content-Security-Policy"))
		require.Equal(t, "max-age=31536000", got.header.Get("Strict-Transport-Security"))
		require.Empty(t, got.header.Get("Access-Control-Allow-Origin"))
	}
	require.Empty(t, start(t, nil).do("GET", "/healthz", "").header.Get("Strict-Transport-Security"))
}

// If the host name of another site resolves to this listener (DNS rebinding), the browser treats the site's page as
// same-origin and lets it send requests and read responses.
func TestForeignHostNamesRefused(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) {
		c.Public.URL, c.AllowedHosts = "https://box.example", []string{"infer.example"}
	})
	status := func(method, path, host string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, http.NoBody)
		require.NoError(t, err)
		req.Host = host
		req.Header.Set("Origin", "http://"+host)
		req.Header.Set("Authorization", "Bearer "+userToken)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	for _, way := range [][2]string{
		{"GET", "/api/jobs"},
		{"POST", "/api/auth/refresh"},
		{"GET", "/login"},
		{"GET", "/api/version"},
		{"GET", "/.well-known/jwks.json"},
		{"POST", "/api/oauth/token"},
		{"POST", "/api/ingest/lifecycle"},
		{"GET", "/inference/dep_1/v1/models"},
		{"GET", "/api/blobs/x"},
		{"OPTIONS", "/api/oauth/token"},
	} {
		seen := len(r.all())
		require.Equal(t, http.StatusForbidden, status(way[0], way[1], "evil.example:8080"), way)
		require.Len(t, r.all(), seen, "no service is called")
		for _, host := range []string{"box.example", "infer.example", "127.0.0.1:8080", "gpu-box"} {
			require.NotEqual(t, http.StatusForbidden, status(way[0], way[1], host), "%s %s", way, host)
		}
	}
	require.Equal(t, http.StatusOK, status("GET", "/healthz", "evil.example"), "health probes may use any name")
}
