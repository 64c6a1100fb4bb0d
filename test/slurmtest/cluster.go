package slurmtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/freeport"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// Config describes a cluster.
type Config struct {
	// Nodes is the number of nodes. Their names are n1, n2 and so on.
	Nodes int
	// GPUs is the number of GPUs of each node. They are devices that do nothing.
	GPUs int
	// Settings are settings of slurm.conf, which take precedence over those of this package.
	Settings map[string]string
}

// Cluster is a running cluster.
type Cluster struct {
	// Dir is the folder of the cluster: its configuration, its state and its logs.
	Dir string

	t          testing.TB
	bin        string
	config     Config
	ports      []string // of the controller, then of each node
	controller *machine
	nodes      map[string]*machine
}

const (
	// startTimeout bounds the start of a cluster and each wait for its daemons.
	startTimeout = 60 * time.Second
	// commandTimeout bounds a command of Slurm. A command retries for some seconds if the controller does not respond.
	commandTimeout = 30 * time.Second
	pollInterval   = 20 * time.Millisecond
)

// Start starts a cluster and waits until its nodes are idle. The cluster ends with the test, even if the test is
// killed.
func Start(t testing.TB, config Config) *Cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a Slurm cluster runs jobs of several users on machines with namespaces of their own: run this test as root")
	}
	c := &Cluster{t: t, bin: programs(t), config: config, ports: freeport.Lock(t, 1+config.Nodes), nodes: map[string]*machine{}}
	// Slurm has Unix sockets in the folder, whose paths are limited to 108 bytes. Processes of other users pass through
	// the folder.
	dir, err := os.MkdirTemp(pgtest.TempDir(), "sl")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	c.Dir = dir
	c.configure()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c.StartController(ctx)
	for i := range config.Nodes {
		c.StartNode(ctx, nodeName(i))
	}
	c.AwaitIdle(ctx)
	return c
}

// programs returns the folder of Slurm's programs, which it downloads if necessary.
func programs(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		script := filepath.Join(dir, "scripts", "tools", "slurm.sh")
		if _, err := os.Stat(script); err != nil {
			continue
		}
		cmd := exec.CommandContext(t.Context(), script)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		require.NoError(t, err, "download Slurm with %s", script)
		return strings.TrimSpace(string(out))
	}
	t.Fatal("no folder above this test contains scripts/tools/slurm.sh")
	return ""
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// Bin returns the path of a program of Slurm, such as sbatch.
func (c *Cluster) Bin(name string) string { return filepath.Join(c.bin, name) }

// Env returns the variables with which Slurm's commands, and programs that call them, find this cluster.
func (c *Cluster) Env() []string {
	return []string{"SLURM_CONF=" + c.path("slurm.conf"), "PATH=" + c.bin + string(filepath.ListSeparator) + os.Getenv("PATH")}
}

// path returns the path of a file in the cluster's folder.
func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

// StartController starts the controller and waits until it responds.
func (c *Cluster) StartController(ctx context.Context) {
	c.t.Helper()
	c.controller = c.boot(controllerName, c.Bin("slurmctld"), "-D", "-i", "-f", c.path("slurm.conf"))
	c.await(ctx, "the controller responds", c.controller, func() bool {
		return c.Command(ctx, "scontrol", "ping").Run() == nil
	})
}

// KillController ends the controller as a crash would. It may lose what it has accepted in the last seconds.
func (c *Cluster) KillController() {
	c.t.Helper()
	c.controller.kill()
}

// RestartController stops the controller, which stores its state first, and starts it again.
func (c *Cluster) RestartController(ctx context.Context) {
	c.t.Helper()
	c.controller.stop(ctx)
	c.StartController(ctx)
}

// StartNode starts a machine with slurmd. It does not wait until the controller uses the node.
func (c *Cluster) StartNode(_ context.Context, node string) {
	c.t.Helper()
	c.nodes[node] = c.boot(node, c.Bin("slurmd"), "-D", "-N", node, "-f", c.path("slurm.conf"), "-d", c.Bin("slurmstepd"))
}

// KillNode ends all processes of a node, as a loss of power would.
func (c *Cluster) KillNode(node string) {
	c.t.Helper()
	c.nodes[node].kill()
}

// KillSlurmd ends only slurmd on a node. Jobs of the node continue, but the controller cannot reach them, as when the
// network between them fails.
func (c *Cluster) KillSlurmd(node string) {
	c.t.Helper()
	c.nodes[node].killDaemon()
}

// Down sets a node down. Slurm ends the jobs on the node.
func (c *Cluster) Down(ctx context.Context, node, reason string) {
	c.t.Helper()
	c.Output(ctx, "scontrol", "update", "NodeName="+node, "State=DOWN", "Reason="+reason)
}

// Resume makes a node that is down or drained available again.
func (c *Cluster) Resume(ctx context.Context, node string) {
	c.t.Helper()
	c.Output(ctx, "scontrol", "update", "NodeName="+node, "State=RESUME")
}

// Logs returns the ends of the logs of all daemons, for failure messages.
func (c *Cluster) Logs() string {
	var out strings.Builder
	all := []*machine{c.controller}
	for i := range c.config.Nodes {
		all = append(all, c.nodes[nodeName(i)])
	}
	for _, m := range all {
		if m != nil {
			out.WriteString("\n--- " + m.name + "\n" + m.tail())
		}
	}
	return out.String()
}
