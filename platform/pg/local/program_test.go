package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const version16 = `echo "postgres (PostgreSQL) 16.4 (Debian 16.4-1.pgdg120+2)"`

// programs makes a folder with a postgres and an initdb that do what the scripts say. `postgres --version`
// is always answered, because the choice of the user that runs them asks for it.
func programs(t *testing.T, postgres, initdb string) string {
	t.Helper()
	dir := t.TempDir()
	script := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	script("postgres", `if [ "$1" = --version ]; then `+version16+"; exit 0; fi\n"+postgres)
	script("initdb", initdb)
	return dir
}

// makesCluster is an initdb that only leaves the mark of a whole cluster.
const makesCluster = `while [ "$1" != -D ]; do shift; done; echo 16 > "$2/PG_VERSION"`

func TestAnInitdbThatFailsSaysWhyAndLeavesNoCluster(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), BinDir: programs(t, "exit 1", `echo one; echo two; echo three; echo four; echo "no space left" >&2; exit 7`)}
	for range 2 {
		_, err := Start(t.Context(), cfg)
		require.ErrorContains(t, err, "make the cluster: exit status 7: two; three; four; no space left")
		require.NotErrorIs(t, err, ErrInUse, "the first failure gave the folder back")
		require.NoDirExists(t, filepath.Join(cfg.Dir, "data"))
	}
	require.FileExists(t, filepath.Join(cfg.Dir, "password"), "the next start makes its cluster with the same password")
}

func TestAServerThatEndsAtOnceIsNotTriedForEver(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), BinDir: programs(t, `echo "FATAL: the disk is on fire"; exit 1`, makesCluster)}
	_, err := Start(t.Context(), cfg)
	require.ErrorContains(t, err, "postgres did not start: FATAL: the disk is on fire")
}

func TestATakenPortIsTriedAgainWithAnother(t *testing.T) {
	t.Parallel()
	marks := t.TempDir()
	fails := fmt.Sprintf(`n=$(ls %[1]s | wc -l); touch %[1]s/$n
if [ $n -lt 3 ]; then echo 'FATAL: could not bind: Address already in use'; else echo 'FATAL: another reason'; fi
exit 1`, marks)
	_, err := Start(t.Context(), Config{Dir: t.TempDir(), BinDir: programs(t, fails, makesCluster)})
	require.ErrorContains(t, err, "another reason")
	require.NotContains(t, err.Error(), "Address already in use", "only what the last try said is told")
	tries, err := os.ReadDir(marks)
	require.NoError(t, err)
	require.Len(t, tries, 4)
}

func TestAStartThatIsCalledOffWhileItTriesAgainEnds(t *testing.T) {
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
	require.NoError(t, err, "the folder is free")
	require.NoError(t, unlock(lock))
}

func TestVersionsOfProgramsAndClusters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says, cluster string
		ok            bool
	}{
		"the same":               {"postgres (PostgreSQL) 16.4", "16", true},
		"of Debian":              {"postgres (PostgreSQL) 16.4 (Debian 16.4-1.pgdg120+2)", "16", true},
		"a development version":  {"postgres (PostgreSQL) 19devel", "19", true},
		"a beta":                 {"postgres (PostgreSQL) 18beta1", "18", true},
		"a release candidate":    {"postgres (PostgreSQL) 18rc2", "18", true},
		"a newer program":        {"postgres (PostgreSQL) 17.0", "16", false},
		"an older program":       {"postgres (PostgreSQL) 9.6.24", "16", false},
		"one digit in the other": {"postgres (PostgreSQL) 16.4", "1", false},
		"another program":        {"bash: hello", "16", false},
		"nothing":                {"", "16", false},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres"), []byte("#!/bin/sh\necho '"+c.says+"'\n"), 0o755))
		cl := &cluster{cfg: Config{BinDir: dir, identity: asSelf()}, data: "/the/data"}
		err := cl.checkVersion(t.Context(), c.cluster)
		require.Equal(t, c.ok, err == nil, "%s: %v", name, err)
		if !c.ok {
			require.ErrorContains(t, err, "/the/data was made by Postgres "+c.cluster, name)
		}
	}
}

// The environment of the parent holds secrets; those who read the memory of Postgres shall not find them there.
func TestTheProgramsGetNextToNoEnvironment(t *testing.T) {
	t.Setenv("SERVICE_DATABASE_URL", "hunter2-planted")
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "initdb"), []byte("#!/bin/sh\nenv\n"), 0o755))
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
	require.Equal(t, want, environment(), "a lib folder without Postgres' own library is none of ours")
	require.NoError(t, os.WriteFile(filepath.Join(lib, "libpq.so.5"), nil, 0o644))
	want["LD_LIBRARY_PATH"] = lib
	require.Equal(t, want, environment())
}

func TestARootlessChoiceSaysWhatItTried(t *testing.T) {
	t.Parallel()
	who, err := chooseIdentity(t.Context(), t.TempDir())
	if os.Geteuid() != 0 {
		require.NoError(t, err)
		require.Equal(t, "self", who.name)
		return
	}
	require.ErrorContains(t, err, "as namespace")
	require.ErrorContains(t, err, "as nobody")
}

func TestALeftServerThatDoesNotGoIsNotWaitedForPastTheContext(t *testing.T) {
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
	require.NoError(t, err, "it is up and hears no SIGINT")
	require.NoError(t, os.WriteFile(filepath.Join(data, "postmaster.pid"), fmt.Appendln(nil, cmd.Process.Pid), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, endOld(ctx, data), context.Canceled)
	require.True(t, serves(cmd.Process.Pid, data))
	require.FileExists(t, filepath.Join(data, "postmaster.pid"), "what serves keeps its file")
}

func TestALogThatSaysNothingLeavesTheErrorAsItIs(t *testing.T) {
	t.Parallel()
	plain, again := errors.New("plain"), fmt.Errorf("%w: exit status 1", errPassing)
	for name, c := range map[string]struct {
		err          error
		said         string
		want         string
		mayTriedMore bool
	}{
		"nothing said":       {again, "", "postgres did not start: exit status 1", true},
		"a taken port":       {again, "could not bind IPv4 address: Address already in use\n", "Address already in use", true},
		"a dying backend":    {again, "pre-existing shared memory block (key 1) is still in use\n", "shared memory block", true},
		"another reason":     {again, "FATAL: bad setting\n", "postgres did not start: FATAL: bad setting", false},
		"an error of ours":   {plain, "LOG: shutting down\n", "plain: LOG: shutting down", false},
		"ours with the port": {plain, "Address already in use\n", "plain: Address", false},
	} {
		c2 := &cluster{cfg: Config{Dir: t.TempDir()}}
		require.NoError(t, os.WriteFile(c2.logPath(), []byte("of an older start: Address already in use\n"+c.said), 0o600))
		err := c2.explain(c.err, int64(len("of an older start: Address already in use\n")))
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), "older start", name)
		require.Equal(t, c.mayTriedMore, passing(err), name)
	}
}
