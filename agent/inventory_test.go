package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseMeminfo(t *testing.T) {
	t.Parallel()
	got, err := parseMeminfo("MemFree: 1 kB\nMemTotal:       24600000 kB\n")
	require.NoError(t, err)
	require.Equal(t, int64(24600000)<<10, got)
	for _, bad := range []string{"", "MemTotal: x kB", "MemTotal: 5 MB", "MemTotal:"} {
		_, err := parseMeminfo(bad)
		require.Error(t, err, bad)
	}
}

func TestRelayConfig_hostDefaultsToNodeName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "node-1", relayConfig(Config{Hostname: "node-1", RelayListen: ":0"}, nil).Host)
	require.Equal(t, "10.0.0.1", relayConfig(Config{Hostname: "node-1", RelayHost: "10.0.0.1"}, nil).Host)
	_, err := nodeIdentity(t.TempDir())()
	require.ErrorContains(t, err, "load the node's certificate")
}
