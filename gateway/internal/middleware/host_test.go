package middleware

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHosts(t *testing.T) {
	t.Parallel()
	h, err := ParseHosts("https://Box.Example:8443", []string{"box.internal.example"})
	require.NoError(t, err)
	for host, want := range map[string]bool{
		"box.example": true, "box.example:8443": true, "BOX.example:1": true, "box.example.": true, "box.example.:8443": true,
		"box.internal.example": true, "box.internal.example:80": true,
		"127.0.0.1": true, "127.0.0.1:8080": true, "192.0.2.7:8080": true, "[::1]": true, "[::1]:8080": true, "[fe80::1%25eth0]:8080": true,
		"localhost": true, "LOCALHOST:8080": true, "box.localhost:8080": true, "gateway": true, "gpu-box:8080": true, "": true,
		"evil.example": false, "evil.example:8080": false, "evil.example.": false, "x.box.example": false, "box.example.evil.example": false,
		"127.0.0.1.evil.example": false, "localhost.evil.example:8080": false, "notlocalhost.": true, "evil.localhost.example": false,
		"evil.example:80:80": false, "[evil.example]": false, "user@evil.example": false, "box.example/x.y": false, "box.example@evil.example": false,
	} {
		got := h.Check(&http.Request{Host: host})
		require.Equal(t, want, got == nil, host)
	}
}

func TestHostsWithoutPublicURL(t *testing.T) {
	t.Parallel()
	h, err := ParseHosts("", nil)
	require.NoError(t, err)
	require.Nil(t, h.Check(&http.Request{Host: "192.0.2.7:8080"}), "an address is always allowed")
	require.Nil(t, h.Check(&http.Request{Host: "gpu-box:8080"}))
	refused := h.Check(&http.Request{Host: "evil.example"})
	require.NotNil(t, refused)
	require.Contains(t, refused.Text(), "SERVICE_GATEWAY_ALLOWED_HOSTS", "the message names the setting to change")
}

func TestParseHostsRejectsInvalidNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "https://box.example", "box.example:80", "box.example/x", "*.example", "Box.example", "box.example.", "b ox"} {
		_, err := ParseHosts("", []string{name})
		require.Error(t, err, name)
	}
}
