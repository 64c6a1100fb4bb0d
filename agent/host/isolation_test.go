package host_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

// userOf returns the user id in the assignment of the attempt.
func (a *attempt) userOf() int {
	a.Helper()
	raw, err := os.ReadFile(a.path("assignment.json"))
	require.NoError(a, err)
	var assignment struct {
		User int `json:"user"`
	}
	require.NoError(a, json.Unmarshal(raw, &assignment))
	return assignment.User
}

func (a *attempt) logText() string {
	raw, _ := os.ReadFile(a.path("log"))
	return string(raw)
}

func TestIsolatedWork_seesOnlyItsOwnFiles(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, `
work=$(dirname "$SERVICE_JOB_WORKDIR")
for name in work package tmp spool; do echo x > "$work/$name/made" && echo "writes $name"; done
for name in assignment.json state.json run/start.json run/lease.json log; do cat "$work/$name" && echo "reads $name"; done
for name in inputs live; do touch "$work/$name/made" && echo "writes $name"; done
cat "$SERVICE_JOB_HPARAMS_FILE" "$SERVICE_JOB_ENDPOINT_FILE" && echo "reads inputs"
ls "$work/.."; ls "$work"; echo error >> /dev/stderr; mktemp; exit 3`, nil)
	a.apply()
	require.Equal(t, 3, a.reach(executor.PhaseExited).Exit.Code)
	text := a.logText()
	for _, want := range []string{"writes work", "writes package", "writes tmp", "writes spool", "reads inputs", "\nerror\n", "/tmp."} {
		require.Contains(t, text, want)
	}
	for _, refused := range []string{"reads assignment", "reads state", "reads run", "reads log", "writes inputs", "writes live", "\nobjects", "\nrun\n"} {
		require.NotContains(t, text, refused)
	}
	require.FileExists(t, a.path("run", "lease.json"))
	require.FileExists(t, filepath.Join(a.folder("work"), "made"))
	require.FileExists(t, filepath.Join(a.folder("tmp"), "made"))
}

func TestIsolatedWork_usesItsGrantedPaths(t *testing.T) {
	t.Parallel()
	granted := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(granted, "library"), []byte("library\n"), 0o600))
	require.NoError(t, boundary.MakeReadable(granted))
	a := newAttempt(t, "cat "+granted+"/library && ! touch "+granted+"/new", func(c *host.Config) { c.WorkPaths = []string{granted, "/no/such/path"} })
	a.apply()
	require.Zero(t, a.reach(executor.PhaseExited).Exit.Code, a.logText())
}

func TestIsolatedWork_keepsItsUserAfterRestart(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		a := newAttempt(t, "id -u", nil)
		a.apply()
		a.reach(executor.PhaseExited)
		require.Equal(t, strconv.Itoa(os.Geteuid()), strings.TrimSpace(a.logText()), "only an agent that runs as root gives works their own users")
		return
	}
	a := newAttempt(t, "id -u; id -G; sleep 300", nil)
	a.apply()
	a.reach(executor.PhaseRunning)
	user := a.userOf()
	require.GreaterOrEqual(t, user, 200_000)
	a.stop()
	a.host, a.stop = open(t, a.dir, a.plane, isolate(nil))
	next := a.work
	next.WorkID = "wrk_b"
	require.NoError(t, a.host.Apply(t.Context(), []executor.Work{a.work, next}))
	require.Eventually(t, func() bool {
		all := a.host.Observed()
		return len(all) == 2 && all[0].Phase == executor.PhaseRunning && all[1].Phase == executor.PhaseRunning
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, user, a.userOf())
	other := *a
	other.work = next
	require.NotEqual(t, user, other.userOf(), "two works must have different users")
	require.Eventually(t, func() bool { return strings.Count(a.logText(), "\n") == 2 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, []string{strconv.Itoa(user), strconv.Itoa(user)}, strings.Fields(a.logText()), "the work must have a user id of its own, and the same number as its only group id")
}

// The Python interpreter of this test reports that it lies in the folder above the agent's data folder.
func TestIsolatedWork_pythonAboveData(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	require.NoError(t, err)
	programs, above := t.TempDir(), ""
	a := newAttempt(t, "true", func(c *host.Config) {
		above = filepath.Dir(c.Data)
		text := "#!/bin/sh\n" + python + ` "$@" | awk -F '\t' '{ print $1 "\t" $2 "\t" $3 "\t` + above + "\" }'\n"
		require.NoError(t, os.WriteFile(filepath.Join(programs, "python3"), []byte(text), 0o700))
		c.Environ = append(c.Environ, "PATH="+programs+":"+os.Getenv("PATH"))
	})
	a.apply()
	exit := a.reach(executor.PhaseExited).Exit
	require.Contains(t, exit.Message, "the folder "+above+" of Python contains the data folder "+a.dir, "%+v", exit)
}

func TestIsolatedWork_refusedWithoutBoundary(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "echo ran", func(c *host.Config) { c.Exec = []string{"/bin/false"} })
	a.apply()
	exit := a.reach(executor.PhaseExited).Exit
	require.Equal(t, executor.ReasonStart, exit.Reason)
	require.Contains(t, exit.Message, "this node cannot isolate works")
	kind, why := a.host.Isolation()
	require.Equal(t, boundary.None, kind)
	require.Error(t, why)
}

