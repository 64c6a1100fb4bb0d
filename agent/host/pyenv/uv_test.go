package pyenv_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// withRealUV returns an environment whose PATH contains only Python and the pinned uv. The cache of uv is
// empty, so packages can come only from the index.
func withRealUV(t *testing.T, more ...string) []string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "tools", "uv.sh")).Output()
	require.NoError(t, err)
	path := only(t, "python3")
	dir := strings.TrimPrefix(path[0], "PATH=")
	require.NoError(t, os.Symlink(strings.TrimSpace(string(out)), filepath.Join(dir, "uv")))
	return append(environ(more...), append(path, "UV_CACHE_DIR="+t.TempDir())...)
}

func TestBuilder_Ensure_realUV(t *testing.T) {
	t.Parallel()
	env, err := pyenv.NewBuilder(t.TempDir(), withRealUV(t), clock.Real(), nil).
		Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), env.Python, "-c", "import idna, sys; print(idna.__version__, sys.prefix)").Output()
	require.NoError(t, err)
	require.Equal(t, "3.20 "+env.Dir, strings.TrimSpace(string(out)))
	written, err := os.ReadFile(filepath.Join(env.Dir, "pyvenv.cfg"))
	require.NoError(t, err)
	require.Contains(t, string(written), "uv = ", "uv must have created the environment")
}

func TestBuilder_Ensure_realUVErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		requirements string
		environ      []string
		want         string
	}{
		"unreachable index": {idna, deadIndex(), "idna"},
		"wrong hash":        {strings.ReplaceAll(idna, "ab7ae712", "00000000"), nil, "Hash mismatch"},
		"missing hash":      {"idna==3.20\n", nil, "--require-hashes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := pyenv.NewBuilder(dir, withRealUV(t, c.environ...), clock.Real(), nil).
				Ensure(t.Context(), executor.EnvironmentSpec{Requirements: c.requirements}, "")
			var build *pyenv.BuildError
			require.ErrorAs(t, err, &build)
			require.Contains(t, build.Output, c.want)
			left, err := filepath.Glob(filepath.Join(dir, "*.build-*"))
			require.NoError(t, err)
			require.Empty(t, left, "the folder of the failed build must be removed")
		})
	}
}
