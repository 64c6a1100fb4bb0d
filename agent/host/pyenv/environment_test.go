package pyenv_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// idna requires a small wheel without dependencies.
const idna = `idna==3.20 \
    --hash=sha256:ab7ae7122974553370f0bdb919e1a960b2cd1bc1ef0276416d896db81c14582c
`

// deadIndex returns environment variables that set an unreachable package index.
func deadIndex() []string {
	return []string{"PIP_INDEX_URL=http://127.0.0.1:9/simple", "PIP_FIND_LINKS=", "PIP_RETRIES=0", "UV_DEFAULT_INDEX=http://127.0.0.1:9/simple", "UV_HTTP_RETRIES=0"}
}

func environ(more ...string) []string { return append(os.Environ(), more...) }

// only returns a PATH with links to the given programs and no others.
func only(t *testing.T, programs ...string) []string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range programs {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		if name == "python3" {
			// The shim of a version manager depends on its own path, so link the real program.
			out, err := exec.CommandContext(t.Context(), path, "-c", "import sys; print(sys.executable)").Output()
			require.NoError(t, err)
			path = strings.TrimSpace(string(out))
		}
		require.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	return []string{"PATH=" + dir}
}

func plain() executor.EnvironmentSpec { return executor.EnvironmentSpec{} }

func TestBuilder_Ensure_noRequirements(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := pyenv.NewBuilder(dir, environ(deadIndex()...), clock.Real(), nil)
	env, err := b.Ensure(t.Context(), plain(), "")
	require.NoError(t, err)
	require.DirExists(t, env.Dir+".uses", "an environment without a list of works is never removed")
	out, err := exec.CommandContext(t.Context(), env.Python, "-c", "import sys; print(sys.prefix)").Output()
	require.NoError(t, err)
	require.Equal(t, env.Dir, strings.TrimSpace(string(out)))
	require.True(t, strings.HasSuffix(env.Dir, "-"+env.Version))

	again, err := pyenv.NewBuilder(dir, environ(), clock.Real(), nil).Ensure(t.Context(), plain(), "")
	require.NoError(t, err)
	require.Equal(t, env, again)
}

func TestBuilder_Ensure_unreachableIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := pyenv.NewBuilder(dir, append(environ(deadIndex()...), only(t, "python3")...), clock.Real(), nil)
	_, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
	var build *pyenv.BuildError
	require.ErrorAs(t, err, &build)
	require.Contains(t, build.Output, "idna")
	require.LessOrEqual(t, len(build.Output), executor.MaxMessage)
	left, err := filepath.Glob(filepath.Join(dir, "*.build-*"))
	require.NoError(t, err)
	require.Empty(t, left, "the folder of the failed build must be removed")
}

func TestBuilder_Ensure_digestMismatch(t *testing.T) {
	t.Parallel()
	b := pyenv.NewBuilder(t.TempDir(), environ(), clock.Real(), nil)
	_, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna, Digest: "sha256:" + strings.Repeat("0", 64)}, "")
	var build *pyenv.BuildError
	require.ErrorAs(t, err, &build)
	require.Contains(t, build.Output, "digest")
}

func TestBuilder_Ensure_pythonMissingOrTooOld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, want string }{
		"missing": {"", "no Python that runs"},
		"old":     {"#!/bin/sh\nprintf '3.10.2\\t0\\t/usr/bin/python3\\t/usr\\n'\n", "python3 is 3.10.2"},
		"broken":  {"#!/bin/sh\nexit 127\n", "no Python that runs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.script != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "python3"), []byte(c.script), 0o700))
			}
			b := pyenv.NewBuilder(t.TempDir(), []string{"PATH=" + dir}, clock.Real(), nil)
			_, err := b.Ensure(t.Context(), plain(), "")
			var build *pyenv.BuildError
			require.ErrorAs(t, err, &build)
			require.Contains(t, build.Output, "Python 3.11 or newer")
			require.Contains(t, build.Output, c.want)
		})
	}
}

// uvScript is a fake uv that logs its calls and creates the environment. The real uv may not be installed.
const uvScript = `#!/bin/sh
echo "$@" >> "$LOG"
env | grep ^UV_ >> "$LOG"
if [ "$1" = venv ]; then for last; do :; done; exec "$PYTHON" -m venv --without-pip "$last"; fi
sleep "${PAUSE:-0}"
`

