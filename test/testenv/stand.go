// Package testenv starts whole installations for the suites, from the programs that users run: a single process
// (signalboxd), or every service and the agent as separate processes, from exactly the units, users and
// environment files of deploy/. Every process that it starts is gone when its test ends.
package testenv

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// Stand is a running installation.
type Stand struct {
	T        testing.TB
	URL      string
	Password secret.String
	// Dir holds all files of the installation.
	Dir string
	// Environments is the folder of Python environments.
	Environments string
	// Processes are the processes by name: signalboxd, or auth, jobs, ... gateway, agent.
	Processes map[string]*Process
	// Order is the order of the first start.
	Order []string
}

// Options change an installation's defaults.
type Options struct {
	// Env is added to every process.
	Env map[string]string
	// Dir replaces the fresh folder, to start again on existing data.
	Dir string
	// OwnEnvironments builds the Python environments for this Stand alone.
	OwnEnvironments bool
}

// Shapes returns the two ways to start an installation.
func Shapes() map[string]func(t testing.TB, o Options) *Stand {
	return map[string]func(t testing.TB, o Options) *Stand{"single": Single, "split": Split}
}

// Patience is the time limit for a stage of the loop on a busy machine.
const Patience = 3 * time.Minute

// Root returns the top of the checkout.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "no go.mod above the test")
		dir = parent
	}
}

// Bin returns the path of a program built by `make build`.
func Bin(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Root(t), "bin", name)
	_, err := os.Stat(path)
	require.NoError(t, err, "run make build")
	return path
}

// environments returns where Python environments are kept: keyed by digest and shared, unless a test
// needs to see them built.
func environments(t testing.TB, dir string, o Options) string {
	t.Helper()
	if o.OwnEnvironments {
		return filepath.Join(dir, "envs")
	}
	return filepath.Join(Root(t), ".cache", "agent-envs")
}

// withUV is the search path with the pinned uv in front, which fills shared environments in a tenth of the time of pip.
func withUV(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(Root(t), "scripts", "tools", "uv.sh")).Output()
	require.NoError(t, err, "scripts/tools/uv.sh")
	return filepath.Dir(strings.TrimSpace(string(out))) + string(filepath.ListSeparator) + os.Getenv("PATH")
}

// Loop returns a Loop that is signed in as admin, with a unique name.
func (s *Stand) Loop(ctx context.Context) *e2eflow.Loop {
	s.T.Helper()
	var raw [4]byte
	_, err := rand.Read(raw[:])
	require.NoError(s.T, err)
	l := &e2eflow.Loop{
		Client: client.New(s.URL, nil), Clock: clock.Real(), Name: "walk-" + hex.EncodeToString(raw[:]), Timeout: Patience,
	}
	require.NoError(s.T, l.Login(ctx, "admin", s.Password), s.Tail())
	return l
}

// Tail returns the end of every process's log, for failure messages.
func (s *Stand) Tail() string {
	out := ""
	var outSb109 strings.Builder
	for _, name := range s.Order {
		outSb109.WriteString("\n--- " + name + "\n" + s.Processes[name].Tail())
	}
	out += outSb109.String()
	return out
}

// freePorts returns n free ports.
func freePorts(t testing.TB, n int) []string {
	t.Helper()
	out := make([]string, n)
	for i := range out {
		for out[i] == "" {
			// Below the ports that the kernel gives to connections, which come and go beside this.
			port := strconv.Itoa(10000 + mathrand.IntN(20000))
			if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
				defer func() { _ = l.Close() }()
				out[i] = port
			}
		}
	}
	return out
}

// folder returns the folder of the installation.
func folder(t testing.TB, o Options) string {
	t.Helper()
	if o.Dir != "" {
		return o.Dir
	}
	return Folder(t)
}

// Folder creates a folder with a short path, which Unix sockets need, and removes it when the test ends.
func Folder(t testing.TB) string {
	t.Helper()
	base := pgtest.TempDir()
	if os.Geteuid() == 0 && !open(base) {
		base = "/tmp" // the users of the split shape must be able to pass through
	}
	dir, err := os.MkdirTemp(base, "sb")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func password(t testing.TB, dir string) (secret.String, string) {
	t.Helper()
	file := filepath.Join(dir, "admin-password")
	if raw, err := os.ReadFile(file); err == nil {
		return secret.New(string(raw)), file
	}
	var raw [12]byte
	_, err := rand.Read(raw[:])
	require.NoError(t, err)
	text := hex.EncodeToString(raw[:])
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return secret.New(text), file
}
