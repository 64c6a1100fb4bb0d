package redistest_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/redistest"
)

func TestProgram_isServer(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), redistest.Program(t), "--version").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "server v=")
}
