package contract

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// minPatches is the minimum number of patches in breaks.
const minPatches = 30

// TestEveryPatchOfBreaksApplies checks that each patch in breaks has a title, lists existing goldens, changes
// no test, and still applies. `make breaks` checks that the listed goldens fail with the patch.
func TestEveryPatchOfBreaksApplies(t *testing.T) {
	t.Parallel()
	root := testenv.Root(t)
	patches, err := filepath.Glob(filepath.Join("breaks", "*.patch"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), minPatches)
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
		require.NoError(t, err, "%s no longer applies: %s", patch, out)
	}
}
