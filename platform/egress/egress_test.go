package egress_test

import (
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/egress"
)

// target is a server that an attacker wants to reach. It counts connections, not requests.
type target struct {
	*httptest.Server

	connections atomic.Int64
	port        string
}

func newTarget(t *testing.T, listen string, handler http.HandlerFunc) *target {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", listen)
	require.NoError(t, err)
	s := &target{}
	s.Server = &httptest.Server{Listener: l, Config: &http.Server{
		Handler: handler, ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.connections.Add(1)
			}
		},
	}}
	s.Start()
	t.Cleanup(s.Close)
	_, s.port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return s
}

func fine(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") }

func networks(t *testing.T, list ...string) egress.Networks {
	t.Helper()
	n, err := (&egress.Config{Allow: list}).Networks()
	require.NoError(t, err)
	return n
}

func get(t *testing.T, c *http.Client, address string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// spellings returns addresses of this machine in different notations, and other addresses that are not public.
func spellings() []string {
	return []string{
		"127.0.0.1", "127.1", "127.0.1", "127.000.000.001", "0177.0.0.1", "0177.1", "0x7f.0.0.1", "0x7f.1", "0x7f000001",
		"2130706433", "017700000001", "0", "0.0.0.0", "00000000", "0x0", "127.0.0.2", "127.255.255.254", "127.0.0.1.",
		"127。0。0。1", "127%2e0%2e0%2e1", "①②⑦.⓪.⓪.①", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "loc\u00adalhost", "localhost", "LOCALHOST", "localhost.",
		"[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:0:127.0.0.1]", "[::127.0.0.1]",
		"[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]",
		"[fe80::1]", "[fe80::1%25lo]", "[::1%25lo]", "[fd00:ec2::254]", "[fc00::1]", "[ff02::1]", "[2001:db8::1]",
		"169.254.169.254", "169.254.170.2", "0xa9fea9fe", "2852039166", "[::ffff:169.254.169.254]", "100.100.100.200",
		"168.63.129.16", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255",
		"240.0.0.1", "192.0.0.192", "192.0.2.1", "203.0.113.1", "a@127.0.0.1", "a:b@127.0.0.1", "example.com@127.0.0.1",
		"127.0.0.1\\@example.com", "example.com\\@127.0.0.1", "127.0.0.1\t", "127.0.0.1 ", "", ".", "..", "metadata.google.internal",
	}
}

func TestClient_rejectsLocalAddressSpellings(t *testing.T) {
	t.Parallel()
	hidden := newTarget(t, "127.0.0.1:0", fine)
	names := newNameserver(t, "127.0.0.1")
	// The resolver returns 127.0.0.1 for every name, so that names also reach the check at dial time.
	c := egress.New(egress.Options{Timeout: 5 * time.Second, Resolver: names.Resolver})
	tried := 0
	for _, host := range spellings() {
		for _, scheme := range []string{"http", "https"} {
			_, err := get(t, c, scheme+"://"+host+":"+hidden.port+"/")
			require.Error(t, err, "%s://%s", scheme, host)
			tried++
		}
	}
	for _, address := range []string{
		"gopher://127.0.0.1:PORT/_GET%20/", "ftp://127.0.0.1:PORT/", "file:///etc/passwd", "dict://127.0.0.1:PORT/", "ws://127.0.0.1:PORT/",
		"//127.0.0.1:PORT/", "http:127.0.0.1:PORT", "http:/127.0.0.1:PORT/", "HTTP://127.0.0.1:PORT/", "unix:///run/docker.sock",
	} {
		_, err := get(t, c, strings.ReplaceAll(address, "PORT", hidden.port))
		require.ErrorIs(t, err, egress.ErrRefused, address)
		tried++
	}
	require.Zero(t, hidden.connections.Load())
	t.Logf("%d addresses", tried)
	require.GreaterOrEqual(t, tried, 120)
	open := egress.New(egress.Options{Networks: networks(t, "127.0.0.1")})
	body, err := get(t, open, hidden.URL)
	require.NoError(t, err, "an allowed call must reach the target and be counted")
	require.Equal(t, "fine", body)
	require.EqualValues(t, 1, hidden.connections.Load())
}

func TestClient_rejectsNameOfPrivateAddress(t *testing.T) {
	t.Parallel()
	hidden := newTarget(t, "127.0.0.1:0", fine)
	for _, inside := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0"} {
		c := egress.New(egress.Options{Resolver: newNameserver(t, inside).Resolver, Timeout: 5 * time.Second})
		for _, scheme := range []string{"http", "https"} {
			_, err := get(t, c, scheme+"://inside.example.com:"+hidden.port)
			require.ErrorIs(t, err, egress.ErrRefused, inside)
			require.NotContains(t, err.Error(), "lookup", "the name must be resolved, then rejected")
		}
	}
	require.Zero(t, hidden.connections.Load())
}

func TestClient_dnsRebinding(t *testing.T) {
	t.Parallel()
	shown := newTarget(t, "127.0.0.2:0", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		fine(w, r)
	})
	hidden := newTarget(t, "127.0.0.1:"+shown.port, fine)
	names := newNameserver(t, "127.0.0.2", "127.0.0.1")
	c := egress.New(egress.Options{Networks: networks(t, "127.0.0.2/32"), Resolver: names.Resolver})
	reached := 0
	for range 20 {
		body, err := get(t, c, "http://rebind.example.com:"+shown.port)
		if err == nil {
			require.Equal(t, "fine", body)
			reached++
			continue
		}
		require.ErrorIs(t, err, egress.ErrRefused)
	}
	require.Equal(t, 10, reached, "every second DNS response is the allowed address")
	require.Zero(t, hidden.connections.Load())
}

