package host_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

// builds returns a change after which environments are built in the folder, by uv, from the given index.
func builds(t *testing.T, environments, address string) func(*host.Config) {
	t.Helper()
	return func(cfg *host.Config) {
		cfg.Environments, cfg.WheelBytes = environments, 1<<20
		cfg.Environ = append(withUV(t), "PIP_INDEX_URL="+address, "PIP_FIND_LINKS=", "PIP_NO_INDEX=", "UV_DEFAULT_INDEX=", "UV_INDEX_URL=",
			"UV_INDEX=", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	}
}

// pack gives the attempt a package with the files.
func (a *attempt) pack(files map[string]string) {
	a.Helper()
	ref := a.plane.Put("package.tar", executortest.Tar(a.T, files))
	ref.Unpack = true
	a.work.Attempt.Package = &ref
}

const demoLock = `version = 1
requires-python = ">=3.11"

[[package]]
name = "mine"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "sb-demo" },
    { name = "windows-only", marker = "sys_platform == 'win32'" },
]

[[package]]
name = "sb-demo"
version = "1.0"
source = { registry = "https://index.example/simple" }
wheels = [ { url = "https://index.example/sb_demo-1.0-py3-none-any.whl", hash = "sha256:%s" } ]

[[package]]
name = "windows-only"
version = "1.0"
source = { registry = "https://index.example/simple" }
wheels = [ { url = "https://index.example/w-1.0-py3-none-any.whl", hash = "sha256:%[1]s" } ]
`

// A command runs with the packages of its lock and with the reporter. Equal locks of a project share an environment.
func TestAttempt_lock(t *testing.T) {
	t.Parallel()
	address, sum, downloads := wheelIndex(t)
	environments := t.TempDir()
	run := func(project, file, lock string) {
		t.Helper()
		a := newAttempt(t, "", builds(t, environments, address))
		a.pack(map[string]string{file: lock, "train.py": "import sb_demo, signalbox, sys; print(sb_demo.__name__, sys.prefix != sys.base_prefix)"})
		a.work.Attempt.Command = []string{"python", "train.py"}
		a.work.Attempt.Environment = executor.EnvironmentSpec{SDK: true, Lock: file, Project: project}
		a.apply()
		exit := a.reach(executor.PhaseExited).Exit
		require.Zero(t, exit.Code, "%+v %s", exit, a.logText())
		require.Equal(t, "sb_demo True\n", a.logText())
	}
	built := func() int {
		found, err := filepath.Glob(filepath.Join(environments, "*", ".signalbox-complete"))
		require.NoError(t, err)
		return len(found)
	}
	run("prj_1", "app/uv.lock", fmt.Sprintf(demoLock, sum))
	require.Equal(t, 1, built())
	run("prj_1", "requirements.txt", "# another spelling of the same lock\nSb.Demo[x]==1.0 \\\n    --hash=sha256:"+strings.ToUpper(sum)+"\n")
	require.Equal(t, 1, built(), "equal locks of a project must share an environment")
	run("prj_2", "uv.lock", fmt.Sprintf(demoLock, sum))
	require.Equal(t, 2, built(), "projects must not share an environment")
	require.EqualValues(t, 1, downloads.Load(), "projects must share downloaded wheels")
	libraries, err := filepath.Glob(filepath.Join(environments, "*", "lib", "python3*", "site-packages", "sb_demo.dat"))
	require.NoError(t, err)
	require.Len(t, libraries, 2)
	first, err := os.Stat(libraries[0])
	require.NoError(t, err)
	second, err := os.Stat(libraries[1])
	require.NoError(t, err)
	require.True(t, os.SameFile(first, second), "environments must not have a second copy of a large file")
}

// Nothing of a hostile lock reaches an installer: no program is run, no file is read or written, and no host is
// contacted. Each attempt fails with the reason for environments, and its message names the line.
func TestAttempt_hostileLock(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	canary, secret := filepath.Join(outside, "canary"), filepath.Join(outside, "secret.txt")
	require.NoError(t, os.WriteFile(secret, []byte("hush-hush==1\n"), 0o644))
	address, sum, downloads := wheelIndex(t)
	write := fmt.Sprintf("open(%q, 'w')\n", canary)
	_, hash, _ := strings.Cut(probingPackage(t, outside, write), " ")
	archive, good := filepath.Join(outside, "probing-1.0.tar.gz"), "sb_demo==1.0 --hash=sha256:"+sum+"\n"
	for name, c := range map[string]struct{ file, lock, want string }{
		"archive":      {"r.txt", good + "probing @ file://" + archive + " " + hash, "r.txt, line 2: the line contains a URL"},
		"other file":   {"r.txt", "-r " + secret + "\n", `r.txt, line 1: the option "-r" is not allowed`},
		"own index":    {"r.txt", "--index-url " + address + "\n" + good, "r.txt, line 1: the line contains a URL"},
		"path in lock": {"uv.lock", strings.Replace(fmt.Sprintf(demoLock, sum), `registry = "https://index.example/simple"`, fmt.Sprintf("path = %q", archive), 1), `uv.lock, line 16: the source of "sb-demo" is not an index ("path")`},
		"no such file": {"none.txt", "", "the package has no file none.txt"},
		"folder":       {"folder", "", "the lock folder is not a plain file of the package"},
		"outside":      {"../run/start.json", "", "is outside of the package"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environments := t.TempDir()
			a := newAttempt(t, "true", builds(t, environments, address))
			files := map[string]string{"folder/x": "", "setup.py": write, "pyproject.toml": "[tool.uv]\nindex-url = \"x\"\n"}
			if c.lock != "" {
				files[c.file] = c.lock
			}
			a.pack(files)
			a.work.Attempt.Environment = executor.EnvironmentSpec{Lock: c.file, Project: "prj_1"}
			a.apply()
			exit := a.reach(executor.PhaseExited).Exit
			require.Equal(t, executor.ReasonEnvBuild, exit.Reason, "%+v", exit)
			require.Contains(t, exit.Message, c.want)
			require.NotContains(t, exit.Message, "hush-hush")
			left, err := os.ReadDir(environments)
			require.NoError(t, err)
			require.Empty(t, left, "no build may begin")
			require.NoFileExists(t, canary)
			require.Zero(t, downloads.Load())
		})
	}
}

