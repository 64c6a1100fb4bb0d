package boundary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// folderOf creates a folder with the files of a cgroup file system. Detect must not accept it: unlike the
// kernel, the folder does not create control files in a new group.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

func TestDetect_fallsBackToRlimit(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"no cgroups":            {},
		"v2 without memory":     {"cgroup.controllers": "cpu pids"},
		"v2 without new groups": {"cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": ""},
		"v1 without new groups": {"memory/cgroup.procs": "", "pids/cgroup.procs": "", "cpu/cgroup.procs": ""},
	} {
		h := Detect(folderOf(t, files), "0::/\n")
		require.Equal(t, Rlimit, h.Mode(), name)
	}
	p := Enforcer{mode: Rlimit}.Plan("w", executor.Limits{MemoryBytes: 5})
	require.Equal(t, Plan{Mode: Rlimit, Data: 5}, p)
}

func TestPlan_onThisMachine(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	h := Detect("/sys/fs/cgroup", string(own))
	p := h.Plan("boundary-test", executor.Limits{MemoryBytes: 64 << 20, PIDs: 9, CPUs: 1})
	require.NoError(t, p.Create())
	require.NoError(t, p.Create(), "a second call, as after a restart")
	for _, s := range p.Settings {
		raw, err := os.ReadFile(s.Path)
		require.True(t, err == nil || s.Optional, "%v", err)
		require.True(t, s.Optional || strings.TrimSpace(string(raw)) == s.Value, "%s contains %s", s.Path, raw)
	}
	require.False(t, p.Kill(), "an empty group has no processes to kill")
	require.False(t, p.OOMKilled())
	require.NoError(t, p.Remove())
	require.NoError(t, p.Remove(), "a second call, as after a restart")
}

func TestEnforcer_Plan_cgroups(t *testing.T) {
	t.Parallel()
	l := executor.Limits{CPUs: 2, MemoryBytes: 100, PIDs: 7}
	v2 := Enforcer{mode: Cgroup2, bases: []string{"/c/signalbox"}}.Plan("w", l)
	require.Empty(t, cmp.Diff(Plan{
		Mode: Cgroup2, Groups: []string{"/c/signalbox/w"}, Settings: []Setting{
			{Path: "/c/signalbox/w/memory.max", Value: "100"},
			{Path: "/c/signalbox/w/memory.swap.max", Value: "0", Optional: true},
			{Path: "/c/signalbox/w/memory.oom.group", Value: "1", Optional: true},
			{Path: "/c/signalbox/w/pids.max", Value: "7"},
			{Path: "/c/signalbox/w/cpu.max", Value: "200000 100000"},
		},
	}, v2))
	v1 := Enforcer{mode: Cgroup1, bases: []string{"/m", "/p", "/c"}}.Plan("w", l)
	require.Empty(t, cmp.Diff([]string{"/m/w", "/p/w", "/c/w"}, v1.Groups))
	require.Contains(t, v1.Settings, Setting{Path: "/m/w/memory.limit_in_bytes", Value: "100"})
	require.Contains(t, v1.Settings, Setting{Path: "/c/w/cpu.cfs_quota_us", Value: "200000"})
	require.Empty(t, Enforcer{mode: Cgroup2, bases: []string{"/c"}}.Plan("w", executor.Limits{}).Settings)
}

func TestPlan_Kill_cgroupKill(t *testing.T) {
	t.Parallel()
	group := folderOf(t, map[string]string{"cgroup.procs": "0\n4194000\n", "cgroup.kill": "", "memory.events": "oom 1\noom_kill 1\n"})
	p := Plan{Mode: Cgroup2, Groups: []string{group}}
	require.True(t, p.Kill())
	raw, err := os.ReadFile(filepath.Join(group, "cgroup.kill"))
	require.NoError(t, err)
	require.Equal(t, "1", string(raw))
	require.True(t, p.OOMKilled())
}

func TestOwnGroup(t *testing.T) {
	t.Parallel()
	own := "9:name=systemd:/s\n4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/\n"
	require.Equal(t, "/a/b", ownGroup(own, "memory"))
	require.Equal(t, "/c", ownGroup(own, "cpu"))
	require.Equal(t, "/", ownGroup(own, "pids"))
}
