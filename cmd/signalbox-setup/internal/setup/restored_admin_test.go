package setup_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox-setup/internal/setup"
)

const twoAdmins = `INSERT INTO account (id, username, role, password_hash, created_at)
	VALUES ('usr_a', 'alice', 'admin', 'hash', now()), ('usr_b', 'bob', 'admin', 'hash', now())`

func TestRestored_adminWithChangedPasswordRemains(t *testing.T) {
	t.Parallel()
	h := newRestoredHarness(t, twoAdmins)
	_, err := h.run([]string{"password usr_a", "user usr_b"})
	require.NoError(t, err)
	require.Equal(t, []string{"alice*"}, h.admins(), "the other admin was disabled after the password was changed")
}

func TestRestored_refusesToLockOutEveryAdmin(t *testing.T) {
	t.Parallel()
	h := newRestoredHarness(t, twoAdmins+`; UPDATE account SET role = 'operator' WHERE username = 'bob'`)
	h.exec("auth", `DELETE FROM revocation`)
	entries := []string{"admin_enabled usr_b", "user usr_a"}
	_, err := h.run(entries)
	require.ErrorContains(t, err, "auth: no admin could sign in after the revocations, so nothing was changed; name an admin of the backup with --admin")
	require.Equal(t, []string{"alice*"}, h.admins())
	for _, name := range setup.Schemas() {
		require.False(t, h.restored(name), name)
	}
	_, err = h.run(entries, "--admin", "alice")
	require.NoError(t, err)
	require.Equal(t, []string{"alice*"}, h.admins())
}

func TestRestored_adminWithProviderRemains(t *testing.T) {
	t.Parallel()
	h := newRestoredHarness(t, twoAdmins+`; UPDATE account SET password_hash = '' WHERE username = 'bob';
		INSERT INTO oidc_identity VALUES ('https://idp', 'bob', 'usr_b', now(), now())`)
	h.exec("auth", `DELETE FROM revocation`)
	_, err := h.run([]string{"user usr_a"})
	require.NoError(t, err)
	require.Equal(t, []string{"bob"}, h.admins())
}

func TestRestored_revokeAllKeepsNamedAdmin(t *testing.T) {
	t.Parallel()
	h := newRestoredHarness(t, twoAdmins)
	_, err := h.run([]string{"password usr_a", "user usr_a", "admin usr_a"}, "--revoke-all", "--admin", "alice")
	require.NoError(t, err)
	require.Equal(t, []string{"alice*"}, h.admins())
}

// The journal contains a revocation from long before the backup, which retention has deleted from the database.
func TestRestored_skipsWhatIsOlderThanBackup(t *testing.T) {
	t.Parallel()
	h := newRestoredHarness(t, twoAdmins)
	h.exec("auth", `UPDATE continuity SET journaled_at = now()`)
	h.age = 2 * time.Hour
	printed, err := h.run([]string{"user usr_a"})
	require.NoError(t, err)
	require.Contains(t, printed, "; 0 revocations after the backup")
	require.Equal(t, []string{"alice*", "bob*"}, h.admins())
}
