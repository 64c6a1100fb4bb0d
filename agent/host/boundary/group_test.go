package boundary

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBroadcast(t *testing.T) {
	t.Parallel()
	for network, want := range map[string]string{
		"192.0.2.2/24": "192.0.2.255", "10.1.2.3/8": "10.255.255.255", "10.1.2.3/20": "10.1.15.255", "10.1.2.5/30": "10.1.2.7",
	} {
		require.Equal(t, []netip.Addr{netip.MustParseAddr(want)}, broadcast(netip.MustParsePrefix(network)), network)
	}
	for _, network := range []string{"10.1.2.3/32", "10.1.2.3/31", "fd00::2/64"} {
		require.Empty(t, broadcast(netip.MustParsePrefix(network)), network)
	}
}
