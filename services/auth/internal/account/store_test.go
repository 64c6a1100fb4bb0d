package account

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
)

func TestUnknownAccounts(t *testing.T) {
	t.Parallel()
	pool := database(t).Pool("auth")
	_, err := ByUsername(t.Context(), pool, "nobody")
	require.ErrorIs(t, err, ErrUnknown)
	_, err = ByID(t.Context(), pool, "usr_0")
	require.ErrorIs(t, err, ErrUnknown)
}

func TestNamesAreExact(t *testing.T) {
	t.Parallel()
	d := database(t)
	_, err := starter(t, d, "").Run(t.Context())
	require.NoError(t, err)
	for _, name := range []string{"Admin", "admin ", " admin", "admin%", "adm_n", "admin\x00", "\x00"} {
		_, err := ByUsername(t.Context(), d.Pool("auth"), name)
		require.ErrorIs(t, err, ErrUnknown, name)
	}
	a, err := ByUsername(t.Context(), d.Pool("auth"), "admin")
	require.NoError(t, err)
	same, err := ByID(t.Context(), d.Pool("auth"), a.ID)
	require.NoError(t, err)
	require.Equal(t, a, same)
}

func TestMoreMembershipsThanAnIdentityCarriesAreSeen(t *testing.T) {
	t.Parallel()
	d := database(t)
	_, err := starter(t, d, "").Run(t.Context())
	require.NoError(t, err)
	pool := d.Pool("auth")
	a, err := ByUsername(t.Context(), pool, "admin")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
		WITH made AS (INSERT INTO project (id, key, name, visibility, created_at)
			SELECT 'prj_' || lpad(n::text, 26, '0'), 'key-' || n, 'x', 'team', now() FROM generate_series(1, 600) n RETURNING id)
		INSERT INTO membership (project_id, account_id, role) SELECT id, $1, 'viewer' FROM made`, a.ID)
	require.NoError(t, err)
	members, err := Memberships(t.Context(), pool, a.ID)
	require.NoError(t, err)
	require.Len(t, members, authn.MaxProjects+1, "the signer must see that there are more than it carries")
}

func TestAHashIsRenewedOnlyWhereItIsStillTheOne(t *testing.T) {
	t.Parallel()
	d := database(t)
	_, err := starter(t, d, "first password").Run(t.Context())
	require.NoError(t, err)
	pool := d.Pool("auth")
	a, err := ByUsername(t.Context(), pool, "admin")
	require.NoError(t, err)
	require.NoError(t, Rehash(t.Context(), pool, a.ID, a.PasswordHash, "dearer"))
	require.NoError(t, Rehash(t.Context(), pool, a.ID, a.PasswordHash, "too late"))
	now, err := ByID(t.Context(), pool, a.ID)
	require.NoError(t, err)
	require.Equal(t, "dearer", now.PasswordHash)
	require.Equal(t, a.Epoch, now.Epoch, "tokens go on")
}
