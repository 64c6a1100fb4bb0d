package pgtest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestCluster(t *testing.T) {
	t.Setenv("TEST_DATABASE_URL", "")
	first, second := t.TempDir(), filepath.Join(t.TempDir(), "created")
	pgtest.Cluster(t, first)
	pgtest.Cluster(t, second)
	var passwords []string
	for _, dir := range []string{first, second} {
		raw, err := os.ReadFile(filepath.Join(dir, "password"))
		require.NoError(t, err)
		passwords = append(passwords, string(raw))
		require.FileExists(t, filepath.Join(dir, "data", "PG_VERSION"))
		require.NoFileExists(t, filepath.Join(dir, "data", "postmaster.pid"))
		require.NoFileExists(t, filepath.Join(dir, "port"), "each server must choose its own port")
	}
	require.Equal(t, passwords[0], passwords[1])
}

func TestCluster_otherServer(t *testing.T) {
	t.Setenv("TEST_DATABASE_URL", "postgres://admin@db/x")
	dir := filepath.Join(t.TempDir(), "pg")
	pgtest.Cluster(t, dir)
	require.NoDirExists(t, dir)
}
