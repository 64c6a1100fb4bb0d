package single

import (
	"bytes"
	"flag"
	"io"
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

func TestParseShowsTheVersion(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_, done, err := Parse([]string{"--version"}, &out, io.Discard)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, version.Server()+"\n", out.String())
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	var errOut bytes.Buffer
	_, done, err := Parse([]string{"--nonsense"}, io.Discard, &errOut)
	require.Error(t, err)
	require.True(t, done)
	require.Contains(t, errOut.String(), "nonsense")
	_, _, err = Parse([]string{"-h"}, io.Discard, io.Discard)
	require.ErrorIs(t, err, flag.ErrHelp)
}

func TestParseTakesNoArguments(t *testing.T) {
	t.Parallel()
	_, done, err := Parse([]string{"--data", "d", "serve"}, io.Discard, io.Discard)
	require.ErrorContains(t, err, `unknown argument "serve"`)
	require.True(t, done)
}
