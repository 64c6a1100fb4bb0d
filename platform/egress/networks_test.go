package egress

import (
	"encoding/pem"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNetworks_addresses(t *testing.T) {
	t.Parallel()
	n, err := (&Config{Allow: []string{"10.1.0.0/16", "fc00::/7", "100.64.0.0/10", "64:ff9b::/96", "127.0.0.1"}}).Networks()
	require.NoError(t, err)
	for text, want := range map[string]struct{ https, http bool }{
		"93.184.216.34": {true, false}, "2606:2800:220:1::1": {true, false}, "10.1.255.255": {true, true}, "10.2.0.1": {false, false},
		"::ffff:10.1.0.1": {true, true}, "::ffff:93.184.216.34": {true, false}, "::ffff:10.2.0.1": {false, false},
		"fd12::1": {true, true}, "fd00:ec2::254": {false, false}, "100.64.0.1": {true, true}, "100.100.100.200": {false, false},
		"127.0.0.1": {true, true}, "127.0.0.2": {false, false}, "::1": {false, false}, "0.0.0.0": {false, false},
		"64:ff9b::5db8:d822": {true, true}, "64:ff9b::7f00:1": {false, false}, "64:ff9b::a01:1": {false, false}, "64:ff9b::a9fe:a9fe": {false, false},
		"169.254.169.254": {false, false}, "fe80::1": {false, false}, "fd12::1%lo": {false, false}, "168.63.129.16": {false, false},
	} {
		a := netip.MustParseAddr(text)
		require.Equal(t, want.https, n.open(a) == nil, "https to %s", text)
		require.Equal(t, want.http, n.allowed(a) == nil, "http to %s", text)
	}
	require.NoError(t, Networks{}.open(netip.MustParseAddr("93.184.216.34")), "the zero value allows public addresses")
	require.ErrorIs(t, Networks{}.open(netip.MustParseAddr("127.0.0.1")), ErrRefused)
}

func TestConfig_Validate_unsafeNetworks(t *testing.T) {
	t.Parallel()
	for text, fault := range map[string]string{
		"0.0.0.0/0": "too wide", "::/0": "too wide", "10.0.0.0/7": "too wide", "fc00::/6": "too wide",
		"10.0.0.1/8": "bits set", "169.254.0.0/16": "link-local", "169.254.169.254": "link-local", "fe80::/10": "link-local",
		"fd00:ec2::254": "metadata", "168.63.129.16": "metadata", "::ffff:10.0.0.0/104": "IPv6 form", "localhost": "neither", "": "neither", "fe80::1%lo": "neither",
	} {
		err := (&Config{Allow: []string{"10.0.0.0/8", text}}).Validate()
		require.ErrorContains(t, err, "SERVICE_EGRESS_ALLOW", text)
		require.ErrorContains(t, err, fault, text)
	}
	require.NoError(t, (&Config{}).Validate())
}

func TestConfig_Networks_rootCAs(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.ErrorContains(t, (&Config{CA: file}).Validate(), "SERVICE_EGRESS_CA")
	require.NoError(t, os.WriteFile(file, []byte("no certificate"), 0o600))
	require.ErrorContains(t, (&Config{CA: file}).Validate(), "contains no certificate")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, block, 0o600))
	n, err := (&Config{CA: file}).Networks()
	require.NoError(t, err)
	require.NotNil(t, n.roots)
}
