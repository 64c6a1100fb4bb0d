package middleware_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	trusted := []string{"10.0.0.0/8", "192.0.2.1", "fd00::/8"}
	cases := map[string]struct {
		trust   []string
		peer    string
		forward []string
		want    string
	}{
		"no proxy":                    {nil, "203.0.113.7:1", nil, "203.0.113.7"},
		"untrusted peer":              {trusted, "203.0.113.7:1", []string{"6.6.6.6"}, "203.0.113.7"},
		"no trusted proxies":          {nil, "10.0.0.1:1", []string{"6.6.6.6"}, "10.0.0.1"},
		"one proxy":                   {trusted, "10.0.0.1:1", []string{"6.6.6.6"}, "6.6.6.6"},
		"counted from the right":      {trusted, "10.0.0.1:1", []string{"1.1.1.1, 6.6.6.6"}, "6.6.6.6"},
		"through two proxies":         {trusted, "10.0.0.1:1", []string{"1.1.1.1, 6.6.6.6, 192.0.2.1"}, "6.6.6.6"},
		"in two headers":              {trusted, "10.0.0.1:1", []string{"1.1.1.1", "6.6.6.6,10.0.0.2"}, "6.6.6.6"},
		"only proxies":                {trusted, "10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"proxy without header":        {trusted, "10.0.0.1:1", nil, "10.0.0.1"},
		"proxy with invalid header":   {trusted, "10.0.0.1:1", []string{"6.6.6.6, unknown"}, "10.0.0.1"},
		"with a port":                 {trusted, "10.0.0.1:1", []string{"6.6.6.6:4711"}, "6.6.6.6"},
		"IPv6":                        {trusted, "[fd00::1]:1", []string{"2001:db8::7"}, "2001:db8::7"},
		"IPv6 with a zone":            {nil, "[fe80::1%eth0]:1", nil, "fe80::1"},
		"IPv4 in IPv6":                {trusted, "[::ffff:10.0.0.1]:1", []string{"::ffff:6.6.6.6"}, "6.6.6.6"},
		"peer without IP address":     {trusted, "@", []string{"6.6.6.6"}, ""},
		"peer without port":           {nil, "203.0.113.7", nil, "203.0.113.7"},
		"neighbor of trusted address": {trusted, "192.0.2.2:1", []string{"6.6.6.6"}, "192.0.2.2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := middleware.ParseProxies(tc.trust)
			require.NoError(t, err)
			require.Equal(t, tc.want, p.Client(&http.Request{RemoteAddr: tc.peer, Header: http.Header{"X-Forwarded-For": tc.forward}}))
		})
	}
	for _, bad := range []string{"10.0.0.0/33", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104", "everyone"} {
		_, err := middleware.ParseProxies([]string{"192.0.2.1", bad})
		require.ErrorContains(t, err, bad)
	}
}
