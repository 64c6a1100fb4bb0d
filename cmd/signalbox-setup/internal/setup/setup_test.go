package setup_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox-setup/internal/setup"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// files reads a whole folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			return nil
		}
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is for its owner only", path)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		out[path] = string(raw)
		return nil
	})
	require.NoError(t, err)
	return out
}

func TestASecondRunKeepsEverything(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "etc")
	s := setup.Setup{Dir: dir, Clock: clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))}
	require.NoError(t, s.Certs())
	require.NoError(t, s.Secrets())
	first := files(t, dir)
	require.NoError(t, s.Certs())
	require.NoError(t, s.Secrets())
	require.Equal(t, first, files(t, dir))
}

func TestCertificatesNameTheirService(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, setup.Setup{Dir: dir, Clock: clock.Real()}.Certs())
	for _, name := range setup.Identities() {
		f, err := pki.OpenFiles(filepath.Join(dir, "tls", name+".pem"), filepath.Join(dir, "tls", name+"-key.pem"), filepath.Join(dir, "tls", "ca.pem"))
		require.NoError(t, err)
		require.Equal(t, name, f.Current().Name)
	}
}

func TestTheKeyringOpens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, setup.Setup{Dir: dir, Clock: clock.Real()}.Secrets())
	raw, err := os.ReadFile(filepath.Join(dir, "secrets", "keyring"))
	require.NoError(t, err)
	_, err = secret.ParseKeyring(secret.New(string(raw)))
	require.NoError(t, err)
}
