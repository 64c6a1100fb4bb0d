package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const version16 = `echo "postgres (PostgreSQL) 16.4 (Debian 16.4-1.pgdg120+2)"`

// programs creates a folder with programs named postgres and initdb that run the given scripts. `postgres --version`
// always works, because chooseIdentity calls it.
func programs(t *testing.T, postgres, initdb string) string {
	t.Helper()
	dir := t.TempDir()
	script := func(name, text string) {
		writeScript(t, filepath.Join(dir, name), text)
	}
	script("postgres", `if [ "$1" = --version ]; then `+version16+"; exit 0; fi\n"+postgres)
	script("initdb", initdb)
	return dir
}

// writeScript creates an executable script. A process that is started meanwhile would inherit the file that is open for
// writing, and the kernel runs no such file, so none is started.
func writeScript(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
}

// makesCluster is an initdb that only writes the PG_VERSION file of a complete cluster.
const makesCluster = `while [ "$1" != -D ]; do shift; done; echo 16 > "$2/PG_VERSION"`

func TestStart_failingInitdb(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), BinDir: programs(t, "exit 1", `echo one; echo two; echo three; echo four; echo "no space left" >&2; exit 7`)}
	for range 2 {
		_, err := Start(t.Context(), cfg)
		require.ErrorContains(t, err, "create the cluster: exit status 7: two; three; four; no space left")
		require.NotErrorIs(t, err, ErrInUse, "the failed start unlocked the folder")
		require.NoDirExists(t, filepath.Join(cfg.Dir, "data"))
	}
	require.FileExists(t, filepath.Join(cfg.Dir, "password"), "the next start creates its cluster with the same password")
}

// An operating system without the locale C.UTF-8 gets a cluster with the locale C.
func TestStart_missingLocale(t *testing.T) {
	t.Parallel()
	initdb := `case "$*" in *--lc-ctype=C.UTF-8*) echo 'initdb: error: invalid locale name "C.UTF-8"'; exit 1;; esac; ` + makesCluster
	_, err := Start(t.Context(), Config{Dir: t.TempDir(), BinDir: programs(t, `echo "FATAL: started"; exit 1`, initdb)})
	require.ErrorContains(t, err, "postgres did not start: FATAL: started")
}

func TestStart_serverExitsAtOnce(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), BinDir: programs(t, `echo "FATAL: the disk is on fire"; exit 1`, makesCluster)}
	_, err := Start(t.Context(), cfg)
	require.ErrorContains(t, err, "postgres did not start: FATAL: the disk is on fire")
}

func TestStart_retriesTakenPort(t *testing.T) {
	t.Parallel()
	marks := t.TempDir()
	fails := fmt.Sprintf(`n=$(ls %[1]s | wc -l); touch %[1]s/$n
if [ $n -lt 3 ]; then echo 'FATAL: could not bind: Address already in use'; else echo 'FATAL: another reason'; fi
exit 1`, marks)
	_, err := Start(t.Context(), Config{Dir: t.TempDir(), BinDir: programs(t, fails, makesCluster)})
	require.ErrorContains(t, err, "another reason")
	require.NotContains(t, err.Error(), "Address already in use", "the error has only the output of the last attempt")
	tries, err := os.ReadDir(marks)
	require.NoError(t, err)
	require.Len(t, tries, 4)
}

func TestStart_cancelledWhileRetrying(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	marks := t.TempDir()
	fails := fmt.Sprintf(`touch %s/tried; echo 'FATAL: Address already in use'; exit 1`, marks)
	ended := make(chan error, 1)
	cfg := Config{Dir: t.TempDir(), BinDir: programs(t, fails, makesCluster)}
	go func() { _, err := Start(ctx, cfg); ended <- err }()
	for {
		if _, err := os.Stat(filepath.Join(marks, "tried")); err == nil {
			break
		}
		require.NoError(t, wait(t.Context(), 1e6))
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	lock, err := lockDir(t.Context(), cfg.Dir)
	require.NoError(t, err, "the folder is not locked")
	require.NoError(t, unlock(lock))
}

func TestCluster_checkVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		output, cluster string
		ok              bool
	}{
		"same version":          {"postgres (PostgreSQL) 16.4", "16", true},
		"Debian":                {"postgres (PostgreSQL) 16.4 (Debian 16.4-1.pgdg120+2)", "16", true},
		"development version":   {"postgres (PostgreSQL) 19devel", "19", true},
		"beta":                  {"postgres (PostgreSQL) 18beta1", "18", true},
		"release candidate":     {"postgres (PostgreSQL) 18rc2", "18", true},
		"newer program":         {"postgres (PostgreSQL) 17.0", "16", false},
		"older program":         {"postgres (PostgreSQL) 9.6.24", "16", false},
		"prefix of the version": {"postgres (PostgreSQL) 16.4", "1", false},
		"other program":         {"bash: hello", "16", false},
		"no output":             {"", "16", false},
	} {
		dir := t.TempDir()
		writeScript(t, filepath.Join(dir, "postgres"), "echo '"+c.output+"'")
		cl := &cluster{cfg: Config{BinDir: dir, identity: asSelf()}, data: "/the/data"}
		err := cl.checkVersion(t.Context(), c.cluster)
		require.Equal(t, c.ok, err == nil, "%s: %v", name, err)
		if !c.ok {
			require.ErrorContains(t, err, "/the/data was created by Postgres "+c.cluster, name)
		}
	}
}

