package slurm_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/agent/slurm"
	"github.com/signalbox-dev/signalbox/agent/slurm/rank"
	"github.com/signalbox-dev/signalbox/platform/clock"
	pysdk "github.com/signalbox-dev/signalbox/sdk/python"
	"github.com/signalbox-dev/signalbox/test/executortest"
	"github.com/signalbox-dev/signalbox/test/slurmtest"
)

// TestMain runs the subcommands of the agent instead of the tests if the first argument is one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(shim.Main(os.Args[2:], clock.Real(), os.Stderr))
		case "rank":
			os.Exit(rank.Process{Args: os.Args[2:], Environ: os.Environ(), Clock: clock.Real(), Err: os.Stderr}.Main())
		}
	}
	os.Exit(m.Run())
}

// timeout bounds each wait of a test.
const timeout = time.Minute

// harness is an executor on a cluster of its own.
type harness struct {
	*testing.T
	cluster *slurmtest.Cluster
	plane   *executortest.ControlPlane
	dir     string
	// commands may replace Slurm's commands; change may change the configuration.
	commands func(slurm.Commands) slurm.Commands
	change   func(*host.Config)
	host     *host.Host
	runner   *slurm.Runner
	close    func()
	// end removes all works. A test that starts the controller again calls it, because that controller ends before the
	// functions that were registered earlier are called.
	end func()
}

func newHarness(t *testing.T, c slurmtest.Config) *harness {
	t.Helper()
	b := &harness{T: t, cluster: slurmtest.Start(t, c), plane: executortest.NewControlPlane(t), dir: t.TempDir()}
	b.open()
	b.end = sync.OnceFunc(func() {
		require.NoError(t, b.host.Apply(context.Background(), nil))
		b.until("all works are gone", func() bool { return len(b.host.Observed()) == 0 })
		b.until("no Slurm job is left", func() bool { return len(b.jobs()) == 0 })
		b.close()
	})
	t.Cleanup(b.end)
	return b
}

// open starts an executor with the state of the last one.
func (b *harness) open() {
	b.Helper()
	b.host, b.runner, b.close = open(b.T, b.cluster, b.dir, b.plane, b.commands, b.change)
}

// reopen ends the executor as if the agent had been killed, and starts the next one.
func (b *harness) reopen() {
	b.Helper()
	b.close()
	b.open()
}

