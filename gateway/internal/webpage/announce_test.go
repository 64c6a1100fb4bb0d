package webpage

import (
	"testing"

	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
)

// The texts that admins set are shown as text, never as markup.
func TestLoginPageShowsInstallationAndAnnouncement(t *testing.T) {
	t.Parallel()
	h := newHarness(t, true)
	body := h.get("/login").Body.String()
	require.Contains(t, body, "<title>Sign in · Signalbox</title>")
	require.NotContains(t, body, `id="announcement"`)
	announcement := `Closed <b>on</b> Sunday`
	h.config = &authv1.AuthConfig{Methods: []string{"password"}, Installation: `A<script>`, Announcement: &announcement}
	body = h.get("/login").Body.String()
	require.Contains(t, body, "<title>Sign in · A&lt;script&gt;</title>")
	require.Contains(t, body, "<span>A&lt;script&gt;</span>")
	require.Contains(t, h.get("/device").Body.String(), "<title>Connect a device · A&lt;script&gt;</title>")
	require.Contains(t, body, `<p id="announcement" class="note">Closed &lt;b&gt;on&lt;/b&gt; Sunday</p>`)
}
