package agent_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent"
	"github.com/signalbox-dev/signalbox/platform/conf"
)

func run(t *testing.T, settings map[string]string, args ...string) (out, words string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	err = agent.Process{Args: args, Settings: conf.Map(settings), Out: &o, Err: &e, Version: "test"}.Run()
	return o.String(), e.String(), err
}

func TestPrintConfig_flagsOverrideEnvironment(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("the-secret\n"), 0o600))
	out, _, err := run(t, map[string]string{"SERVICE_AGENT_DATA": "/from/env", "SERVICE_AGENT_SERVER": "http://env"},
		"--print-config", "--data", "/from/flag", "--join-token-file", token, "--stop-works")
	require.NoError(t, err)
	require.Contains(t, out, "SERVICE_AGENT_DATA=/from/flag")
	require.Contains(t, out, "SERVICE_AGENT_SERVER=http://env")
	require.Contains(t, out, "SERVICE_AGENT_STOP_WORKS=true")
	require.Contains(t, out, "SERVICE_AGENT_JOIN_TOKEN=[redacted]")
	require.NotContains(t, out, "the-secret")
}

func TestProcess_Run_invalidSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings map[string]string
		args     []string
		want     string
	}{
		"unknown flag":         {args: []string{"--no-such"}, want: "no-such"},
		"stray argument":       {args: []string{"stray"}, want: "stray"},
		"bad switch":           {args: []string{"--stop-works=maybe"}, want: "maybe"},
		"negative cache":       {settings: map[string]string{"SERVICE_AGENT_CACHE_BYTES": "-1"}, want: "must not be negative"},
		"port of another kind": {settings: map[string]string{"SERVICE_AGENT_PROTECTED_PORTS": "8080,https"}, want: `"https" is not a port between 1 and 65535`},
		"reach without port":   {settings: map[string]string{"SERVICE_AGENT_WORK_REACH": "10.0.0.5"}, want: "must contain addresses of the form host:port"},
		"not a number":         {settings: map[string]string{"SERVICE_AGENT_CACHE_BYTES": "many"}, want: "SERVICE_AGENT_CACHE_BYTES"},
		"folder inside a file": {settings: map[string]string{"SERVICE_AGENT_DATA": "/dev/null/x"}, want: "create the data folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := run(t, c.settings, c.args...)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestProcess_Run_warnsAboutUnknownSetting(t *testing.T) {
	t.Parallel()
	_, words, err := run(t, map[string]string{"SERVICE_AGENT_DATE": "x", "SERVICE_AGENT_DATA": "/dev/null/x"})
	require.Error(t, err)
	require.Contains(t, words, "SERVICE_AGENT_DATE")
}
