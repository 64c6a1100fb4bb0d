package main

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
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
