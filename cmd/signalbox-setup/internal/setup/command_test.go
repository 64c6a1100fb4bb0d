package setup_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/cmd/signalbox-setup/internal/setup"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func setUp(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return setUpWith(t, nil, args...)
}

// setUpWith runs the command with variables of the environment.
func setUpWith(t *testing.T, variables map[string]string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := setup.Main(pgtest.Context(t), args, func(name string) string { return variables[name] }, clock.Real(), &out, &out)
	return out.String(), err
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"certificates"}, {"certs", "--frobnicate"}, {"--help"}, {"secrets", "-h"}} {
		printed, err := setUp(t, args...)
		require.ErrorIs(t, err, flag.ErrHelp, "%v", args)
		require.Contains(t, printed, "usage: signalbox-setup certs", "%v", args)
	}
}

func TestMain_commandCreatesOnlyItsFolder(t *testing.T) {
	t.Parallel()
	for command, made := range map[string]string{"certs": "tls", "secrets": "secrets"} {
		dir := filepath.Join(t.TempDir(), "etc")
		_, err := setUp(t, command, "--dir", dir)
		require.NoError(t, err)
		require.DirExists(t, filepath.Join(dir, made))
		entries, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		for _, e := range entries {
			require.NotEqual(t, command == "certs", filepath.Base(e) == "secrets", "%s must create nothing else", command)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "etc")
	_, err := setUp(t, "database", "--dir", dir)
	require.ErrorContains(t, err, "--admin-url-file")
	_, err = setUp(t, "certs", "--dir", dir, "jobs")
	require.ErrorContains(t, err, `unknown argument "jobs"`)
	require.NoDirExists(t, dir)
}

func TestMain_groupsFromRoot(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	_, err := setUp(t, "certs", "--root", root, "--group", "signalbox")
	require.ErrorContains(t, err, "read the groups")
	require.NoError(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc", "group"), []byte("signalbox:x:60900:\n"), 0o600))
	_, err = setUp(t, "certs", "--root", root, "--group", "signalbox")
	require.ErrorContains(t, err, "missing groups: signalbox-auth, ")
	require.NoDirExists(t, filepath.Join(root, "etc", "signalbox"), "nothing may be created if groups are missing")
	_, err = setUp(t, "certs", "--root", root)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "etc", "signalbox", "tls", "jobs-key.pem"))
}
