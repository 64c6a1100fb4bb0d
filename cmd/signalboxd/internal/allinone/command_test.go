package allinone

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/process"
)

func TestMain_flags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--version"}, {"--print-config", "--data", t.TempDir()}} {
		var out, errOut bytes.Buffer
		require.Zero(t, Main(args, &out, &errOut), errOut.String())
		require.NotEmpty(t, out.String())
	}
	for _, arg := range []string{"-h", "--help"} {
		var out, errOut bytes.Buffer
		require.Zero(t, Main([]string{arg}, &out, &errOut))
		require.Contains(t, errOut.String(), "-listen")
		require.NotContains(t, errOut.String(), "signalboxd: ", "the usage is not an error")
	}
}

func TestMain_invalidArguments(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"signalboxd: unknown argument \"serve\"\n": {"serve"},
		"SERVICE_LISTEN": {"--listen", "nowhere", "--data", t.TempDir()},
	} {
		var out, errOut bytes.Buffer
		require.Equal(t, 1, Main(args, &out, &errOut))
		require.Contains(t, errOut.String(), want)
	}
}

func TestStatus_killedWritesNothing(t *testing.T) {
	t.Parallel()
	var errOut bytes.Buffer
	require.Equal(t, 1, status(fmt.Errorf("%w: interrupt", process.ErrKilled), &errOut))
	require.Empty(t, errOut.String())
}
