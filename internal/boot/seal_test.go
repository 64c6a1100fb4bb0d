package boot

import (
	"crypto/sha256"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// seed returns 32 bytes that look random, encoded as in the settings.
func seed(b byte) secret.String {
	sum := sha256.Sum256([]byte{b})
	return secret.New(base64.StdEncoding.EncodeToString(sum[:]))
}

func TestOpenSealing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "lib", "audit")
	s, err := OpenSealing(Audit{Key: seed('a'), Dir: dir})
	require.NoError(t, err)
	require.Equal(t, dir, s.Dir)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, info.Mode().Perm())
	again, err := OpenSealing(Audit{Key: seed('a'), Dir: dir})
	require.NoError(t, err)
	require.Equal(t, s.Key.ID, again.Key.ID, "the same seed must give the same key")
	other, err := OpenSealing(Audit{Key: seed('b'), Dir: dir})
	require.NoError(t, err)
	require.NotEqual(t, s.Key.ID, other.Key.ID)
	both, err := OpenSealing(Audit{Key: secret.New(seed('b').Reveal() + "\n" + seed('a').Reveal() + "\n"), Dir: dir})
	require.NoError(t, err)
	require.Equal(t, other.Key.ID, both.Key.ID, "the first key signs")
	require.Len(t, both.Keys, 2, "the other keys still verify")
	require.Equal(t, s.Key.Public().Key, both.Keys[s.Key.ID])
}

func TestOpenSealing_invalidSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		a    Audit
		want string
	}{
		"no key":     {Audit{Dir: dir}, "must be set"},
		"no folder":  {Audit{Key: seed('a')}, "must be set"},
		"not base64": {Audit{Key: secret.New("!!!"), Dir: dir}, "must be the base64 of 32 bytes"},
		"too short":  {Audit{Key: secret.New(base64.StdEncoding.EncodeToString([]byte("short-secret"))), Dir: dir}, "must be the base64 of 32 bytes"},
		"example":    {Audit{Key: secret.New(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))), Dir: dir}, "looks like an example key"},
		"old key":    {Audit{Key: secret.New(seed('a').Reveal() + "\nshort-secret"), Dir: dir}, "must be the base64 of 32 bytes"},
		"file":       {Audit{Key: seed('a'), Dir: filepath.Join(file, "audit")}, "create SERVICE_AUDIT_DIR"},
	} {
		_, err := OpenSealing(tc.a)
		require.ErrorContains(t, err, tc.want, name)
		require.NotContains(t, err.Error(), "short-secret")
	}
}

func TestEnv_recordDurability(t *testing.T) {
	t.Parallel()
	e, _, _ := env(t)
	require.NoError(t, e.recordDurability(t.Context(), []string{"fsync", "full_page_writes"}))
	require.NoError(t, e.recordDurability(t.Context(), nil))
	var rows []string
	require.NoError(t, e.Pool.QueryRow(t.Context(), `SELECT array_agg(concat_ws(' ', actor_kind, actor_id, action, target_kind, target_id, after) ORDER BY seq)
		FROM audit`).Scan(&rows))
	require.Equal(t, []string{
		`service auth database.unsafe database auth {"off":["fsync","full_page_writes"],"writes":"refused"}`,
		`service auth database.safe database auth {"writes":"accepted"}`,
	}, rows)
}
