package oidc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/conf"
)

// loaded loads settings as a process does. The map more overrides valid default variables; the value "-" removes one.
func loaded(t *testing.T, more map[string]string) (Settings, error) {
	t.Helper()
	vars := map[string]string{
		"SERVICE_OIDC_ISSUER": "https://login.example.com", "SERVICE_OIDC_CLIENT_ID": "signalbox",
		"SERVICE_OIDC_CLIENT_SECRET": "secret of the test", "SERVICE_OIDC_ADMIN_GROUPS": "admins,root",
	}
	for k, v := range more {
		if vars[k] = v; v == "-" {
			delete(vars, k)
		}
	}
	var s Settings
	_, err := conf.Load(t.Context(), conf.Map(vars), &s)
	return s, err
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s, err := loaded(t, nil)
	require.NoError(t, err)
	require.True(t, s.Enabled())
	require.Equal(t, []string{"openid", "profile", "email"}, s.scopes())
	require.Equal(t, []string{"admins", "root"}, s.AdminGroups)
	require.Equal(t, "groups", s.GroupsClaim)
	s, err = loaded(t, map[string]string{"SERVICE_OIDC_SCOPES": "groups", "SERVICE_OIDC_TEAM_GROUPS": "nlp=language,/org/vision=vision,nlp=all-of-us"})
	require.NoError(t, err)
	require.Equal(t, []string{"openid", "groups"}, s.scopes(), "openid is always requested")
	require.Equal(t, []string{"all-of-us", "language"}, s.teams([]string{"nlp", "other"}))
	require.Empty(t, s.teams(nil))
	s.AdminGroups = []string{"admins", ""}
	require.False(t, s.isAdmin([]string{"", "Admins"}), "an empty name is not a group")
	require.True(t, s.isAdmin([]string{"admins"}))
	require.NoError(t, (&Settings{}).Validate(), "settings without a provider are valid")
}

func TestSettings_Validate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ setting, value string }{
		"no admins": {"SERVICE_OIDC_ADMIN_GROUPS", "-"}, "empty admin group": {"SERVICE_OIDC_ADMIN_GROUPS", ","}, "no client": {"SERVICE_OIDC_CLIENT_ID", "-"},
		"no secret": {"SERVICE_OIDC_CLIENT_SECRET", "-"}, "empty secret": {"SERVICE_OIDC_CLIENT_SECRET", ""}, "no issuer": {"SERVICE_OIDC_ISSUER", "-"},
		"issuer is not a URL": {"SERVICE_OIDC_ISSUER", "login.example.com"}, "issuer with a query": {"SERVICE_OIDC_ISSUER", "https://login.example.com?x=1"},
		"issuer with a user": {"SERVICE_OIDC_ISSUER", "https://a@login.example.com"}, "issuer with gopher": {"SERVICE_OIDC_ISSUER", "gopher://login.example.com"},
		"no claim": {"SERVICE_OIDC_GROUPS_CLAIM", ""}, "team without a group": {"SERVICE_OIDC_TEAM_GROUPS", "=vision"}, "group without a team": {"SERVICE_OIDC_TEAM_GROUPS", "vision="},
	} {
		_, err := loaded(t, map[string]string{tc.setting: tc.value})
		require.ErrorContains(t, err, tc.setting, name)
		require.NotContains(t, err.Error(), "secret of the test")
	}
}