func TestClient_redirects(t *testing.T) {
	t.Parallel()
	hidden := newTarget(t, "127.0.0.1:0", fine)
	shown := newTarget(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fine" {
			fine(w, r)
			return
		}
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	})
	c := egress.New(egress.Options{Networks: networks(t, "127.0.0.1/32")})
	for _, to := range []string{
		hidden.URL, "https://127.0.0.1:" + shown.port + "/fine", "http://127.1:" + hidden.port, "http://localhost:" + shown.port + "/fine",
		"gopher://127.0.0.1:" + hidden.port, "http://a@127.0.0.1:" + shown.port + "/fine", "//127.0.0.1:" + hidden.port,
	} {
		_, err := get(t, c, shown.URL+"/?to="+url.QueryEscape(to))
		require.ErrorIs(t, err, egress.ErrRefused, to)
	}
	body, err := get(t, c, shown.URL+"/?to=/fine")
	require.NoError(t, err)
	require.Equal(t, "fine", body)
	loop := newTarget(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	_, err = get(t, c, loop.URL)
	require.ErrorIs(t, err, egress.ErrRefused)
	require.Zero(t, hidden.connections.Load())
}

func TestClient_ignoresProxyEnvironment(t *testing.T) {
	proxy := newTarget(t, "127.0.0.1:0", fine)
	shown := newTarget(t, "127.0.0.2:0", fine)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	c := egress.New(egress.Options{Networks: networks(t, "127.0.0.0/8"), Resolver: newNameserver(t, "127.0.0.2").Resolver})
	_, err := get(t, c, "http://shown.example.com:"+shown.port)
	require.NoError(t, err)
	require.Zero(t, proxy.connections.Load())
	require.EqualValues(t, 1, shown.connections.Load())
}

func TestClient_limitsResponse(t *testing.T) {
	t.Parallel()
	s := newTarget(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/header":
			w.Header().Set("X-Long", strings.Repeat("x", 100<<10))
		case "/slow":
			<-r.Context().Done()
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "not decompressed")
		case "/endless":
			w.WriteHeader(http.StatusOK)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 4096)); err != nil {
					return
				}
			}
		case "/exact":
			_, _ = io.WriteString(w, strings.Repeat("x", 1000))
		default:
			_, _ = io.WriteString(w, strings.Repeat("x", 1001))
		}
	})
	c := egress.New(egress.Options{Networks: networks(t, "127.0.0.1"), Body: 1000, Timeout: time.Minute})
	body, err := get(t, c, s.URL+"/exact")
	require.NoError(t, err)
	require.Len(t, body, 1000)
	_, err = get(t, c, s.URL+"/long")
	require.ErrorIs(t, err, egress.ErrTooLarge)
	body, err = get(t, c, s.URL+"/endless")
	require.ErrorIs(t, err, egress.ErrTooLarge)
	require.Len(t, body, 1000)
	_, err = get(t, c, s.URL+"/header")
	require.ErrorContains(t, err, "header")
	body, err = get(t, c, s.URL+"/gzip")
	require.NoError(t, err)
	require.Equal(t, "not decompressed", body)
	quick := egress.New(egress.Options{Networks: networks(t, "127.0.0.1"), Timeout: 50 * time.Millisecond})
	_, err = get(t, quick, s.URL+"/slow")
	var limit net.Error
	require.ErrorAs(t, err, &limit)
	require.True(t, limit.Timeout(), err)
}

func TestClient_verifiesCertificate(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(fine))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	_, err := get(t, egress.New(egress.Options{Networks: networks(t, "127.0.0.1")}), s.URL)
	require.ErrorContains(t, err, "certificate")
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	n := egress.NewNetworks(netip.MustParsePrefix("127.0.0.1/32")).WithRoots(roots)
	body, err := get(t, egress.New(egress.Options{Networks: n}), s.URL)
	require.NoError(t, err)
	require.Equal(t, "fine", body)
}
