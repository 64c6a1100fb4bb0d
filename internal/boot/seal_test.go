package boot

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// seed is 32 bytes as settings write them.
func seed(b byte) secret.String {
	return secret.New(base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(b), 32))))
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
	require.Equal(t, s.Key.ID, again.Key.ID, "the same seed signs as the same key")
	other, err := OpenSealing(Audit{Key: seed('b'), Dir: dir})
	require.NoError(t, err)
	require.NotEqual(t, s.Key.ID, other.Key.ID)
}

func TestSealingThatProvesNothingIsRefused(t *testing.T) {
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
		"not base64": {Audit{Key: secret.New("!!!"), Dir: dir}, "want base64 of 32 bytes"},
		"too short":  {Audit{Key: secret.New(base64.StdEncoding.EncodeToString([]byte("short-secret"))), Dir: dir}, "want base64 of 32 bytes"},
		"a file":     {Audit{Key: seed('a'), Dir: filepath.Join(file, "audit")}, "make SERVICE_AUDIT_DIR"},
	} {
		_, err := OpenSealing(tc.a)
		require.ErrorContains(t, err, tc.want, name)
		require.NotContains(t, err.Error(), "short-secret")
	}
}
