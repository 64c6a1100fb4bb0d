package cli

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// The program is small enough to be downloaded, and has nothing of the services in it.
func TestProgram(t *testing.T) {
	t.Parallel()
	const most = 20 << 20
	info, err := os.Stat(testenv.Bin(t, "signalbox"))
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(most), "the program is too large")
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/signalbox")
	list.Dir = testenv.Root(t)
	out, err := list.Output()
	require.NoError(t, err)
	for dependency := range strings.FieldsSeq(string(out)) {
		require.NotContains(t, dependency, "signalbox/services/", "the command line goes through the API only")
	}
}

// TestHelp_time prints how long the help takes; the goal is 60 ms.
func TestHelp_time(t *testing.T) {
	clk := clock.Real()
	for _, args := range [][]string{{"--help"}, {"jobs", "--help"}, {"jobs", "ls", "--help"}} {
		var took []time.Duration
		const rounds = 9
		for range rounds {
			began := clk.Now()
			cmd := exec.CommandContext(t.Context(), testenv.Bin(t, "signalbox"), args...)
			cmd.Env = plainEnv(t.TempDir())
			_ = cmd.Run() // only its time counts
			took = append(took, clock.Since(clk, began))
		}
		slices.Sort(took)
		t.Logf("signalbox %-16s median %s, slowest %s", strings.Join(args, " "), took[rounds/2].Round(time.Millisecond), took[rounds-1].Round(time.Millisecond))
	}
}
