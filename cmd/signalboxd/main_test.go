package main

import (
	"bytes"
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/process"
)

func TestRealMain_flags(t *testing.T) {
	t.Parallel()
	require.NoError(t, realMain([]string{"--version"}))
	require.NoError(t, realMain([]string{"--print-config", "--data", t.TempDir()}))
	require.ErrorIs(t, realMain([]string{"--help"}), flag.ErrHelp)
	require.ErrorContains(t, realMain([]string{"serve"}), "unknown argument")
}

func TestRealMain_invalidListen(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, realMain([]string{"--listen", "nowhere", "--data", t.TempDir()}), "SERVICE_LISTEN")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	var errOut bytes.Buffer
	for _, arg := range []string{"-h", "--help"} {
		require.Zero(t, status(realMain([]string{arg}), &errOut))
	}
	require.Zero(t, status(nil, &errOut))
	require.Empty(t, errOut.String(), "the flag package has printed the usage")
	require.Equal(t, 1, status(realMain([]string{"serve"}), &errOut))
	require.Contains(t, errOut.String(), `signalboxd: unknown argument "serve"`)
	errOut.Reset()
	require.Equal(t, 1, status(fmt.Errorf("%w: interrupt", process.ErrKilled), &errOut))
	require.Empty(t, errOut.String(), "a killed process does not write to the terminal")
}