func TestHost_Isolation(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "true", nil)
	kind, why := a.host.Isolation()
	require.NoError(t, why)
	want := boundary.UserNamespace
	if os.Geteuid() == 0 {
		want = boundary.OwnUser
	}
	require.Equal(t, want, kind)
	trials, err := filepath.Glob(filepath.Join(a.dir, "trials", "*"))
	require.NoError(t, err)
	require.Empty(t, trials)
	report, err := a.host.Boundary(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, report.Kind)
	require.True(t, report.Required)
	require.Equal(t, os.Geteuid() == 0, report.Users != "")
	off := newHarness(t, nil)
	report, err = off.host.Boundary(t.Context())
	require.NoError(t, err)
	require.False(t, report.Required)
	require.Contains(t, report.Problem, "SERVICE_AGENT_ISOLATION")
	kind, why = off.host.Isolation()
	require.Equal(t, boundary.None, kind)
	require.ErrorContains(t, why, "SERVICE_AGENT_ISOLATION")
}

// refuseNetwork changes the settings of an agent so that it cannot restrict the network of works.
func refuseNetwork(c *host.Config) {
	if os.Geteuid() != 0 {
		c.Environ = []string{"PATH=/no/such/folder"} // without pasta
		return
	}
	c.Exec = append([]string{"/usr/bin/setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", "--"}, c.Exec...)
}

// If the machine refuses the rules for the network, the report must state the reason.
func TestHost_Boundary_networkRefused(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "true", refuseNetwork)
	report, err := a.host.Boundary(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, boundary.None, report.Kind)
	require.Empty(t, report.Problem)
	require.Contains(t, report.Unlimited, "network")
	want := "give the agent CAP_NET_ADMIN"
	if os.Geteuid() != 0 {
		want = "pasta is not in PATH"
	} else {
		require.NotContains(t, report.Unlimited, "disk", "the other parts must still be found")
	}
	require.Contains(t, report.NetworkProblem, want)
}

// probingPackage writes a source package with the given build script, and returns the requirements line for it.
func probingPackage(t *testing.T, folder, script string) string {
	t.Helper()
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{
		"probing-1.0/pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n", "probing-1.0/backend.py": script,
	} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	file := filepath.Join(folder, "probing-1.0.tar.gz")
	require.NoError(t, os.WriteFile(file, archive.Bytes(), 0o600))
	require.NoError(t, boundary.MakeReadable(folder))
	sum := sha256.Sum256(archive.Bytes())
	return "probing==1.0 --hash=sha256:" + hex.EncodeToString(sum[:]) + "\n"
}

