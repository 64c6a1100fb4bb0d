package boundary_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// names are host names with their addresses.
type names map[string][]netip.Addr

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if found := n[host]; found != nil {
		return found, nil
	}
	return nil, errors.New("no such host")
}

func TestDestinations(t *testing.T) {
	t.Parallel()
	known := names{"db.example": {netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("::ffff:10.0.0.5"), netip.MustParseAddr("fd00::5")}}
	for text, want := range map[string][]string{
		"10.1.2.3/16":     {"10.1.0.0/16 0"},
		"10.1.2.3":        {"10.1.2.3/32 0"},
		"10.1.2.3:5432":   {"10.1.2.3/32 5432"},
		"fd00::5":         {"fd00::5/128 0"},
		"[fd00::5]:6379":  {"fd00::5/128 6379"},
		"db.example":      {"10.0.0.5/32 0", "fd00::5/128 0"},
		"db.example:5432": {"10.0.0.5/32 5432", "fd00::5/128 5432"},
	} {
		found, err := boundary.Destinations(t.Context(), known, text)
		require.NoError(t, err, text)
		var got []string
		for _, d := range found {
			got = append(got, d.Prefix.String()+" "+strings.TrimPrefix(netip.AddrPortFrom(netip.IPv4Unspecified(), d.Port).String(), "0.0.0.0:"))
		}
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"other.example", "db.example:port", "db.example:70000", "10.1.2.3/40"} {
		_, err := boundary.Destinations(t.Context(), known, text)
		require.Error(t, err, text)
	}
}

func TestHostOf(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://127.0.0.1:8080/api": "127.0.0.1:8080", "https://signalbox.example": "signalbox.example:443", "HTTP://index.example/simple": "index.example:80",
		"https://user:secret@index.example:8443/simple": "index.example:8443", "https://[fd00::5]/": "[fd00::5]:443",
		"/local/folder": "", "file:///local/folder": "", "": "", "https://": "",
	} {
		require.Equal(t, want, boundary.HostOf(url), url)
	}
}

func TestResolvers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "resolv.conf")
	found, err := boundary.Resolvers(path)
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, found, "without the file, programs use a name server on the node")
	require.NoError(t, os.WriteFile(path, []byte("# comment\nnameserver 10.0.0.53\nsearch example\nnameserver fe80::1%eth0\nnameserver word\n"), 0o600))
	found, err = boundary.Resolvers(path)
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{netip.MustParseAddr("10.0.0.53"), netip.MustParseAddr("fe80::1")}, found)
}

func TestNetwork_Pasta(t *testing.T) {
	t.Parallel()
	n := boundary.Network{Program: "/usr/bin/pasta", Serve: 7000, Reach: []netip.AddrPort{
		netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("[::1]:8080"), netip.MustParseAddrPort("10.0.0.5:443"), netip.MustParseAddrPort("127.0.0.1:80"),
	}}
	args := strings.Join(n.Pasta(12, "/ready"), " ")
	require.Contains(t, args, "--tcp-ports 127.0.0.1/7000 --udp-ports none --tcp-ns 80,8080 --udp-ns none --pid /ready 12")
	require.Contains(t, args, "--dns-forward")
	n.Closed = true
	require.NotContains(t, strings.Join(n.Pasta(12, "/ready"), " "), "--dns-forward")
	args = strings.Join(boundary.Network{}.Pasta(12, "/ready"), " ")
	require.Contains(t, args, "--tcp-ports none --udp-ports none --tcp-ns none", "pasta must not forward all ports")
}

func TestReachable(t *testing.T) {
	t.Parallel()
	known := names{"control.example": {netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")}, "two words": {netip.MustParseAddr("10.0.0.6")}}
	reach, hosts, err := boundary.Reachable(t.Context(), known, []string{"https://control.example/api/ingest", "127.0.0.1:9000", "", "other.example:80", "two words:1"})
	require.ErrorContains(t, err, "other.example")
	require.Equal(t, []netip.AddrPort{
		netip.MustParseAddrPort("10.0.0.5:443"), netip.MustParseAddrPort("[fd00::5]:443"), netip.MustParseAddrPort("127.0.0.1:9000"), netip.MustParseAddrPort("10.0.0.6:1"),
	}, reach)
	require.Equal(t, "10.0.0.5 control.example\nfd00::5 control.example\n", hosts)
	require.Equal(t, "127.0.0.1 localhost\n::1 localhost\n127.0.0.1 rank-0\n", boundary.OwnHosts("rank-0", "10.0.0.7", "rank-0", "a b", ""))
}
