package boundary

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// TestMain enters a plan and runs a script instead of the tests if BOUNDARY_TEST_PLAN is set.
func TestMain(m *testing.M) {
	raw := os.Getenv("BOUNDARY_TEST_PLAN")
	if raw == "" {
		os.Exit(m.Run())
	}
	var p Plan
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		panic(err)
	}
	if err := p.Enter(); err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		os.Exit(3)
	}
	if err := syscall.Exec("/bin/sh", []string{"sh", "-c", os.Getenv("BOUNDARY_TEST_SCRIPT")}, os.Environ()); err != nil {
		panic(err)
	}
}

// enterInProcess returns a command, not yet started, that decodes the plan from JSON, enters it and runs the
// script. It also returns the output of the command.
func enterInProcess(t *testing.T, p Plan, script string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	raw, err := json.Marshal(p)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "BOUNDARY_TEST_PLAN="+string(raw), "BOUNDARY_TEST_SCRIPT="+script)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	return cmd, &output
}

func TestPlan_Enter_fromJSON(t *testing.T) {
	t.Parallel()
	groups := []string{t.TempDir(), t.TempDir()}
	cmd, output := enterInProcess(t, Plan{Mode: Cgroup1, Groups: groups}, "echo $$")
	require.NoError(t, cmd.Run(), output.String())
	for _, g := range groups {
		raw, err := os.ReadFile(filepath.Join(g, "cgroup.procs"))
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(output.String()), string(raw), "the command's own pid must be in the group")
	}
}

func TestPlan_JSONRoundTrip(t *testing.T) {
	t.Parallel()
	want := Plan{
		Mode: Cgroup2, Groups: []string{"/a", "/b"}, Data: 5,
		Settings: []Setting{{Path: "/a/x", Value: "1"}, {Path: "/a/y", Value: "2", Optional: true}},
	}
	raw, err := json.Marshal(want)
	require.NoError(t, err)
	var got Plan
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Empty(t, cmp.Diff(want, got))
}

func TestPlan_Enter_missingGroup(t *testing.T) {
	t.Parallel()
	cmd, output := enterInProcess(t, Plan{Mode: Cgroup1, Groups: []string{"/no/such/group"}}, "echo ran")
	require.Error(t, cmd.Run())
	require.Contains(t, output.String(), "enter the cgroup")
	require.NotContains(t, output.String(), "ran")
}

func TestPlan_Enter_rlimit(t *testing.T) {
	t.Parallel()
	const bound = 300 << 20
	cmd, output := enterInProcess(t, Enforcer{mode: Rlimit}.Plan("w", executor.Limits{MemoryBytes: bound}), "ulimit -d; ulimit -Hd; sh -c 'ulimit -d'")
	require.NoError(t, cmd.Run(), output.String())
	want := strconv.Itoa(bound >> 10)
	require.Equal(t, []string{want, want, want}, strings.Fields(output.String()), "the soft limit, the hard limit and the limit of a child must be the same")
	cmd, output = enterInProcess(t, Enforcer{mode: Rlimit}.Plan("w", executor.Limits{}), "ulimit -d")
	require.NoError(t, cmd.Run())
	mine, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "ulimit -d").Output()
	require.NoError(t, err)
	require.Equal(t, string(mine), output.String(), "a plan without a limit must not set one")
}

func TestPlan_Create_settings(t *testing.T) {
	t.Parallel()
	group := filepath.Join(t.TempDir(), "w")
	file := filepath.Join(group, "memory.max")
	p := Plan{Groups: []string{group}, Settings: []Setting{
		{Path: file, Value: "1"},
		{Path: file, Value: "2"},
		{Path: filepath.Join(group, "none", "swap"), Value: "0", Optional: true},
	}}
	require.NoError(t, p.Create())
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "2", string(raw))

	p.Settings[2].Optional = false
	err = p.Create()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "set swap", "the error must name the setting")

	// An optional setting may be missing. If it exists but cannot be written, Create fails.
	require.NoError(t, os.MkdirAll(filepath.Join(group, "taken"), 0o700))
	p.Settings = []Setting{{Path: filepath.Join(group, "taken"), Value: "0", Optional: true}}
	require.ErrorContains(t, p.Create(), "set taken")
}

