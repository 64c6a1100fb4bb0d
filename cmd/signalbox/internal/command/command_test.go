package command

import (
	"bytes"
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun_unknownCommandShowsUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"dmeo"}, {"demo", "--frobnicate"}, {"demo", "--help"}} {
		var out, errOut bytes.Buffer
		err := Run(t.Context(), args, nil, &out, &errOut)
		require.ErrorIs(t, err, flag.ErrHelp, "%v", args)
		require.Contains(t, errOut.String(), "once", "%v", args)
		require.Empty(t, out.String())
	}
}

func TestRun_unknownArgument(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	err := Run(t.Context(), []string{"demo", "--data", data, "once"}, nil, &bytes.Buffer{}, &bytes.Buffer{})
	require.ErrorContains(t, err, `unknown argument "once"`)
	require.NoDirExists(t, data)
}

func TestRun_missingServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := filepath.Join(dir, "no-signalboxd")
	err := Run(t.Context(), []string{"demo", "--once", "--data", filepath.Join(dir, "data"), "--server", server}, nil, &bytes.Buffer{}, &bytes.Buffer{})
	require.ErrorContains(t, err, server)
}

func TestRun_emptyFlagValue(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"--data", "--listen", "--server"} {
		var errOut bytes.Buffer
		data := filepath.Join(t.TempDir(), "data")
		err := Run(t.Context(), []string{"demo", "--once", "--data", data, name, ""}, nil, &bytes.Buffer{}, &errOut)
		require.ErrorIs(t, err, flag.ErrHelp)
		require.Contains(t, errOut.String(), `invalid value "" for flag -`+name[2:]+": must not be empty")
		require.NoDirExists(t, data)
	}
}
