package proxy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/inference/internal/engineclient"
	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
)

func TestEngineOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]engineclient.Engine{
		"http://127.0.0.1:8001":  {Addr: "127.0.0.1:8001"},
		"http://127.0.0.1:8001/": {Addr: "127.0.0.1:8001"},
		"http://host":            {Addr: "host:80"},
		"http://[::1]:9":         {Addr: "[::1]:9"},
		"http://[::1]":           {Addr: "[::1]:80"},
		"https://host:4433":      {Addr: "host:4433", Node: "node/nod_1"},
		"https://host":           {Addr: "host:443", Node: "node/nod_1"},
		"https://[fd00::1]":      {Addr: "[fd00::1]:443", Node: "node/nod_1"},
		"HTTPS://host:1":         {Addr: "host:1", Node: "node/nod_1"},
	} {
		got, err := engineOf(&routing.Replica{Address: address, NodeID: "nod_1"})
		require.NoError(t, err, address)
		require.Equal(t, want, got, address)
	}
}

func TestEngineOf_invalid(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "host:1", "unix:///x", "http://", "http://:80", "://", "ftp://host", "//host", "/path", "http://u:p@host:1", "https://nod_1@host:1",
	} {
		_, err := engineOf(&routing.Replica{Address: address, NodeID: "nod_1"})
		require.ErrorIs(t, err, engineclient.ErrUnreachable, address)
	}
	for _, node := range []string{"", "NOD_1", "nod 1", "nod_1/../nod_2", "node/nod_1", "nod_1\x00"} {
		_, err := engineOf(&routing.Replica{Address: "https://host:1", NodeID: node})
		require.ErrorIs(t, err, engineclient.ErrUnreachable, "%q is not a valid node id, so the replica must be unreachable", node)
		_, err = engineOf(&routing.Replica{Address: "http://host:1", NodeID: node})
		require.NoError(t, err, "the node id must not matter for plain http")
	}
}
