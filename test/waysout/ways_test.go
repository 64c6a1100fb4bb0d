// Package waysout tries the ways to escape from a work of a whole installation.
package waysout

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestWaysOut tries every way to escape from a work. docs/reference/security.md lists these ways. The test runs
// agents as root and as an ordinary user, in a single process and with one process per service.
func TestWaysOut(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		requireWays(t, tryWays(t, testenv.Single, testenv.Options{}), func(w way) string { return w.user })
		return // only root can run an installation as another user
	}
	for name, start := range testenv.DrawnKinds(t) {
		t.Run(name+" as root", func(t *testing.T) {
			t.Parallel()
			requireWays(t, tryWays(t, start, testenv.Options{}), func(w way) string { return w.root })
		})
		t.Run(name+" as an ordinary user", func(t *testing.T) {
			t.Parallel()
			requireWays(t, tryWays(t, start, testenv.Options{Ordinary: true}), func(w way) string { return w.user })
		})
	}
}

// TestWaysOut_withoutBoundary shows that the ways are open if works are not isolated. Without this check, TestWaysOut
// would prove nothing.
func TestWaysOut_withoutBoundary(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // an ordinary user cannot try all of the ways
	}
	o := testenv.Options{Env: map[string]string{"SERVICE_AGENT_ISOLATION": "none"}}
	h := tryWays(t, testenv.Single, o)
	require.Equal(t, "none", h.stated.Kind)
	require.Equal(t, "open", h.stated.Network)
	for _, w := range ways() {
		if !w.always {
			require.Equal(t, openWay, h.results[w.name], "the way %q must be open if works are not isolated", w.name)
		}
	}
}

// requireWays compares the results of all ways with what the node states and with the table.
func requireWays(t *testing.T, h *waysHarness, want func(way) string) {
	t.Helper()
	h.requireNamed()
	wanted := map[string]string{}
	for _, w := range ways() {
		wanted[w.name] = want(w)
		if w.device && os.Geteuid() != 0 {
			wanted[w.name] = h.results[w.name]
		}
	}
	require.Equal(t, wanted, h.results)
}

// tryWays starts an installation with a work as the victim, and other works that try to escape. The
// returned harness has the result of each way.
func tryWays(t *testing.T, start testenv.Start, o testenv.Options) *waysHarness {
	t.Helper()
	scripts := testenv.Folder(t)
	require.NoError(t, os.Chmod(scripts, 0o755))
	copyPrograms(t, scripts)
	env := map[string]string{
		"SERVICE_AGENT_WORK_PATHS": scripts, "SERVICE_AGENT_WORK_DISK_BYTES": "67108864",
		"SERVICE_AGENT_WORK_AVOID": avoided,
		"SERVICE_AGENT_WORK_FILES": strconv.Itoa(workFiles),
		"SERVICE_AGENT_LOG_BYTES":  strconv.Itoa(logBytes), "SERVICE_AGENT_LOG_RATE": strconv.Itoa(logRate),
	}
	index := newPackageIndex(t)
	maps.Copy(env, index.settings())
	maps.Copy(env, o.Env)
	o.Env, o.Admin = env, true
	if os.Geteuid() == 0 {
		o.Devices = devices()
	}
	s := start(t, o)
	h := &waysHarness{Installation: s, scripts: scripts, results: map[string]string{}}
	ctx := t.Context()
	h.admin = h.Loop(ctx)
	c := h.admin.Client
	if h.open = o.Env["SERVICE_AGENT_ISOLATION"] == "none"; h.open {
		s.OpenPool(ctx, c)
	}
	h.awaitGPUs(ctx, c)
	victim := h.startOn(ctx, h.gpus(), "victim.py", "argument-of-the-other")
	h.target(victim.await(ctx, "victim "))
	h.readStated(ctx)
	h.engine(ctx)
	if o.Env["SERVICE_AGENT_ISOLATION"] != "none" {
		h.requireAvoided()
	}
	ways, limits, flee := h.start(ctx, "ways.py", h.targets()), h.start(ctx, "limits.py", h.targets()), h.start(ctx, "flee.py", filepath.Base(scripts))
	alone, apart := h.startClosed(ctx), h.startApart(ctx)
	h.startSdist(ctx, index)
	h.collectLog(ctx, apart.log) // before the log grows further
	h.collect(ctx, ways)
	h.collect(ctx, alone)
	h.collect(ctx, limits)
	h.collectApart(ctx, apart)
	h.collectSdist(ctx, index)
	flee.await(ctx, "fled")
	h.endFleeing(ctx, flee)
	return h
}

// copyPrograms copies the programs that try the ways.
func copyPrograms(t *testing.T, to string) {
	t.Helper()
	programs, err := filepath.Glob("testdata/*.py")
	require.NoError(t, err)
	for _, path := range programs {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, filepath.Base(path)), raw, 0o644))
	}
}

// waysHarness is an installation in which works try to escape.
type waysHarness struct {
	*testenv.Installation
	// scripts is the folder of the programs, which works may read.
	scripts string
	results map[string]string
	stated  stated
	known   map[string]any
	// files counts the files with targets.
	files int
	// serving is the deployment of an engine, and version the model version that it serves.
	serving *e2eflow.Loop
	version e2eflow.ModelVersion
	// admin is signed in once, because the number of sign-ins is limited.
	admin *e2eflow.Loop
	// open is true if works are not isolated.
	open bool
}

