package host_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
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
for name in assignment.json state.json run/start.json log; do cat "$work/$name" && echo "reads $name"; done
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
	require.FileExists(t, a.path("work", "made"))
	require.FileExists(t, a.path("tmp", "made"))
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
	require.NotEqual(t, user, other.userOf(), "two works have the same user")
	require.Eventually(t, func() bool { return strings.Count(a.logText(), "\n") == 2 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, []string{strconv.Itoa(user), strconv.Itoa(user)}, strings.Fields(a.logText()), "the user and its groups")
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
	require.NoDirExists(t, filepath.Join(a.dir, "trial"))
	off := newHarness(t, nil)
	kind, why = off.host.Isolation()
	require.Equal(t, boundary.None, kind)
	require.ErrorContains(t, why, "SERVICE_AGENT_ISOLATION")
}

// probingPackage is a source package whose build script reports what it can read.
func probingPackage(t *testing.T, folder, secret string) string {
	t.Helper()
	script := "import os\nraise SystemExit('the script ran, secret visible: %s' % os.path.exists('" + secret + "'))\n"
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
	line := probingPackage(t, index, secret)
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
	_, _ = h.Isolation() // Run has ended the builds before.
	require.False(t, build.Alive())
	require.NoDirExists(t, step)
}
