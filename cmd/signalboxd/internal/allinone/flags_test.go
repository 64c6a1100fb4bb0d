package allinone

import (
	"bytes"
	"flag"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/version"
)

func TestParse(t *testing.T) {
	t.Parallel()
	o, done, err := Parse([]string{"--data", "d", "--listen", ":0", "--ready-file", "r"}, io.Discard, io.Discard)
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, map[string]string{"SERVICE_DATA": "d", "SERVICE_LISTEN": ":0"}, o.Flags)
	require.Equal(t, "r", o.ReadyFile)
	require.False(t, o.PrintConfig)
}

func TestParse_version(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_, done, err := Parse([]string{"--version"}, &out, io.Discard)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, version.Server()+"\n", out.String())
}

func TestParse_unknownFlag(t *testing.T) {
	t.Parallel()
	var errOut bytes.Buffer
	_, done, err := Parse([]string{"--nonsense"}, io.Discard, &errOut)
	require.Error(t, err)
	require.True(t, done)
	require.Contains(t, errOut.String(), "nonsense")
	_, _, err = Parse([]string{"-h"}, io.Discard, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
}

func TestParse_unknownArgument(t *testing.T) {
	t.Parallel()
	_, done, err := Parse([]string{"--data", "d", "serve"}, io.Discard, io.Discard)
	require.ErrorContains(t, err, `unknown argument "serve"`)
	require.True(t, done)
}

func TestParse_emptyFlagValue(t *testing.T) {
	t.Parallel()
	for flagged, want := range map[string]string{"data": "a folder", "listen": "host:port", "ready-file": "a file"} {
		for _, empty := range []string{"", " ", "\t"} {
			_, done, err := Parse([]string{"--" + flagged, empty}, io.Discard, io.Discard)
			require.ErrorContains(t, err, `for flag -`+flagged+`: want `+want+`, got nothing`)
			require.True(t, done)
		}
	}
}

func TestRun_emptySettings(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	for name, settings := range map[string]map[string]string{
		"SERVICE_DATA: must name a folder (--data)":                  {"SERVICE_DATA": "", "SERVICE_LISTEN": "127.0.0.1:0"},
		"SERVICE_LISTEN: must be an address as host:port (--listen)": {"SERVICE_DATA": data, "SERVICE_LISTEN": ""},
	} {
		_, _, err := runInvalid(t, settings, Options{})
		require.ErrorContains(t, err, name)
	}
	require.NoDirExists(t, data)
	require.NoFileExists(t, "lock", "no file may be written in the working directory")
}
