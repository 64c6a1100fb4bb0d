package auth_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// A setting changed by an admin is in the next response of GetConfig.
func TestGetConfig_reflectsAdminSettings(t *testing.T) {
	t.Parallel()
	h := open(t)
	conn, err := h.bus.As("gateway").Dial("auth")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	settings := authv1.NewSettingServiceClient(conn)
	anyone, err := h.as("")
	require.NoError(t, err)
	cfg, err := h.public.GetConfig(anyone, &authv1.GetConfigRequest{})
	require.NoError(t, err)
	require.Equal(t, "Signalbox", cfg.GetInstallation())
	require.Nil(t, cfg.Announcement)
	_, err = settings.PutSetting(anyone, &authv1.PutSettingRequest{Key: "installation.name", Value: []byte(`"x"`)})
	require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)

	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	admin, err := h.as(token)
	require.NoError(t, err)
	for key, value := range map[string]string{"installation.name": `"Trainwreck"`, "installation.announcement": `"Closed on Sunday"`} {
		out, err := settings.PutSetting(admin, &authv1.PutSettingRequest{Key: key, Value: []byte(value)})
		require.NoError(t, err)
		require.Equal(t, "admin", out.GetChangedBy())
		_, err = settings.PutSetting(admin, &authv1.PutSettingRequest{Key: key, Value: []byte(value)})
		require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	}
	cfg, err = h.public.GetConfig(anyone, &authv1.GetConfigRequest{})
	require.NoError(t, err)
	require.Equal(t, "Trainwreck", cfg.GetInstallation())
	require.Equal(t, "Closed on Sunday", cfg.GetAnnouncement())
	_, err = settings.PutSetting(admin, &authv1.PutSettingRequest{Key: "installation.name", Value: []byte(`null`), Version: 1})
	require.NoError(t, err)
	cfg, err = h.public.GetConfig(anyone, &authv1.GetConfigRequest{})
	require.NoError(t, err)
	require.Equal(t, "Signalbox", cfg.GetInstallation())
}

func TestListSettings_limit(t *testing.T) {
	t.Parallel()
	h := open(t)
	conn, err := h.bus.As("gateway").Dial("auth")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	admin, err := h.as(token)
	require.NoError(t, err)
	out, err := authv1.NewSettingServiceClient(conn).ListSettings(admin, &authv1.ListSettingsRequest{Limit: new(int32(1))})
	require.NoError(t, err)
	require.Len(t, out.GetSettings(), 1)
	require.Equal(t, "agent.api_key", out.GetSettings()[0].GetKey())
	require.Empty(t, out.GetSettings()[0].GetValue())
}