// The environment of the parent contains secrets, which must not end up in the memory of Postgres.
func TestCommand_minimalEnvironment(t *testing.T) {
	t.Setenv("SERVICE_DATABASE_URL", "hunter2-planted")
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	writeScript(t, filepath.Join(bin, "initdb"), "env")
	environment := func() map[string]string {
		out, err := output(command(t.Context(), asSelf(), bin, "initdb"))
		require.NoError(t, err)
		vars := map[string]string{}
		for line := range strings.Lines(string(out)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			vars[name] = value
		}
		for _, shells := range []string{"PWD", "OLDPWD", "SHLVL", "_"} {
			delete(vars, shells)
		}
		return vars
	}
	want := map[string]string{"LC_ALL": "C", "TZ": "UTC", "PATH": bin + ":/usr/local/bin:/usr/bin:/bin"}
	require.Equal(t, want, environment())
	lib := filepath.Join(root, "lib")
	require.NoError(t, os.Mkdir(lib, 0o755))
	require.Equal(t, want, environment(), "a lib folder without libpq is not used")
	require.NoError(t, os.WriteFile(filepath.Join(lib, "libpq.so.5"), nil, 0o644))
	want["LD_LIBRARY_PATH"] = lib
	require.Equal(t, want, environment())
}

func TestChooseIdentity_errorListsAttempts(t *testing.T) {
	t.Parallel()
	id, err := chooseIdentity(t.Context(), t.TempDir())
	if os.Geteuid() != 0 {
		require.NoError(t, err)
		require.Equal(t, "self", id.name)
		return
	}
	require.ErrorContains(t, err, "as nobody in a user namespace")
	require.ErrorContains(t, err, "as nobody")
}

func TestEndOld_waitEndsWithContext(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	bin := programs(t, `trap '' INT; echo up; while :; do read -r line || exit; done`, "")
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	_, err = out.Read(make([]byte, 3))
	require.NoError(t, err, "the process is running and ignores SIGINT")
	require.NoError(t, os.WriteFile(filepath.Join(data, "postmaster.pid"), fmt.Appendln(nil, cmd.Process.Pid), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, endOld(ctx, data), context.Canceled)
	require.True(t, serves(cmd.Process.Pid, data))
	require.FileExists(t, filepath.Join(data, "postmaster.pid"), "a running server keeps its pid file")
}

func TestCluster_explain(t *testing.T) {
	t.Parallel()
	plain, again := errors.New("plain"), fmt.Errorf("%w: exit status 1", errPassing)
	for name, c := range map[string]struct {
		err       error
		log       string
		want      string
		retryable bool
	}{
		"no log output":             {again, "", "postgres did not start: exit status 1", true},
		"port taken":                {again, "could not bind IPv4 address: Address already in use\n", "Address already in use", true},
		"old backend still running": {again, "pre-existing shared memory block (key 1) is still in use\n", "shared memory block", true},
		"permanent failure":         {again, "FATAL: bad setting\n", "postgres did not start: FATAL: bad setting", false},
		"own error":                 {plain, "LOG: shutting down\n", "plain: LOG: shutting down", false},
		"own error and port taken":  {plain, "Address already in use\n", "plain: Address", false},
	} {
		c2 := &cluster{cfg: Config{Dir: t.TempDir()}}
		require.NoError(t, os.WriteFile(c2.logPath(), []byte("from an older start: Address already in use\n"+c.log), 0o600))
		err := c2.explain(c.err, int64(len("from an older start: Address already in use\n")))
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), "older start", name)
		require.Equal(t, c.retryable, passing(err), name)
	}
}
