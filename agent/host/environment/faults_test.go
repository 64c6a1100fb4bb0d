package environment_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/environment"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// pretend is a PATH of programs that are a shell script each.
func pretend(t *testing.T, programs map[string]string) []string {
	t.Helper()
	path := only(t, "sh")
	dir := strings.TrimPrefix(path[0], "PATH=")
	for name, text := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!"+dir+"/sh\n"+text+"\n"), 0o700))
	}
	return path
}

func digest(requirements string) string {
	sum := sha256.Sum256([]byte(requirements))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func ensure(t *testing.T, environ []string, spec executor.EnvironmentSpec) (string, error) {
	t.Helper()
	dir := t.TempDir()
	_, err := environment.NewBuilder(dir, environ, clock.Real()).Ensure(t.Context(), spec)
	return dir, err
}

func buildError(t *testing.T, err error) string {
	t.Helper()
	var build *environment.BuildError
	require.ErrorAs(t, err, &build, "it is the environment's own fault")
	return build.Words
}

func TestANodeWithoutAFittingPythonSaysWhatItHas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		programs map[string]string
		words    []string
	}{
		"none":           {nil, []string{"3.11 or newer", "none in PATH"}},
		"too old":        {map[string]string{"python3": `printf '3.9.2\t0\t/usr/bin/python3\n'`}, []string{"3.11 or newer", "python3 is 3.9.2"}},
		"two too old":    {map[string]string{"python3": `printf '3.9.2\t0\tx\n'`, "python": `printf '2.7.18\t0\tx\n'`}, []string{"python3 is 3.9.2", "python is 2.7.18"}},
		"broken":         {map[string]string{"python3": "exit 127"}, []string{"none in PATH"}},
		"talks nonsense": {map[string]string{"python3": "echo hello"}, []string{"none in PATH"}},
	} {
		dir, err := ensure(t, pretend(t, c.programs), executor.EnvironmentSpec{})
		said := buildError(t, err)
		for _, word := range c.words {
			require.Contains(t, said, word, name)
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries, name)
	}
}

func TestALaterNameIsTakenWhereTheFirstIsTooOld(t *testing.T) {
	t.Parallel()
	environ, _ := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	dir := strings.TrimPrefix(environ[0], "PATH=")
	require.NoError(t, os.Rename(filepath.Join(dir, "python3"), filepath.Join(dir, "python3.13")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "python3"), []byte("#!"+dir+"/sh\nprintf '3.6.8\\t0\\tx\\n'\n"), 0o700))
	uv, err := os.ReadFile(filepath.Join(dir, "uv"))
	require.NoError(t, err)
	fixed := strings.ReplaceAll(string(uv), dir+"/python3\"", dir+"/python3.13\"")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "uv"), []byte(fixed), 0o700))
	_, err = ensure(t, environ, executor.EnvironmentSpec{})
	require.NoError(t, err)
}

func TestNobodyGetsTheEnvironmentOfOtherRequirements(t *testing.T) {
	t.Parallel()
	environ, log := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	for name, spec := range map[string]executor.EnvironmentSpec{
		"of others":    {Requirements: idna, Digest: digest("other")},
		"no prefix":    {Requirements: idna, Digest: strings.TrimPrefix(digest(idna), "sha256:")},
		"no digest":    {Requirements: idna, Digest: "sha256:"},
		"one space":    {Requirements: idna + " ", Digest: digest(idna)},
		"of the empty": {Requirements: "", Digest: digest(idna)},
	} {
		_, err := ensure(t, environ, spec)
		require.Contains(t, buildError(t, err), "do not have the digest", name)
	}
	require.NoFileExists(t, log, "nothing was run for them")
	_, err := ensure(t, environ, executor.EnvironmentSpec{Requirements: idna, Digest: digest(idna)})
	require.NoError(t, err)
}

func TestTheInstallersLastWordsAreTheError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ uv, want string }{
		"its error":           {"echo looking >&2; echo 'error: no wheel for idna' >&2; exit 1", "error: no wheel for idna"},
		"of its output too":   {"echo 'error: on stdout'; exit 1", "error: on stdout"},
		"silence":             {"exit 4", "exit status 4"},
		"a death":             {"kill -9 $$", "signal: killed"},
		"bytes that are none": {`printf 'bad \377\000 bytes\n'; exit 1`, "bad \uFFFD bytes"},
	} {
		environ, _ := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
		dir := strings.TrimPrefix(environ[0], "PATH=")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "uv"), []byte("#!"+dir+"/sh\n"+c.uv+"\n"), 0o700))
		folder, err := ensure(t, environ, executor.EnvironmentSpec{Requirements: idna})
		require.Contains(t, buildError(t, err), c.want, name)
		left, err := filepath.Glob(filepath.Join(folder, "*.build-*"))
		require.NoError(t, err)
		require.Empty(t, left, name)
	}
}

