package main

import (
	"bytes"
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/run"
)

func TestFlagsThatStartNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, realMain([]string{"--version"}))
	require.NoError(t, realMain([]string{"--print-config", "--data", t.TempDir()}))
	require.ErrorIs(t, realMain([]string{"--help"}), flag.ErrHelp)
	require.ErrorContains(t, realMain([]string{"serve"}), "unknown argument")
}

func TestAFlagIsHeldToItsSetting(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, realMain([]string{"--listen", "nowhere", "--data", t.TempDir()}), "SERVICE_LISTEN")
}

func TestToBeAskedForHelpIsNoFault(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	for _, arg := range []string{"-h", "--help"} {
		require.Zero(t, status(realMain([]string{arg}), &said))
	}
	require.Zero(t, status(nil, &said))
	require.Empty(t, said.String(), "the usage is told already")
	require.Equal(t, 1, status(realMain([]string{"serve"}), &said))
	require.Contains(t, said.String(), `signalboxd: unknown argument "serve"`)
	said.Reset()
	require.Equal(t, 1, status(fmt.Errorf("%w: interrupt", run.ErrKilled), &said))
	require.Empty(t, said.String(), "who kills waits for nothing, not for a terminal either")
}
