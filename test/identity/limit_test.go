package identity_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// attempts is the maximum number of logins per address and minute in the specification.
const attempts = 10

// replicas starts two more instances of auth, and a gateway for each of the three instances. The gateways trust no
// proxy. It returns the URLs of the gateways.
func replicas(t *testing.T, s *testenv.Installation) []string {
	t.Helper()
	peers := s.Processes["gateway"].Setting("SERVICE_PEERS")
	auths := []string{addressOf(t, peers, "auth")}
	for n := range 2 {
		addr := s.FreeAddress()
		s.StartReplica("auth", fmt.Sprint("auth", n+2), map[string]string{"SERVICE_AUTH_LISTEN": addr})
		auths = append(auths, addr)
	}
	var urls []string
	for n, auth := range auths {
		addr := s.FreeAddress()
		s.StartReplica("gateway", fmt.Sprint("gateway", n+2), map[string]string{
			"SERVICE_LISTEN": addr, "SERVICE_PEERS": strings.Replace(peers, "auth="+auths[0], "auth="+auth, 1), "SERVICE_GATEWAY_TRUSTED_PROXIES": "",
		})
		urls = append(urls, "http://"+addr)
	}
	for _, url := range urls {
		at := &testenv.Installation{T: t, URL: url}
		at.AwaitServing()
	}
	return urls
}

// addressOf returns the address of a service in the value of SERVICE_PEERS.
func addressOf(t *testing.T, peers, name string) string {
	t.Helper()
	for pair := range strings.SplitSeq(peers, ",") {
		if addr, ok := strings.CutPrefix(pair, name+"="); ok {
			_, _, err := net.SplitHostPort(addr)
			require.NoError(t, err)
			return addr
		}
	}
	require.FailNow(t, "no address of "+name, peers)
	return ""
}

// requireLimited requires that the rate limit rejected the request.
func requireLimited(t *testing.T, a response, what string) {
	t.Helper()
	require.Equal(t, http.StatusTooManyRequests, a.status, "%s: %s", what, a.body)
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	require.NoError(t, err, what)
	require.True(t, wait >= 1 && wait <= 60, "%s: Retry-After %d", what, wait)
	require.Contains(t, a.body, `"detail"`)
}

// requireSharedLimit makes ten login attempts from each of several addresses. It spreads the attempts over the
// instances and forges a different client address in each attempt. Every instance must then reject the eleventh
// attempt.
func requireSharedLimit(t *testing.T, s *testenv.Installation, urls []string) {
	t.Helper()
	refused := 0
	addresses := sampleCount(6, 100)
	for n := range addresses {
		address := fmt.Sprintf("127.1.%d.%d", n/200, 1+n%200)
		var callers []*caller
		for _, url := range urls {
			callers = append(callers, newCaller(t, url, address))
		}
		for i := range attempts {
			a, err := callers[i%len(callers)].login(t.Context(), "admin", password, forgedAddress())
			require.NoError(t, err)
			require.Equal(t, http.StatusUnauthorized, a.status, "attempt %d from %s: %s", i+1, address, a.body)
		}
		for i, c := range callers {
			a, err := c.login(t.Context(), "admin", s.Password.Reveal(), forgedAddress())
			require.NoError(t, err)
			requireLimited(t, a, fmt.Sprintf("%s on instance %d", address, i))
		}
		refused++
	}
	t.Logf("the 11th attempt was rejected for %d of %d addresses, on each of %d instances", refused, addresses, len(urls))
	a, err := newCaller(t, urls[0], "127.2.0.1").login(t.Context(), "admin", s.Password.Reveal(), "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.status, "another address must not be limited: %s", a.body)
}

// forgedAddress returns a forged X-Forwarded-For header, as a client that is not a trusted proxy could send it.
func forgedAddress() string {
	octet := func() int { return rand.IntN(256) }
	v4 := fmt.Sprintf("%d.%d.%d.%d", 1+rand.IntN(223), octet(), octet(), octet())
	lies := []string{v4, v4 + ", 127.0.0.1", "127.0.0.1", fmt.Sprintf("2001:db8::%x", octet()), `for="` + v4 + `"`, "", "unknown", v4 + "," + v4}
	return lies[rand.IntN(len(lies))]
}

// requireProxyAddressUsed sends requests as a trusted proxy would. The clients of the proxy forge the
// addresses to the left of the proxy's own entry, which must be ignored. All clients of an IPv6 network
// must share a limit.
func requireProxyAddressUsed(t *testing.T, s *testenv.Installation) {
	t.Helper()
	c := newCaller(t, s.URL, "")
	fill := func(name string, address func(i int) string) {
		for i := range attempts {
			a, err := c.login(t.Context(), "admin", password, address(i))
			require.NoError(t, err)
			require.Equal(t, http.StatusUnauthorized, a.status, "%s, attempt %d: %s", name, i+1, a.body)
		}
		a, err := c.login(t.Context(), "admin", s.Password.Reveal(), address(attempts))
		require.NoError(t, err)
		requireLimited(t, a, name)
	}
	fill("forged on the left", func(i int) string { return fmt.Sprintf("10.9.8.%d, 203.0.113.77", i) })
	fill("one IPv6 network", func(i int) string { return fmt.Sprintf("2001:db8:7:7:%x::%x", i*77, i) })
	for name, address := range map[string]string{"another network": "2001:db8:7:8::1", "another client": "203.0.113.78"} {
		a, err := c.login(t.Context(), "admin", s.Password.Reveal(), address)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.status, "%s: %s", name, a.body)
	}
}
