package load

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// runLimit is the time limit of one load, on a busy machine.
const runLimit = 2 * time.Minute

// tools are the programs of the load, which are built from the folder in BENCH_TOOLS.
type tools struct{ dir, loadgen, mockengine string }

// buildTools builds the load generator and the engine. The agent's works can read their folder.
func buildTools(b *testing.B) tools {
	b.Helper()
	source := os.Getenv("BENCH_TOOLS")
	if source == "" {
		source = filepath.Join(testenv.Root(b), "..", "shared", "tools")
	}
	for _, name := range []string{"loadgen", "mockengine"} {
		require.DirExists(b, filepath.Join(source, name), "the load generator is missing; set BENCH_TOOLS to the folder of loadgen and mockengine")
	}
	dir := testenv.Folder(b)
	require.NoError(b, os.Chmod(dir, 0o755))
	cmd := exec.CommandContext(b.Context(), "go", "build", "-o", dir+string(filepath.Separator), "./loadgen", "./mockengine")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "build the load generator: %s", out)
	return tools{dir: dir, loadgen: filepath.Join(dir, "loadgen"), mockengine: filepath.Join(dir, "mockengine")}
}

// generator runs the load generator.
type generator struct {
	program string
	seconds int // length of a load of calls
}

// run puts one load on a server and returns the figures of the load generator.
func (g *generator) run(b *testing.B, t *target, mode string, args ...string) map[string]float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), runLimit)
	defer cancel()
	pids := make([]string, len(t.pids))
	for i, pid := range t.pids {
		pids[i] = strconv.Itoa(pid)
	}
	spec := "server=" + t.addr + t.path
	if len(pids) > 0 {
		spec += ",pid=" + strings.Join(pids, "+")
	}
	args = append([]string{"-mode", mode, "-rounds", "1"}, args...)
	if !t.token.IsZero() {
		args = append(args, "-token", t.token.Reveal())
	}
	cmd := exec.CommandContext(ctx, g.program, append(args, spec)...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, os.Stderr
	require.NoError(b, cmd.Run(), "load on %s: %s", t.name, text.String())
	got, err := parseFigures(text.String())
	require.NoError(b, err, "load on %s", t.name)
	return got
}

// parseFigures returns the figures of the only server in the output of the load generator, such as `rps=812[812..812]`
// and `errs=0`.
func parseFigures(output string) (map[string]float64, error) {
	figure := regexp.MustCompile(`(\S+)=([^\s\[]+)(?:\[\S*\])?`)
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		got := map[string]float64{}
		for _, m := range figure.FindAllStringSubmatch(line, -1) {
			v, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return nil, fmt.Errorf("the figure %s of the load generator: %w", m[1], err)
			}
			got[m[1]] = v
		}
		return got, nil
	}
	return nil, fmt.Errorf("the load generator printed no figures: %q", output)
}

func TestParseFigures(t *testing.T) {
	t.Parallel()
	got, err := parseFigures("# mode=closed c=64 loadavg 0.50 0.40 0.30 1/200 7\n" +
		"server          cpu_s/10k=0.1875[0.1875..0.1875]  p50_ms=1.2[1.2..1.2]  rps=8.012e+03[8012..8012]  errs=3\n")
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"cpu_s/10k": 0.1875, "p50_ms": 1.2, "rps": 8012, "errs": 3}, got)
	_, err = parseFigures("# mode=closed\n")
	require.ErrorContains(t, err, "printed no figures")
}