func TestPlan_Create_missingParent(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Plan{Groups: []string{filepath.Join(t.TempDir(), "none", "w")}}.Create(), "create the cgroup")
}

func TestPlan_Kill_withoutCgroupKill(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sleep", "300")
	require.NoError(t, cmd.Start())
	// As in cgroup version 1, the file cgroup.kill cannot be used: here it is a folder.
	group := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(group, "cgroup.kill"), 0o700))
	require.True(t, Plan{Groups: []string{group}}.Kill(), "Kill must report that the group had a process")
	err := cmd.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	status, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal())
}

func TestPlan_Kill_noProcesses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "other namespace": "0\n0\n", "not a number": "a b\n", "negative": "-1\n", "missing file": "",
	} {
		group := t.TempDir()
		if name != "missing file" {
			require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(text), 0o600))
		}
		require.False(t, Plan{Groups: []string{group}}.Kill(), name)
	}
	require.False(t, Plan{Mode: Rlimit}.Kill(), "a plan without groups has no processes to kill")
}

func TestPlan_OOMKilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text string
		want       bool
	}{
		"version 2":                            {"memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 0\n", true},
		"version 2, at the limit, none killed": {"memory.events", "max 99\noom 3\noom_kill 0\n", false},
		"version 1":                            {"memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", true},
		"version 1, none killed":               {"memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 0\n", false},
		"old kernel":                           {"memory.oom_control", "oom_kill_disable 1\nunder_oom 0\n", false},
		"other file":                           {"memory.stat", "oom_kill 1\n", false},
	} {
		group := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(group, c.file), []byte(c.text), 0o600))
		require.Equal(t, c.want, Plan{Groups: []string{t.TempDir(), group}}.OOMKilled(), name)
	}
}

func TestPlan_Remove_notEmpty(t *testing.T) {
	t.Parallel()
	full, empty := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o600))
	require.ErrorContains(t, Plan{Groups: []string{full, empty}}.Remove(), "remove the cgroup")
	require.NoDirExists(t, empty, "the empty group must be removed")
}

func TestEnforcer_Plan_onlyRequestedLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits executor.Limits
		v2, v1 []string
	}{
		"memory": {executor.Limits{MemoryBytes: 1}, []string{"memory.max", "memory.swap.max", "memory.oom.group"}, []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"}},
		"pids":   {executor.Limits{PIDs: 1}, []string{"pids.max"}, []string{"pids.max"}},
		"cpus":   {executor.Limits{CPUs: 1}, []string{"cpu.max"}, []string{"cpu.cfs_period_us", "cpu.cfs_quota_us"}},
		"gpus":   {executor.Limits{GPUs: 4}, nil, nil},
	} {
		require.Equal(t, c.v2, names(Enforcer{mode: Cgroup2, bases: []string{"/c"}}.Plan("w", c.limits)), name)
		require.Equal(t, c.v1, names(Enforcer{mode: Cgroup1, bases: []string{"/m", "/p", "/c"}}.Plan("w", c.limits)), name)
		rlimit := Enforcer{mode: Rlimit}.Plan("w", c.limits)
		require.Empty(t, rlimit.Groups, name)
		require.Equal(t, c.limits.MemoryBytes, rlimit.Data, name)
	}
}

func names(p Plan) []string {
	var all []string
	for _, s := range p.Settings {
		all = append(all, filepath.Base(s.Path))
	}
	return all
}

func TestEnforcer_Plan_cgroup1MemoryBeforeSwap(t *testing.T) {
	t.Parallel()
	// The kernel rejects a memsw limit below the memory limit.
	p := Enforcer{mode: Cgroup1, bases: []string{"/m", "/p", "/c"}}.Plan("w", executor.Limits{MemoryBytes: 7, CPUs: 3})
	require.Equal(t, []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes", "cpu.cfs_period_us", "cpu.cfs_quota_us"}, names(p))
	require.True(t, p.Settings[1].Optional, "the swap limit must be optional, because not every kernel accounts for swap")
	require.Equal(t, "300000", p.Settings[4].Value)
}
