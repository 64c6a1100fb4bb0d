package contract

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/stand"
)

// leastBreaks is how many planted breaks the suite must be able to see.
const leastBreaks = 30

// TestEveryBreakStillApplies demands that each planted break says what it breaks, names goldens that are there, changes
// the product and nothing else, and still applies. That the goldens turn red is what `make breaks` sees.
func TestEveryBreakStillApplies(t *testing.T) {
	t.Parallel()
	root := stand.Root(t)
	patches, err := filepath.Glob(filepath.Join("breaks", "*.patch"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), leastBreaks)
	for _, patch := range patches {
		raw, err := os.ReadFile(patch)
		require.NoError(t, err)
		head, diff, found := strings.Cut(string(raw), "\n\ndiff --git ")
		require.True(t, found, patch)
		title, goldens, _ := strings.Cut(head, "\n")
		require.NotEmpty(t, title, patch)
		require.NotEmpty(t, goldens, patch)
		for line := range strings.Lines(goldens) {
			name, ok := strings.CutPrefix(strings.TrimSpace(line), "golden: ")
			require.True(t, ok, "%s: %s", patch, line)
			require.FileExists(t, filepath.Join("golden", name+".txtar"), patch)
		}
		require.NotContains(t, strings.SplitN(diff, "\n", 2)[0], "_test.go", patch)
		path, err := filepath.Abs(patch)
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), "git", "apply", "--check", path)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s does not apply any more: %s", patch, out)
	}
}