// A command runs with an interpreter that the node offers, whose files it can read but not change.
func TestAttempt_interpreterOfNode(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "lab")
	require.NoError(t, exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", dir).Run())
	found, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, os.WriteFile(filepath.Join(found[0], "lab_stack.py"), nil, 0o644))
	offer := func(c *host.Config) {
		c.Pythons = map[string]string{"lab": filepath.Join(dir, "bin", "python3"), "gone": filepath.Join(dir, "bin", "none")}
	}
	a := newAttempt(t, "", offer)
	require.Equal(t, []string{"lab"}, a.host.Pythons(), "an interpreter without a program must not be offered")
	a.work.Attempt.Command = []string{"sh", "-c", `python -c 'import lab_stack, signalbox, sys; print(sys.prefix)' && touch "$VIRTUAL_ENV/x" || echo read-only`}
	a.work.Attempt.Environment = executor.EnvironmentSpec{SDK: true, Python: "lab"}
	a.apply()
	exit := a.reach(executor.PhaseExited).Exit
	require.Zero(t, exit.Code, "%+v %s", exit, a.logText())
	lines := strings.Split(strings.TrimSpace(a.logText()), "\n")
	require.Equal(t, []string{dir, "read-only"}, []string{lines[0], lines[len(lines)-1]}, a.logText())

	for name, want := range map[string]string{"other": "does not offer the interpreter other; it offers [lab]", "gone": "interpreter gone does not run"} {
		b := newAttempt(t, "true", offer)
		b.work.Attempt.Environment = executor.EnvironmentSpec{Python: name}
		b.apply()
		exit := b.reach(executor.PhaseExited).Exit
		require.Equal(t, executor.ReasonEnvBuild, exit.Reason, "%+v", exit)
		require.Contains(t, exit.Message, want)
	}
}

// Attempts that run at the same time on a machine get different ports for their main process, even from agents that draw
// the same numbers.
func TestAttempt_masterPort(t *testing.T) {
	t.Parallel()
	const script = `exec python3 -u -c '
import os, socket, time
with socket.socket() as s:
    s.bind(("", int(os.environ["MASTER_PORT"]))); s.listen()
    print(os.environ["SERVICE_JOB_MASTER_PORT"], os.environ["PET_MASTER_PORT"])
    time.sleep(300)
'`
	var ports []string
	for range 3 {
		a := newAttempt(t, script, nil)
		a.stop()
		a.host, a.stop = openRandom(t, a.dir, a.plane, isolate(nil), newFewPorts(0, 5))
		a.work.Attempt.Env = map[string]string{"SERVICE_JOB_NNODES": "1", "SERVICE_JOB_MASTER_PORT": "29500"}
		a.apply()
		a.reach(executor.PhaseRunning)
		require.Eventually(t, func() bool { return strings.HasSuffix(a.logText(), "\n") }, time.Minute, 5*time.Millisecond)
		port, same, ok := strings.Cut(strings.TrimSpace(a.logText()), " ")
		require.True(t, ok, a.logText())
		require.Equal(t, port, same)
		require.NotContains(t, ports, port)
		require.NotEqual(t, "29500", port)
		ports = append(ports, port)
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(ports))), 3)

	a := newAttempt(t, `echo "$SERVICE_JOB_MASTER_PORT $MASTER_PORT $PET_MASTER_PORT"`, nil)
	a.work.Attempt.Env = map[string]string{"SERVICE_JOB_NNODES": "2", "SERVICE_JOB_MASTER_PORT": "29507", "MASTER_PORT": "1234"}
	a.apply()
	require.Zero(t, a.reach(executor.PhaseExited).Exit.Code)
	require.Equal(t, "29507 1234 29507\n", a.logText(), "several nodes must agree on the port, and the user's variable applies")
}