func TestALotOfWordsAreCutToTheirEnd(t *testing.T) {
	t.Parallel()
	environ, _ := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	dir := strings.TrimPrefix(environ[0], "PATH=")
	script := "#!" + dir + "/sh\ni=0; while [ $i -lt 5000 ]; do echo line $i of the installer; i=$((i+1)); done; echo the reason; exit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "uv"), []byte(script), 0o700))
	_, err := ensure(t, environ, executor.EnvironmentSpec{Requirements: idna})
	said := buildError(t, err)
	require.LessOrEqual(t, len(said), executor.MaxMessage)
	require.True(t, strings.HasPrefix(said, "line "), "it begins with a whole line")
	require.True(t, strings.HasSuffix(said, "the reason"))
}

func TestABuildThatFailedIsTriedAnew(t *testing.T) {
	t.Parallel()
	environ, _ := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	path := strings.TrimPrefix(environ[0], "PATH=")
	good, err := os.ReadFile(filepath.Join(path, "uv"))
	require.NoError(t, err)
	dir := t.TempDir()
	b := environment.NewBuilder(dir, environ, clock.Real())
	require.NoError(t, os.WriteFile(filepath.Join(path, "uv"), []byte("#!"+path+"/sh\nexit 1\n"), 0o700))
	_, err = b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna})
	buildError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(path, "uv"), good, 0o700))
	env, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna})
	require.NoError(t, err)
	require.FileExists(t, env.Python)
}

func TestWhoWaitsForAnotherBuilderMayLeave(t *testing.T) {
	t.Parallel()
	environ, log := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	dir := t.TempDir()
	env, err := environment.NewBuilder(dir, environ, clock.Real()).Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna})
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(env.Dir, ".signalbox-complete")))
	// Another process has the lock of this environment.
	lock, err := os.OpenFile(env.Dir+".lock", os.O_RDWR, 0o600)
	require.NoError(t, err)
	defer func() { _ = lock.Close() }()
	require.NoError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	before, err := os.ReadFile(log)
	require.NoError(t, err)

	clk := clock.NewFake(clock.Real().Now())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := environment.NewBuilder(dir, environ, clk).Ensure(ctx, executor.EnvironmentSpec{Requirements: idna})
		done <- err
	}()
	require.NoError(t, clk.Await(t.Context(), 1), "it waits for the lock")
	cancel()
	err = <-done
	require.ErrorIs(t, err, context.Canceled)
	var build *environment.BuildError
	require.NotErrorAs(t, err, &build, "that is not the environment's fault")
	after, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "it built beside the other one")
}

func TestAnEnvironmentWhoseInterpreterWasRemovedIsBuiltAgain(t *testing.T) {
	t.Parallel()
	environ, log := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	b := environment.NewBuilder(t.TempDir(), environ, clock.Real())
	env, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna})
	require.NoError(t, err)
	require.NoError(t, os.Remove(env.Python))
	require.NoError(t, os.Symlink("/no/such/python", env.Python))
	again, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna})
	require.NoError(t, err)
	require.Equal(t, env, again)
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(raw), "pip install"))
	require.FileExists(t, env.Python)
}

func TestTheRequirementsArePrivateWhileTheyAreInstalled(t *testing.T) {
	t.Parallel()
	// They may name an index with a password in it.
	environ, log := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	path := strings.TrimPrefix(environ[0], "PATH=")
	require.NoError(t, os.Symlink("/bin/ls", filepath.Join(path, "ls")))
	uv, err := os.ReadFile(filepath.Join(path, "uv"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(path, "uv"), append(uv, []byte("for last; do :; done; ls -l \"$last\" >> "+log+"\n")...), 0o700))
	_, err = ensure(t, environ, executor.EnvironmentSpec{Requirements: idna})
	require.NoError(t, err)
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Contains(t, string(raw), "-rw-------")
	require.Contains(t, string(raw), "--no-deps --require-hashes", "what is not pinned by its hash is refused")
}
