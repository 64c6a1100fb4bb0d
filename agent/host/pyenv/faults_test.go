package pyenv_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// fakePrograms returns a PATH that contains the given programs as shell scripts.
func fakePrograms(t *testing.T, programs map[string]string) []string {
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
	_, err := pyenv.NewBuilder(dir, environ, clock.Real(), nil).Ensure(t.Context(), spec, "")
	return dir, err
}

func buildError(t *testing.T, err error) string {
	t.Helper()
	var build *pyenv.BuildError
	require.ErrorAs(t, err, &build, "the error must be a BuildError")
	return build.Output
}

func TestBuilder_Ensure_noSuitablePython(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		programs map[string]string
		words    []string
	}{
		"none":         {nil, []string{"3.11 or newer", "no Python that runs"}},
		"too old":      {map[string]string{"python3": `printf '3.9.2\t0\t/usr/bin/python3\t/usr\n'`}, []string{"3.11 or newer", "python3 is 3.9.2"}},
		"two too old":  {map[string]string{"python3": `printf '3.9.2\t0\tx\t/usr\n'`, "python": `printf '2.7.18\t0\tx\t/usr\n'`}, []string{"python3 is 3.9.2", "python is 2.7.18"}},
		"broken":       {map[string]string{"python3": "exit 127"}, []string{"no Python that runs"}},
		"other output": {map[string]string{"python3": "echo hello"}, []string{"no Python that runs"}},
	} {
		dir, err := ensure(t, fakePrograms(t, c.programs), executor.EnvironmentSpec{})
		message := buildError(t, err)
		for _, word := range c.words {
			require.Contains(t, message, word, name)
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries, name)
	}
}

func TestBuilder_Ensure_findsNewerPythonByOtherName(t *testing.T) {
	t.Parallel()
	environ, _ := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	dir := strings.TrimPrefix(environ[0], "PATH=")
	require.NoError(t, os.Rename(filepath.Join(dir, "python3"), filepath.Join(dir, "python3.13")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "python3"), []byte("#!"+dir+"/sh\nprintf '3.6.8\\t0\\tx\\t/usr\\n'\n"), 0o700))
	uv, err := os.ReadFile(filepath.Join(dir, "uv"))
	require.NoError(t, err)
	fixed := strings.ReplaceAll(string(uv), dir+"/python3\"", dir+"/python3.13\"")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "uv"), []byte(fixed), 0o700))
	_, err = ensure(t, environ, executor.EnvironmentSpec{})
	require.NoError(t, err)
}

func TestBuilder_Ensure_invalidDigests(t *testing.T) {
	t.Parallel()
	environ, log := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	for name, spec := range map[string]executor.EnvironmentSpec{
		"other digest":    {Requirements: idna, Digest: digest("other")},
		"no prefix":       {Requirements: idna, Digest: strings.TrimPrefix(digest(idna), "sha256:")},
		"empty digest":    {Requirements: idna, Digest: "sha256:"},
		"extra space":     {Requirements: idna + " ", Digest: digest(idna)},
		"no requirements": {Requirements: "", Digest: digest(idna)},
	} {
		_, err := ensure(t, environ, spec)
		require.Contains(t, buildError(t, err), "do not match the recipe's digest", name)
	}
	require.NoFileExists(t, log, "uv must not be started")
	_, err := ensure(t, environ, executor.EnvironmentSpec{Requirements: idna, Digest: digest(idna)})
	require.NoError(t, err)
}

func TestBuilder_Ensure_installerOutputIsError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ uv, want string }{
		"stderr":        {"echo looking >&2; echo 'error: no wheel for idna' >&2; exit 1", "error: no wheel for idna"},
		"stdout":        {"echo 'error: on stdout'; exit 1", "error: on stdout"},
		"no output":     {"exit 4", "exit status 4"},
		"killed":        {"kill -9 $$", "signal: killed"},
		"invalid UTF-8": {`printf 'bad \377\000 bytes\n'; exit 1`, "bad \uFFFD bytes"},
	} {
		environ, _ := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
		dir := strings.TrimPrefix(environ[0], "PATH=")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "uv"), []byte("#!"+dir+"/sh\n"+c.uv+"\n"), 0o700))
		folder, err := ensure(t, environ, executor.EnvironmentSpec{Requirements: idna})
		require.Contains(t, buildError(t, err), c.want, name)
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		// A process that another test is starting may still hold the lock of the build. The next build then removes the file.
		for _, e := range entries {
			require.True(t, strings.HasSuffix(e.Name(), ".lock"), "a failed build of %s left %s", name, e.Name())
		}
	}
}

