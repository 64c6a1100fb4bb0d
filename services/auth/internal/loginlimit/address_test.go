package loginlimit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKey_addressOrNetwork(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.7":                "192.0.2.7",
		"::ffff:192.0.2.7":         "192.0.2.7",
		"2001:db8:1:2::1":          "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::9":     "2001:db8:1:2::/64",
		"2001:db8:1:3::1":          "2001:db8:1:3::/64",
		"2001:0db8:0001:0002:0::1": "2001:db8:1:2::/64",
		"fe80::1%eth0":             "fe80::/64",
		"fe80::1%eth1":             "fe80::/64",
		"::1":                      "::/64",
		"":                         "unknown",
		"192.0.2.7:443":            "unknown",
		"192.0.2.7, 10.0.0.1":      "unknown",
		"localhost":                "unknown",
	} {
		require.Equal(t, want, Key(address), address)
	}
}

func TestKey_distinctHosts(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, Key("192.0.2.7"), Key("192.0.2.8"), "IPv4 hosts have keys of their own")
	require.NotEqual(t, Key("2001:db8:1:2::1"), Key("2001:db8:1:3::1"), "IPv6 networks have keys of their own")
}