func withUV(t *testing.T, more ...string) (environ []string, log string) {
	t.Helper()
	path := only(t, "python3", "sh", "grep", "env", "sleep")
	dir := strings.TrimPrefix(path[0], "PATH=")
	log = filepath.Join(t.TempDir(), "log")
	script := strings.ReplaceAll(uvScript, "$LOG", log)
	script = strings.ReplaceAll(script, "$PYTHON", filepath.Join(dir, "python3"))
	for _, m := range more {
		name, value, _ := strings.Cut(m, "=")
		script = strings.ReplaceAll(script, "${"+name+":-0}", value)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "uv"), []byte(script), 0o700))
	return append(path, more...), log
}

func TestBuilder_Ensure_usesUV(t *testing.T) {
	t.Parallel()
	environ, log := withUV(t, "PIP_INDEX_URL=http://index.example/simple")
	b := pyenv.NewBuilder(t.TempDir(), environ, clock.Real(), nil)
	_, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
	require.NoError(t, err)
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Contains(t, string(raw), "pip install --no-progress --no-deps --require-hashes --only-binary :all: --python")
	require.Contains(t, string(raw), "UV_DEFAULT_INDEX=http://index.example/simple", "the user's index for pip must be passed to uv")
}

func TestBuilder_Ensure_concurrentBuilders(t *testing.T) {
	t.Parallel()
	environ, log := withUV(t, "PAUSE=0.3")
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			// Each goroutine has its own builder, as separate processes would.
			_, err := pyenv.NewBuilder(dir, environ, clock.Real(), nil).Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
			if err != nil {
				t.Errorf("build: %v", err)
			}
		})
	}
	wg.Wait()
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(raw), "pip install"), "%s", raw)
}

func TestBuilder_Ensure_replacesIncompleteBuild(t *testing.T) {
	t.Parallel()
	environ, log := withUV(t)
	dir := t.TempDir()
	spec := executor.EnvironmentSpec{Requirements: idna}
	env, err := pyenv.NewBuilder(dir, environ, clock.Real(), nil).Ensure(t.Context(), spec, "")
	require.NoError(t, err)
	// A killed builder leaves a build folder, and the environment has no marker.
	require.NoError(t, os.Remove(filepath.Join(env.Dir, ".signalbox-complete")))
	require.NoError(t, os.WriteFile(filepath.Join(env.Dir, "rubbish"), nil, 0o600))
	half := env.Dir + ".build-123"
	require.NoError(t, os.MkdirAll(half, 0o700))

	again, err := pyenv.NewBuilder(dir, environ, clock.Real(), nil).Ensure(t.Context(), spec, "")
	require.NoError(t, err)
	require.Equal(t, env, again)
	require.NoFileExists(t, filepath.Join(env.Dir, "rubbish"))
	require.NoDirExists(t, half)
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(raw), "pip install"))
}

func TestBuilder_Ensure_canceled(t *testing.T) {
	t.Parallel()
	environ, log := withUV(t, "PAUSE=86400")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := pyenv.NewBuilder(t.TempDir(), environ, clock.Real(), nil).Ensure(ctx, executor.EnvironmentSpec{Requirements: idna}, "")
		done <- err
	}()
	// Wait until the installer has started. It would run for a day.
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(log)
		return strings.Contains(string(raw), "pip install")
	}, time.Minute, 5*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestBuilder_Ensure_trimsOtherEnvironments(t *testing.T) {
	t.Parallel()
	dir, work, ended := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "ended")
	b := pyenv.NewBuilder(dir, environ(deadIndex()...), clock.Real(), nil)
	var freed int64
	b.Limit(1, func(_ context.Context, bytes int64) { freed += bytes })
	used, err := b.Ensure(t.Context(), plain(), work)
	require.NoError(t, err)
	other := executor.EnvironmentSpec{Requirements: "# another\n"}
	second, err := b.Ensure(t.Context(), other, ended)
	require.NoError(t, err)
	require.DirExists(t, used.Dir, "an environment that a work uses must be kept")
	require.DirExists(t, second.Dir, "the requested environment must never be removed")
	_, err = b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: "# a third\n"}, ended)
	require.NoError(t, err)
	require.NoDirExists(t, second.Dir)
	require.DirExists(t, used.Dir)
	require.Positive(t, freed)
	again, err := b.Ensure(t.Context(), other, work)
	require.NoError(t, err)
	require.FileExists(t, again.Python, "a removed environment must be built again")
}
