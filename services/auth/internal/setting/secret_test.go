package setting

import (
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const planted = "hunter2-planted"

// dump returns everything that the schema stores about settings and their audit, as text.
func (b *harness) dump(t *testing.T) string {
	t.Helper()
	var out string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(encode(coalesce(sealed, ''), 'escape') || v::text, ' '), '')
		|| (SELECT coalesce(string_agg(a::text, ' '), '') FROM audit a) FROM setting_version v`).Scan(&out))
	return out
}

func TestSettings_secretNeverShown(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.replica(everySetting())
	none, err := s.Settings.Reveal(t.Context(), "e.secret")
	require.NoError(t, err)
	require.True(t, none.IsZero())
	out, err := put(t, s, "e.secret", `"`+planted+`"`, 0)
	require.NoError(t, err)
	require.True(t, out.GetSet())
	require.Empty(t, out.GetValue())
	require.NotContains(t, out.String(), planted)
	kept, err := s.Settings.Reveal(t.Context(), "e.secret")
	require.NoError(t, err)
	require.Equal(t, planted, kept.Reveal())
	require.NotContains(t, b.dump(t), planted)
	for name, shown := range map[string]func() (interface{ String() string }, error){
		"get": func() (interface{ String() string }, error) {
			return s.GetSetting(t.Context(), &authv1.GetSettingRequest{Key: "e.secret"})
		},
		"list": func() (interface{ String() string }, error) {
			return s.ListSettings(t.Context(), &authv1.ListSettingsRequest{})
		},
		"versions": func() (interface{ String() string }, error) {
			return s.ListSettingVersions(t.Context(), &authv1.ListSettingVersionsRequest{Key: "e.secret"})
		},
	} {
		answer, err := shown()
		require.NoError(t, err, name)
		require.NotContains(t, answer.String(), planted, name)
	}
	_, err = put(t, s, "e.secret", `"another secret"`, 1)
	require.NoError(t, err)
	var held int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM setting_version WHERE sealed IS NOT NULL`).Scan(&held))
	require.Equal(t, 1, held, "former secrets must be deleted")
	_, err = put(t, s, "e.secret", `null`, 2)
	require.NoError(t, err)
	none, err = s.Settings.Reveal(t.Context(), "e.secret")
	require.NoError(t, err)
	require.True(t, none.IsZero())
}

func TestSettings_Put_audited(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.replica(everySetting())
	_, err := put(t, s, "b.count", `5`, 0)
	require.NoError(t, err)
	_, err = put(t, s, "e.secret", `"`+planted+`"`, 0)
	require.NoError(t, err)
	rows, err := audit.List(t.Context(), b.pool, audit.Filter{Actor: "ada", Action: "setting.put"}, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, "e.secret", rows[0].TargetID)
	require.JSONEq(t, `{"set": false, "version": 0}`, string(rows[0].Before))
	require.JSONEq(t, `{"set": true, "version": 1}`, string(rows[0].After))
	require.JSONEq(t, `{"set": false, "version": 0, "value": 3}`, string(rows[1].Before))
	require.JSONEq(t, `{"set": true, "version": 1, "value": 5}`, string(rows[1].After))
}

// An encrypted value can be decrypted only in its own row, with the keyring that encrypted it.
func TestSettings_Reveal_boundToRow(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.replica(everySetting())
	for _, key := range []string{"e.secret", "f.secret"} {
		_, err := put(t, s, key, `"`+planted+key+`"`, 0)
		require.NoError(t, err)
	}
	elsewhere := b.replica(everySetting()).Settings
	elsewhere.Keyring = newRing(t)
	_, err := elsewhere.Reveal(t.Context(), "e.secret")
	require.ErrorIs(t, err, secret.ErrOpen, "another keyring must not open the secret")
	_, err = b.pool.Exec(t.Context(), `UPDATE setting_version v SET sealed = o.sealed FROM setting_version o WHERE o.key <> v.key`)
	require.NoError(t, err)
	for _, key := range []string{"e.secret", "f.secret"} {
		_, err = b.replica(everySetting()).Settings.Reveal(t.Context(), key)
		require.ErrorIs(t, err, secret.ErrOpen, "a secret must not open in another row")
	}
}

func TestSettings_reseal(t *testing.T) {
	t.Parallel()
	b := open(t)
	k1, k2 := secret.Key{ID: "k1", Bytes: make([]byte, 32)}, secret.Key{ID: "k2", Bytes: make([]byte, 32)}
	for _, k := range []secret.Key{k1, k2} {
		_, err := rand.Read(k.Bytes)
		require.NoError(t, err)
	}
	ring := func(keys ...secret.Key) *secret.Keyring {
		r, err := secret.NewKeyring(keys...)
		require.NoError(t, err)
		return r
	}
	b.ring = ring(k1)
	_, err := put(t, b.replica(everySetting()), "e.secret", `"`+planted+`"`, 0)
	require.NoError(t, err)
	moved, err := pg.Reseal(t.Context(), b.pool, ring(k2, k1), Sealed())
	require.NoError(t, err)
	require.Equal(t, 1, moved)
	b.ring = ring(k2)
	kept, err := b.replica(everySetting()).Settings.Reveal(t.Context(), "e.secret")
	require.NoError(t, err)
	require.Equal(t, planted, kept.Reveal())
}
