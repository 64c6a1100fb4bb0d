package auth_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
	"github.com/signalbox-dev/signalbox/services/auth"
)

// sql changes the database directly, without the service.
func (h *harness) sql(text string) {
	h.t.Helper()
	_, err := h.db.Pool(auth.Name).Exec(h.t.Context(), text)
	require.NoError(h.t, err)
}

func TestTemporaryPassword_mustBeChangedFirst(t *testing.T) {
	t.Parallel()
	h := open(t)
	token, refresh, err := h.login("admin", password)
	require.NoError(t, err)
	keys := func() error {
		_, err := h.keys.ListKeys(mustAs(h, token), &authv1.ListKeysRequest{})
		return err
	}
	require.NoError(t, keys())
	h.sql(`UPDATE account SET must_change_password = true`)
	err = keys()
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	require.True(t, fault.HasCode(err, rpc.CodePasswordChange), "%v", err)
	require.True(t, h.accessWorks(token), "the user can still see their own account")
	_, err = h.public.GetConfig(mustAs(h, token), &authv1.GetConfigRequest{})
	require.NoError(t, err)
	token, _, err = h.refresh(refresh)
	require.NoError(t, err)
	require.True(t, fault.HasCode(keys(), rpc.CodePasswordChange), "the refreshed token must be restricted too")
	h.sql(`UPDATE session SET method = 'oidc'`)
	require.NoError(t, keys(), "a user of a sign-in provider has no password to change")
	h.sql(`UPDATE session SET method = 'password'`)
	_, err = h.public.Logout(mustAs(h, token), &authv1.LogoutRequest{})
	require.NoError(t, err)
}

// A demoted user keeps the token; every call uses the current role of the account.
func TestDemotion_effectiveAtNextCall(t *testing.T) {
	t.Parallel()
	h := open(t)
	replicas := []*harness{h, replica(t, h.db, h.clock)}
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	for _, role := range []string{"admin", "operator", "admin", "operator"} {
		h.sql(`UPDATE account SET role = '` + role + `'`)
		for _, r := range replicas {
			_, err := r.keys.ListKeys(mustAs(r, token), &authv1.ListKeysRequest{})
			require.Equal(t, role == "operator", fault.Is(err, fault.Forbidden), "%v", err)
			require.True(t, r.accessWorks(token))
		}
	}
}

// Each condition that invalidates a token is switched on and off. Every call on every replica must see the current
// state: the service has no cache.
func TestTokenValidity_notCached(t *testing.T) {
	t.Parallel()
	h := open(t)
	replicas := []*harness{h, replica(t, h.db, h.clock)}
	token, _, err := h.login("admin", password)
	require.NoError(t, err)
	for name, flip := range map[string][2]string{
		"disabled": {`UPDATE account SET disabled_at = now()`, `UPDATE account SET disabled_at = NULL`},
		"epoch":    {`UPDATE account SET epoch = epoch + 1`, `UPDATE account SET epoch = epoch - 1`},
		"session":  {`UPDATE session SET revoked_at = now(), revoked_reason = 'logout'`, `UPDATE session SET revoked_at = NULL, revoked_reason = NULL`},
		"key":      {`UPDATE signing_key SET revoked_at = now() WHERE purpose = 'access'`, `UPDATE signing_key SET revoked_at = NULL`},
	} {
		for range 3 {
			h.sql(flip[0])
			for _, r := range replicas {
				require.False(t, r.accessWorks(token), name)
			}
			h.sql(flip[1])
			for _, r := range replicas {
				require.True(t, r.accessWorks(token), name)
			}
		}
	}
}
