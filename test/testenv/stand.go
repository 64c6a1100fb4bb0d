// Package testenv starts whole installations for the suites, from the programs that users run: one process
// (signalboxd), or every service and the agent as a process of its own, from exactly the units, users and
// environment files of deploy/. Whatever a stand started is gone when its test ends.
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
	// Dir keeps everything of the installation.
	Dir string
	// Environments is the folder of Python environments.
	Environments string
	// Processes by name: signalboxd, or auth, jobs, ... gateway, agent.
	Processes map[string]*Process
	// Order is that of the first start.
	Order []string
}

// Options change an installation from its defaults.
type Options struct {
	// Env is added to every process.
	Env map[string]string
	// Dir is taken instead of a fresh one, to start again on what is there.
	Dir string
	// OwnEnvironments builds Python environments for this stand alone.
	OwnEnvironments bool
}

// Shapes are the two ways to start an installation.
func Shapes() map[string]func(t testing.TB, o Options) *Stand {
	return map[string]func(t testing.TB, o Options) *Stand{"single": Single, "split": Split}
}

// Patience is how long a stage of the loop may take on a busy machine.
const Patience = 3 * time.Minute

// Root is the top of the checkout.
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

// Bin is the path of a program that `make build` made.
func Bin(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Root(t), "bin", name)
	_, err := os.Stat(path)
	require.NoError(t, err, "run make build")
	return path
}

// environments is where Python environments are kept: all stands share them, keyed by digest, unless one
// wants to see them built.
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

// Loop is a walk through the stand as its admin, under a name of its own.
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

// Tail is the end of every process's log, for messages.
func (s *Stand) Tail() string {
	out := ""
	var outSb109 strings.Builder
	for _, name := range s.Order {
		outSb109.WriteString("\n--- " + name + "\n" + s.Processes[name].Tail())
	}
	out += outSb109.String()
	return out
}

// freePorts finds ports that nothing listens on.
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

// folder is the stand's folder, removed with the test.
func folder(t testing.TB, o Options) string {
	t.Helper()
	if o.Dir != "" {
		return o.Dir
	}
	return Folder(t)
}

// Folder makes a folder whose path is short, which Unix sockets need, and that goes with the test.
func Folder(t testing.TB) string {
	t.Helper()
	base := pgtest.TempDir()
	if os.Geteuid() == 0 && !open(base) {
		base = "/tmp" // the split shape's users must come through
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