// Only a failure of the command itself is the fault of the requirements.
func TestBuilder_Ensure_faultOfTheNode(t *testing.T) {
	t.Parallel()
	environ, _ := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	for _, c := range []struct {
		err   error
		fault bool
	}{
		{&pyenv.StepError{Reason: "the build exited with status 1"}, true},
		{fmt.Errorf("run uv: %w", &exec.ExitError{ProcessState: &os.ProcessState{}}), true},
		{pyenv.ErrInterrupted, false},
		{errors.New("look up the addresses of store.example: no such host"), false},
		{&fs.PathError{Op: "mkdir", Path: "/builds/step-1", Err: unix.ENOSPC}, false},
	} {
		b := pyenv.NewBuilder(t.TempDir(), environ, clock.Real(), func(context.Context, pyenv.Step) (string, error) { return "", c.err })
		_, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
		var build *pyenv.BuildError
		require.Equal(t, c.fault, errors.As(err, &build), "%v", c.err)
		require.ErrorContains(t, err, c.err.Error())
		require.Equal(t, !c.fault, errors.Is(err, c.err))
	}
}

func TestBuilder_Ensure_longOutputIsTruncated(t *testing.T) {
	t.Parallel()
	environ, _ := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	dir := strings.TrimPrefix(environ[0], "PATH=")
	script := "#!" + dir + "/sh\ni=0; while [ $i -lt 5000 ]; do echo line $i of the installer; i=$((i+1)); done; echo the reason; exit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "uv"), []byte(script), 0o700))
	_, err := ensure(t, environ, executor.EnvironmentSpec{Requirements: idna})
	message := buildError(t, err)
	require.LessOrEqual(t, len(message), executor.MaxMessage)
	require.True(t, strings.HasPrefix(message, "line "), "the message must start with a complete line")
	require.True(t, strings.HasSuffix(message, "the reason"))
}

func TestBuilder_Ensure_retryAfterFailure(t *testing.T) {
	t.Parallel()
	environ, _ := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	path := strings.TrimPrefix(environ[0], "PATH=")
	good, err := os.ReadFile(filepath.Join(path, "uv"))
	require.NoError(t, err)
	dir := t.TempDir()
	b := pyenv.NewBuilder(dir, environ, clock.Real(), nil)
	require.NoError(t, os.WriteFile(filepath.Join(path, "uv"), []byte("#!"+path+"/sh\nexit 1\n"), 0o700))
	_, err = b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
	buildError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(path, "uv"), good, 0o700))
	env, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
	require.NoError(t, err)
	require.FileExists(t, env.Python)
}

func TestBuilder_Ensure_canceledWhileWaitingForLock(t *testing.T) {
	t.Parallel()
	environ, log := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	dir := t.TempDir()
	env, err := pyenv.NewBuilder(dir, environ, clock.Real(), nil).Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(env.Dir, ".signalbox-complete")))
	// The test holds the build lock, as another process would.
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
		_, err := pyenv.NewBuilder(dir, environ, clk, nil).Ensure(ctx, executor.EnvironmentSpec{Requirements: idna}, "")
		done <- err
	}()
	require.NoError(t, clk.Await(t.Context(), 1), "the builder must wait for the lock")
	cancel()
	err = <-done
	require.ErrorIs(t, err, context.Canceled)
	var build *pyenv.BuildError
	require.NotErrorAs(t, err, &build, "cancellation must not be a build error")
	after, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the builder must not build without the lock")
}

func TestBuilder_Ensure_rebuildsWithoutInterpreter(t *testing.T) {
	t.Parallel()
	environ, log := withUV(t, "UV_DEFAULT_INDEX=http://index.example/simple")
	b := pyenv.NewBuilder(t.TempDir(), environ, clock.Real(), nil)
	env, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
	require.NoError(t, err)
	require.NoError(t, os.Remove(env.Python))
	require.NoError(t, os.Symlink("/no/such/python", env.Python))
	again, err := b.Ensure(t.Context(), executor.EnvironmentSpec{Requirements: idna}, "")
	require.NoError(t, err)
	require.Equal(t, env, again)
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(raw), "pip install"))
	require.FileExists(t, env.Python)
}

func TestBuilder_Ensure_requirementsFileIsPrivate(t *testing.T) {
	t.Parallel()
	// The requirements may contain an index URL with a password.
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
	require.Contains(t, string(raw), "--no-deps --require-hashes", "hashes must be required")
}
