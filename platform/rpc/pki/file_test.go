package pki_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

func TestCA_SaveAndLoad(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pki")
	ca := newCA(t)
	require.NoError(t, ca.Save(dir))
	require.ErrorContains(t, ca.Save(dir), "already")
	again, err := pki.LoadCA(dir)
	require.NoError(t, err)
	pair, err := again.IssueService("jobs", now(), time.Hour)
	require.NoError(t, err)
	require.NoError(t, pair.Save(dir, "jobs"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), e.Name())
	}
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	ident, err := pki.OpenFiles(filepath.Join(dir, "jobs.pem"), filepath.Join(dir, "jobs-key.pem"), filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	require.Equal(t, "jobs", ident.Current().Name)
}

func TestLoadCA_invalidFiles(t *testing.T) {
	t.Parallel()
	_, err := pki.LoadCA(t.TempDir())
	require.Error(t, err)
	dir := t.TempDir()
	pair, err := newCA(t).IssueService("jobs", now(), time.Hour)
	require.NoError(t, err)
	require.NoError(t, pki.WriteFile(filepath.Join(dir, "ca.pem"), pair.Cert))
	_, err = pki.LoadCA(dir)
	require.Error(t, err, "a CA without its key cannot be loaded")
	require.NoError(t, pki.WriteFile(filepath.Join(dir, "ca-key.pem"), pair.Key))
	_, err = pki.LoadCA(dir)
	require.ErrorContains(t, err, "does not contain a CA")
}

func TestParse_invalidPEM(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	a, err := ca.IssueService("jobs", now(), time.Hour)
	require.NoError(t, err)
	b, err := ca.IssueService("jobs", now(), time.Hour)
	require.NoError(t, err)
	for name, in := range map[string][3][]byte{
		"key of other certificate": {a.Cert, b.Key, ca.CertPEM()},
		"no CA":                    {a.Cert, a.Key, nil},
		"leaf as CA":               {a.Cert, a.Key, a.Cert},
		"key in CA file":           {a.Cert, a.Key, a.Key},
		"no certificate":           {nil, a.Key, ca.CertPEM()},
		"CA as a service":          {ca.CertPEM(), a.Key, ca.CertPEM()},
	} {
		_, err := pki.Parse(in[0], in[1], in[2])
		require.Error(t, err, name)
	}
}

func TestFiles_Current_loadsRenewal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newCA(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	save := func(name string, stamp time.Time, life time.Duration) {
		pair, err := ca.IssueService(name, now(), life)
		require.NoError(t, err)
		require.NoError(t, pair.Save(dir, "own"))
		for _, f := range []string{"own.pem", "own-key.pem"} {
			require.NoError(t, os.Chtimes(path(f), stamp, stamp))
		}
	}
	require.NoError(t, ca.Save(dir))
	save("jobs", now(), time.Hour)
	files, err := pki.OpenFiles(path("own.pem"), path("own-key.pem"), path("ca.pem"))
	require.NoError(t, err)
	first := files.Current()
	require.Same(t, first, files.Current())

	save("jobs", now().Add(time.Second), 2*time.Hour)
	second := files.Current()
	require.True(t, second.NotAfter.After(first.NotAfter))

	require.NoError(t, os.WriteFile(path("own.pem"), []byte("half"), 0o600))
	require.Same(t, second, files.Current(), "the old identity is used while the files do not match")
	save("auth", now().Add(time.Minute), time.Hour)
	require.Same(t, second, files.Current(), "a process does not change its name")
	_, err = pki.OpenFiles(path("nope.pem"), path("own-key.pem"), path("ca.pem"))
	require.Error(t, err)
}

func TestWriteFile_failureLeavesNoTemporaryFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.pem")
	require.NoError(t, os.Mkdir(path, 0o700))
	require.Error(t, pki.WriteFile(path, []byte("x")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
