// Package testenv starts complete installations for tests, from the programs that users run. An
// installation is either a single process (signalboxd), or one process for each service and for the agent,
// with the units, users and environment files of deploy/. All processes have ended when the test ends.
package testenv

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// Installation is a running installation.
type Installation struct {
	T        testing.TB
	URL      string
	Password secret.String
	// Dir contains all files of the installation.
	Dir string
	// Environments is the folder of Python environments.
	Environments string
	// Processes contains the processes by name: signalboxd, or the services and agent.
	Processes map[string]*Process
	// Order contains the names in the order of their first start.
	Order []string
	// Postgres is the database server if each service has its own process. It starts again after it has exited.
	Postgres *local.Server

	// Admin is the address of the admin listener of the process that runs inference. It is empty without Options.Admin.
	Admin string

	disks openDisks
	host  *host // nil if all services have one process
}

// Options change the defaults of an installation.
type Options struct {
	// Env is added to the environment of every process.
	Env map[string]string
	// Admin opens the admin listener of the process that runs inference; see Installation.Admin.
	Admin bool
	// Dir is the folder to use instead of a new one, to start an installation with existing data.
	Dir string
	// Programs is the folder of the programs to start. If it is empty, the programs of this commit are started.
	Programs string
	// Redis starts a Redis server, the process redis, for an installation with one process per service.
	Redis bool
	// Tunable lets ALTER SYSTEM turn off fsync, for an installation with one process per service.
	Tunable bool
	// OwnEnvironments gives the installation its own Python environments instead of the shared ones.
	OwnEnvironments bool
	// Ordinary runs the process that contains the agent (the agent itself or signalboxd) as an ordinary user. The test
	// itself must run as root.
	Ordinary bool
	// Devices are the names of devices, such as nvidia0, in the private /dev of the process that contains the agent.
	// All of them behave like /dev/null. They need a test that runs as root.
	Devices []string
}

// Start starts an installation of one kind.
type Start func(t testing.TB, o Options) *Installation

// Kinds returns the kinds of installation: a single process, or one process per service.
func Kinds() map[string]Start { return map[string]Start{"single": Single, "split": Split} }

// DrawnKinds returns the kinds that this run of the test covers. `make test` covers one, which the seed selects;
// `make test-long` covers both.
func DrawnKinds(t testing.TB) map[string]Start {
	t.Helper()
	all, drawn := Kinds(), map[string]Start{}
	for _, name := range draw.Some(draw.New(t), 1, slices.Sorted(maps.Keys(all)), draw.Itself) {
		drawn[name] = all[name]
	}
	return drawn
}

// StageTimeout is the time limit for one stage of a test, such as a training, on a busy machine.
const StageTimeout = 3 * time.Minute

// Root returns the top folder of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "no parent folder of the test has a go.mod file")
		dir = parent
	}
}

// programs returns the folder of the programs that `make build` has built. If TEST_BIN is set, programs returns that
// folder instead, for example with the programs of an earlier version.
func programs(t testing.TB) string {
	t.Helper()
	return cmp.Or(os.Getenv("TEST_BIN"), filepath.Join(Root(t), "bin"))
}

// Bin returns the path of a program that `make build` has built.
func Bin(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(programs(t), name)
	_, err := os.Stat(path)
	require.NoError(t, err, "a program is missing; run make build")
	return path
}

// environments returns the folder for Python environments. Installations share this folder, unless o.OwnEnvironments is
// set.
func environments(t testing.TB, dir string, o Options) string {
	t.Helper()
	if o.OwnEnvironments {
		return filepath.Join(dir, "envs")
	}
	return filepath.Join(Root(t), ".cache", "agent-envs")
}

// PathWithUV returns the test's PATH with the pinned uv first. uv installs packages about ten times faster than
// pip.
func PathWithUV(t testing.TB) string {
	t.Helper()
	return filepath.Dir(Tool(t.Context(), t, "uv.sh")) + string(filepath.ListSeparator) + os.Getenv("PATH")
}

// Tool runs a script of scripts/tools and returns the path that it prints, which is its last line.
func Tool(ctx context.Context, t testing.TB, script string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, filepath.Join(Root(t), "scripts", "tools", script), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, script)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// OpenPool sets the isolation of the pool `default` to none. The pool exists when the agent has joined.
func (s *Installation) OpenPool(ctx context.Context, admin *client.Client) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(ctx, StageTimeout)
	defer cancel()
	s.Until(ctx, "the agent has joined, which creates the pool", func() bool {
		err := admin.Do(ctx, http.MethodPatch, "/api/cluster/pools/default", map[string]string{"isolation": "none"}, nil)
		if refused, is := errors.AsType[*client.Error](err); is && refused.Status != http.StatusNotFound {
			require.NoError(s.T, err, s.Tail())
		}
		return err == nil
	})
}

// Loop returns a Loop with a unique name that is signed in as admin. A Loop trains, deploys and queries a model.
func (s *Installation) Loop(ctx context.Context) *e2eflow.Loop {
	s.T.Helper()
	var raw [4]byte
	_, err := rand.Read(raw[:])
	require.NoError(s.T, err)
	l := &e2eflow.Loop{
		Client: client.New(s.URL, nil), Clock: clock.Real(), Name: "e2e-" + hex.EncodeToString(raw[:]), Timeout: StageTimeout,
	}
	require.NoError(s.T, l.Login(ctx, "admin", s.Password), s.Tail())
	return l
}

// Tail returns the end of each process's log, for failure messages.
func (s *Installation) Tail() string {
	var out strings.Builder
	for _, name := range s.Order {
		out.WriteString("\n--- " + name + "\n" + s.Processes[name].Tail())
	}
	return out.String()
}

// folder returns o.Dir or, if that is empty, a new folder.
func folder(t testing.TB, o Options) string {
	t.Helper()
	if o.Dir != "" {
		return o.Dir
	}
	return Folder(t)
}

// copyCluster puts an empty database cluster into dir unless dir exists. The tests of signalboxd and of the demo let
// signalboxd create its own cluster.
func copyCluster(t testing.TB, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); err != nil {
		pgtest.Cluster(t, dir)
	}
}

// Folder creates a folder that is removed when the test ends. Its path is short, because the paths of Unix
// sockets are limited.
func Folder(t testing.TB) string {
	t.Helper()
	base := pgtest.TempDir()
	if os.Geteuid() == 0 && !accessible(base) {
		base = "/tmp" // processes of other users must be able to pass through the folder
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