func (b *harness) until(what string, condition func() bool) {
	b.Helper()
	deadline := time.Now().Add(timeout)
	for !condition() {
		if time.Now().After(deadline) {
			b.Fatalf("timeout waiting until %s; observed %s; jobs %+v%s", what, observed(b.host), b.cluster.Jobs(context.Background()), b.cluster.Logs())
		}
		select {
		case <-b.host.Changes():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// observed describes the works of the executor.
func observed(h *host.Host) string {
	raw, err := json.Marshal(h.Observed())
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// apply sets the desired works.
func (b *harness) apply(works ...executor.Work) {
	b.Helper()
	require.NoError(b, b.host.Apply(b.Context(), works))
}

func (b *harness) observe(key executor.Key) executor.Observation {
	for _, o := range b.host.Observed() {
		if o.Key == key {
			return o
		}
	}
	return executor.Observation{}
}

// reach waits until the execution is in the phase.
func (b *harness) reach(key executor.Key, phase executor.Phase) executor.Observation {
	b.Helper()
	b.until(key.String()+" is "+string(phase), func() bool { return b.observe(key).Phase == phase })
	return b.observe(key)
}

func (b *harness) exit(key executor.Key) executor.Exit {
	b.Helper()
	o := b.reach(key, executor.PhaseExited)
	require.NotNil(b, o.Exit)
	return *o.Exit
}

// attempt returns an attempt that runs a script on the given number of nodes.
func (b *harness) attempt(id, script string, nodes int) executor.Work {
	return executor.Work{
		Key: executor.Key{WorkID: id, Generation: 1, Fence: 1}, Kind: executor.KindAttempt, Desired: executor.DesiredRunning,
		Attempt: &executor.AttemptSpec{
			JobID: "job_1", RunID: "run_1", Attempt: 1, Command: []string{"/bin/sh", "-c", script},
			IngestEndpoint: b.plane.Endpoint(), Grace: 2 * time.Second, Batch: batch(nodes),
		},
	}
}

func batch(nodes int) *executor.BatchSpec {
	return &executor.BatchSpec{
		TimeLimit: time.Hour, Priority: 50,
		Parts: []executor.BatchPart{{Role: "trainer", Nodes: nodes, Pool: "gpu", Slurm: executor.SlurmPool{Partition: "gpu", Folder: "/"}}},
	}
}

// open starts an executor on the cluster whose works are not isolated. The returned function ends it as if the agent had
// been killed.
func open(
	t *testing.T, c *slurmtest.Cluster, dir string, p *executortest.ControlPlane, wrap func(slurm.Commands) slurm.Commands, change func(*host.Config),
) (*host.Host, *slurm.Runner, func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	environ := append(os.Environ(), c.Env()...)
	commands := slurm.NewCommands(environ)
	if wrap != nil {
		commands = wrap(commands)
	}
	cfg := host.Config{
		Data: dir, Environments: environments(t), Exec: []string{os.Args[0], "shim"}, WorkUsers: boundary.Users{First: 200_000, Last: 265_535},
		Environ: append(environ, "PIP_RETRIES=0", "PIP_INDEX_URL=http://127.0.0.1:9/simple", "PIP_FIND_LINKS="),
	}
	if change != nil {
		change(&cfg)
	}
	require.NoError(t, slurm.Mark(dir))
	r := slurm.New(slurm.Config{
		Folder: dir, Shared: "/", Agent: agentOf(dir), Program: os.Args[0], Environ: cfg.Environ, Place: host.NewPlace(cfg),
		Interval: 300 * time.Millisecond, Settle: time.Second, ReportInterval: time.Second,
	}, slurm.Deps{Commands: commands, Clock: clock.Real(), Log: log})
	sdk, err := pysdk.Files()
	require.NoError(t, err)
	h, err := host.New(cfg, host.Deps{
		Downloader: p, Tokens: p, HTTP: &http.Client{}, Clock: clock.Real(), Rand: rand.Reader, SDK: sdk, Jitter: func() float64 { return 0 }, Log: log,
		Runner: r,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	running.Go(func() { _ = r.Run(ctx) })
	return h, r, func() {
		cancel()
		running.Wait()
	}
}

// agentOf returns the id of the agent with the given folder. The agents of a cluster have different ids.
func agentOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:8])
}

// environments returns a folder for environments that all tests and later runs share. Git ignores the folder.
func environments(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../.cache/agent-envs")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(root, 0o700))
	return root
}

// alive reports whether a process of a work has the given pid on a node. The nodes have process ids of their own.
func alive(pid int) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var ids []string
		zombie := false
		for line := range strings.Lines(string(raw)) {
			if text, ok := strings.CutPrefix(line, "NSpid:"); ok {
				ids = strings.Fields(text)
			}
			zombie = zombie || strings.HasPrefix(line, "State:\tZ")
		}
		if zombie || len(ids) < 2 || ids[len(ids)-1] != strconv.Itoa(pid) {
			continue
		}
		environ, err := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if err == nil && strings.Contains(string(environ), shim.MarkName+"=") {
			return true
		}
	}
	return false
}

// lines returns the lines of a file, or none if it does not exist.
func (b *harness) lines(path string) []string {
	b.Helper()
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(b, err)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// jobs returns the jobs of the cluster that have not ended.
func (b *harness) jobs() (live []slurmtest.Job) {
	b.Helper()
	for _, j := range b.cluster.Jobs(context.Background()) {
		switch j.State {
		case "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED":
			live = append(live, j)
		}
	}
	return live
}
