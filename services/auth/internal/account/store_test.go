package account

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestByUsername_unknown(t *testing.T) {
	t.Parallel()
	pool := database(t).Pool("auth")
	_, err := ByUsername(t.Context(), pool, "nobody")
	require.ErrorIs(t, err, ErrUnknown)
	_, err = ByID(t.Context(), pool, "usr_0")
	require.ErrorIs(t, err, ErrUnknown)
}

func TestByUsername_exactMatch(t *testing.T) {
	t.Parallel()
	d := database(t)
	_, err := newBootstrap(t, d, "").Run(t.Context())
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

func TestRehash_onlyIfUnchanged(t *testing.T) {
	t.Parallel()
	d := database(t)
	_, err := newBootstrap(t, d, "first password").Run(t.Context())
	require.NoError(t, err)
	pool := d.Pool("auth")
	a, err := ByUsername(t.Context(), pool, "admin")
	require.NoError(t, err)
	require.NoError(t, Rehash(t.Context(), pool, a.ID, a.PasswordHash, "dearer"))
	require.NoError(t, Rehash(t.Context(), pool, a.ID, a.PasswordHash, "too late"))
	now, err := ByID(t.Context(), pool, a.ID)
	require.NoError(t, err)
	require.Equal(t, "dearer", now.PasswordHash)
	require.Equal(t, a.Epoch, now.Epoch, "tokens stay valid")
}