func TestIsolatedBuild_sourcePackage(t *testing.T) {
	t.Parallel()
	index, private := t.TempDir(), t.TempDir()
	secret := filepath.Join(private, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	line := probingPackage(t, index, "import os\nraise SystemExit('the script ran, secret visible: %s' % os.path.exists('"+secret+"'))\n")
	for name, c := range map[string]struct {
		requirements string
		isolate, ran bool
		seen         string
	}{
		"wheels only":          {line, true, false, "No matching distribution"},
		"source, no boundary":  {"--no-binary probing\n" + line, false, true, "secret visible: True"},
		"source with boundary": {"--no-binary probing\n" + line, true, true, "secret visible: False"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttempt(t, "true", func(cfg *host.Config) {
				cfg.Environments, cfg.Isolate = "", c.isolate
				cfg.Environ = append(cfg.Environ, "PIP_FIND_LINKS="+index, "PIP_NO_INDEX=1")
			})
			a.work.Attempt.Environment = executor.EnvironmentSpec{Requirements: c.requirements}
			a.apply()
			exit := a.reach(executor.PhaseExited).Exit
			require.Equal(t, executor.ReasonEnvBuild, exit.Reason, "%+v", exit)
			require.Equal(t, c.ran, strings.Contains(exit.Message, "the script ran"), exit.Message)
			require.Contains(t, exit.Message, c.seen)
		})
	}
}

// An agent that stops at once must not report that its machine cannot isolate works.
func TestHost_Boundary_stopDuringTrial(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "true", nil)
	cfg := host.Config{Data: t.TempDir(), Exec: []string{os.Args[0], "shim"}, Isolate: true, WorkUsers: boundary.Users{First: 200_000, Last: 265_535}}
	h, err := host.New(cfg, host.Deps{Clock: clock.Real(), Rand: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, h.Run(stopped))
	_, err = h.Boundary(t.Context())
	require.ErrorContains(t, err, "the agent stops")
	_, err = a.host.Boundary(t.Context())
	require.NoError(t, err)
}

// The trial of an agent that stops at once must not disturb the trial of the next one in the same folder.
func TestHost_Isolation_restartDuringTrial(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "true", nil)
	a.stop()
	for range 20 {
		for range 3 {
			a.host, a.stop = open(t, a.dir, a.plane, isolate(nil))
			a.stop()
		}
		a.host, a.stop = open(t, a.dir, a.plane, isolate(nil))
		_, why := a.host.Isolation()
		require.NoError(t, why)
		a.stop()
	}
	a.host, a.stop = open(t, a.dir, a.plane, isolate(nil))
}

// buildWithMemory builds a source package with the script on a node with 1 GiB of memory, and returns how the build
// ended.
func buildWithMemory(t *testing.T, script string) *executor.Exit {
	t.Helper()
	index := t.TempDir()
	line := probingPackage(t, index, script)
	a := newAttempt(t, "true", func(cfg *host.Config) {
		cfg.Environments, cfg.Memory = "", 1<<30
		cfg.Environ = append(cfg.Environ, "PIP_FIND_LINKS="+index, "PIP_NO_INDEX=1")
	})
	a.work.Attempt.Environment = executor.EnvironmentSpec{Requirements: "--no-binary probing\n" + line}
	a.apply()
	return a.reach(executor.PhaseExited).Exit
}

func TestIsolatedBuild_memoryLimit(t *testing.T) {
	t.Parallel()
	exit := buildWithMemory(t, "print('the script ran')\nx = bytearray(1 << 30)\nraise SystemExit('no limit')\n")
	require.Equal(t, executor.ReasonEnvBuild, exit.Reason, "%+v", exit)
	require.NotContains(t, exit.Message, "no limit", "the limit must be half of the machine's memory")
}

func TestIsolatedWork_limitsWithoutRequest(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "python3 -c 'x = bytearray(600 << 20)' && echo no limit; echo 'truncates' > /dev/stderr; exit 3", func(c *host.Config) { c.Memory = 400 << 20 })
	a.apply()
	exit := a.reach(executor.PhaseExited).Exit
	require.NotContains(t, a.logText(), "no limit", "%+v", exit)
	require.True(t, exit.Reason == executor.ReasonOOM || strings.Contains(a.logText(), "MemoryError"), "%+v %s", exit, a.logText())
}

