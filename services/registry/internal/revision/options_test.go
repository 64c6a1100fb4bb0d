package revision

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// The list has all options of the launcher, except those that the agent sets.
func TestLlamaCppOptions_sameAsLauncher(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../../agent/engine/launch/llamacpp.py")
	require.NoError(t, err)
	var want []string
	for _, call := range regexp.MustCompile(`(?s)add_argument\((.*?)(?:type|action|choices|default|help)=`).FindAllStringSubmatch(string(raw), -1) {
		for _, option := range regexp.MustCompile(`"(-[^"]+)"`).FindAllStringSubmatch(call[1], -1) {
			want = append(want, option[1])
		}
	}
	want = slices.DeleteFunc(want, func(option string) bool {
		return slices.Contains([]string{"--model", "--host", "--port", "--api-key-file", "--alias"}, option)
	})
	require.ElementsMatch(t, want, llamaCppOptions())
}

func TestCheckOptions(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkOptions([]string{"--ctx-size", "4096", "-ngl", "-1", "--pooling=cls", "--exact", "-c=2048"}))
	for _, wrong := range []string{"--flash-attn", "--model=/etc/passwd", "-x", "--", "--ctx-s"} {
		err := checkOptions([]string{"--threads", "1", wrong})
		require.True(t, fault.Is(err, fault.Refused), "%s: %v", wrong, err)
		require.ErrorContains(t, err, "--n-gpu-layers", "the error names the options that exist")
	}
}