// waysJob is a job that runs one of the programs.
type waysJob struct {
	*e2eflow.Loop
	h     *waysHarness
	lines chan string
}

// start submits a job that runs the program, and follows its log.
func (h *waysHarness) start(ctx context.Context, program string, args ...string) *waysJob {
	h.T.Helper()
	return h.startOn(ctx, 0, program, args...)
}

// startOn is like start for a job with GPUs.
func (h *waysHarness) startOn(ctx context.Context, gpus int, program string, args ...string) *waysJob {
	h.T.Helper()
	return h.startWith(ctx, nil, gpus, program, args...)
}

// startWith is like startOn for a job with further fields in its spec.
func (h *waysHarness) startWith(ctx context.Context, fields map[string]any, gpus int, program string, args ...string) *waysJob {
	h.T.Helper()
	loop := *h.admin
	loop.Name += "-" + strings.TrimSuffix(program, ".py")
	j := &waysJob{Loop: &loop, h: h, lines: make(chan string, 1000)}
	spec := testenv.Command(ctx, h.Installation, j.Loop, append([]string{"/usr/bin/python3", filepath.Join(h.scripts, program)}, args...)...)
	inner, ok := spec["spec"].(map[string]any)
	require.True(h.T, ok)
	maps.Copy(inner, fields)
	inner["env"] = map[string]string{"VICTIM": "of-the-other-" + program}
	inner["resources"] = map[string]any{"pools": []any{map[string]any{"pool": "default", "memory_gb": 1, "gpus_per_node": gpus}}}
	require.NoError(h.T, j.Submit(ctx, spec))
	ctx, cancel := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		defer close(j.lines)
		_ = j.FollowLogs(ctx, func(line e2eflow.LogLine) {
			select {
			case j.lines <- line.Text:
			case <-ctx.Done(): // not every job has a reader for its lines
			}
		})
	}()
	h.T.Cleanup(func() { cancel(); <-followed })
	return j
}

// await waits for the line with the prefix and returns the rest of it.
func (j *waysJob) await(ctx context.Context, prefix string) string {
	j.h.T.Helper()
	seen := ""
	for {
		select {
		case line, open := <-j.lines:
			require.True(j.h.T, open, "the job has ended without printing %q: %s\n%s", prefix, seen, j.h.Tail())
			if rest, found := strings.CutPrefix(line, prefix); found {
				return rest
			}
			seen += line + "\n"
		case <-ctx.Done():
			require.FailNow(j.h.T, fmt.Sprintf("the job has not printed %q in time", prefix), "%s", seen)
		}
	}
}

// collect reads the results that the job prints. If the kernel kills the job because it uses too much memory, the last
// way out that the job tried counts as closed.
func (h *waysHarness) collect(ctx context.Context, j *waysJob) {
	h.T.Helper()
	name := ""
	for line := range j.lines {
		rest, found := strings.CutPrefix(line, "way|")
		if !found {
			h.T.Log(line)
			continue
		}
		parts := strings.SplitN(rest, "|", 3)
		if name = parts[0]; name == "end" {
			return
		}
		h.results[name] = parts[1]
		h.T.Log(strings.Join(parts, " | "))
	}
	require.NoError(h.T, j.AwaitState(ctx, "failed"))
	require.NotNil(h.T, j.Job.EndReason)
	require.Equal(h.T, "oom_host", *j.Job.EndReason, "only the kernel may end the job, which ended after %q", name)
	h.results[name] = closedWay
}

// endFleeing stops the job and looks for processes that it left behind.
func (h *waysHarness) endFleeing(ctx context.Context, j *waysJob) {
	h.T.Helper()
	require.NoError(h.T, j.Client.Post(ctx, "/api/jobs/"+j.Job.ID+"/stop", nil, nil))
	require.NoError(h.T, j.AwaitState(ctx, "stopped"))
	for _, name := range fleeings() {
		h.results["outlive the stop: "+name] = openIf(len(fled(h.T, name, filepath.Base(h.scripts))) > 0)
	}
}

// fleeings returns the names of the processes with which a job tries to outlive its stop.
func fleeings() []string {
	return []string{"ignored signals", "second fork", "session of its own", "another cgroup", "changed environment"}
}

// fled returns the pids of the processes whose command line contains the given name and mark.
func fled(t testing.TB, name, mark string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(raw), fmt.Sprintf("flee %s %s", name, mark)) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// targets writes a file with the targets that are known now and returns its path. Each call writes a file of its own,
// because earlier jobs may be reading theirs.
func (h *waysHarness) targets() string {
	h.T.Helper()
	raw, err := json.Marshal(h.known)
	require.NoError(h.T, err)
	h.files++
	path := filepath.Join(h.scripts, fmt.Sprintf("targets-%d.json", h.files))
	require.NoError(h.T, os.WriteFile(path, raw, 0o644))
	return path
}

// TestWaysOut_documented requires that docs/reference/security.md contains the table of ways.
func TestWaysOut_documented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/reference/security.md")
	require.NoError(t, err)
	var rows strings.Builder
	rows.WriteString("| way | root | ordinary user |\n|---|---|---|\n")
	for _, w := range ways() {
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", w.name, w.root, w.user)
	}
	require.Contains(t, string(raw), rows.String())
	names := []string{}
	for _, w := range ways() {
		names = append(names, w.name)
	}
	slices.Sort(names)
	require.Len(t, slices.Compact(names), len(ways()), "two ways have the same name")
}
