package revision

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// The lists have all options of the launchers, except those that the agent sets.
func TestOptions_sameAsLaunchers(t *testing.T) {
	t.Parallel()
	for launcher, options := range map[string][]string{"llamacpp.py": llamaCppOptions(), "transformers_serve.py": transformersOptions()} {
		raw, err := os.ReadFile(filepath.Join("../../../../agent/engine/launch", launcher))
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
		require.ElementsMatch(t, want, options, launcher)
	}
}

func TestCheckOptions(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkOptions(EngineLlamaCpp, []string{"--ctx-size", "4096", "-ngl", "-1", "--pooling=cls", "--exact", "-c=2048"}))
	for _, wrong := range []string{"--flash-attn", "--model=/etc/passwd", "-x", "--", "--ctx-s"} {
		err := checkOptions(EngineLlamaCpp, []string{"--threads", "1", wrong})
		require.True(t, fault.Is(err, fault.Refused), "%s: %v", wrong, err)
		require.ErrorContains(t, err, "--n-gpu-layers", "the error names the options that exist")
	}
	require.NoError(t, checkOptions(EngineTransformers, []string{"--ctx-size", "4096", "--dtype=float32", "-t", "2"}))
	require.ErrorContains(t, checkOptions(EngineTransformers, []string{"--trust-remote-code"}), "engine transformers has no option")
}