// The shared memory of a work is as large as its memory limit: the limit that it requests, or the default limit.
func TestIsolatedWork_sharedMemory(t *testing.T) {
	t.Parallel()
	for request, want := range map[int64]string{0: "200 MiB\n", 96 << 20: "96 MiB\n"} {
		a := newAttempt(t, "echo $(($(stat -f -c '%b * %S' /dev/shm) >> 20)) MiB; exit 3", func(c *host.Config) { c.Memory = 400 << 20 })
		a.work.Attempt.Limits.MemoryBytes = request
		a.apply()
		require.Equal(t, 3, a.reach(executor.PhaseExited).Exit.Code, a.logText())
		require.Contains(t, a.logText(), want)
	}
}

func TestIsolatedBuild_sharedMemory(t *testing.T) {
	t.Parallel()
	exit := buildWithMemory(t, "import os\ns = os.statvfs('/dev/shm')\nraise SystemExit('shared memory: %d MiB' % (s.f_blocks * s.f_frsize >> 20))\n")
	require.Contains(t, exit.Message, "shared memory: 512 MiB", "%+v", exit)
}

// If the node ends a build, the environment is not at fault. The attempt must therefore not end with the reason for a
// failed build.
func TestIsolatedBuild_endedByNode(t *testing.T) {
	t.Parallel()
	index := t.TempDir()
	line := probingPackage(t, index, "import time\ntime.sleep(300)\n")
	a := newAttempt(t, "true", func(cfg *host.Config) {
		cfg.Environments = ""
		cfg.Environ = append(cfg.Environ, "PIP_FIND_LINKS="+index, "PIP_NO_INDEX=1")
	})
	a.work.Attempt.Environment = executor.EnvironmentSpec{Requirements: "--no-binary probing\n" + line}
	a.apply()
	require.Eventually(t, func() bool {
		steps, err := filepath.Glob(filepath.Join(a.dir, "builds", "step-*"))
		require.NoError(t, err)
		return len(steps) == 1 && shim.Control{}.Identity(steps[0]).Alive() && shim.Control{}.Stop(steps[0], 0) == nil
	}, time.Minute, time.Millisecond)
	exit := a.reach(executor.PhaseExited).Exit
	require.Equal(t, executor.ReasonLost, exit.Reason, "%+v", exit)
	require.Contains(t, exit.Message, "the node ended the build")
}

// A name in the agent's settings cannot be looked up while an environment is built. The attempt must be tried again.
func TestIsolatedBuild_failedLookup(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "true", withPasta(t, func(cfg *host.Config) { cfg.Environments, cfg.WorkAvoid = "", []string{"store.invalid"} }))
	a.apply()
	exit := a.reach(executor.PhaseExited).Exit
	require.Equal(t, executor.ReasonLost, exit.Reason, "%+v", exit)
	require.Contains(t, exit.Message, "check SERVICE_AGENT_WORK_AVOID")
}

func TestHost_Run_endsBuildsOfEarlierAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	step := filepath.Join(dir, "builds", "step-1")
	require.NoError(t, os.MkdirAll(step, 0o700))
	c := shim.Control{Exec: []string{os.Args[0], "shim"}, Clock: clock.Real()}
	require.NoError(t, c.Launch(step, shim.Start{
		Path: "/bin/sleep", Args: []string{"sleep", "300"}, Dir: step, Log: filepath.Join(step, "log"), Mark: step,
	}))
	require.Eventually(t, func() bool { return c.Identity(step).Alive() }, time.Minute, 5*time.Millisecond)
	build := c.Identity(step)
	h, stop := open(t, dir, executortest.NewControlPlane(t), nil)
	defer stop()
	_, _ = h.Isolation() // Run ends the builds before it determines the isolation.
	require.False(t, build.Alive())
	require.NoDirExists(t, step)
}
