package boundary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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
	for name, c := range map[string]struct {
		files map[string]string
		why   string
	}{
		"no cgroups":            {nil, "memory/cgroup.procs: no such file"},
		"v2 without memory":     {map[string]string{"cgroup.controllers": "cpu pids"}, "has no controller memory"},
		"v2 without new groups": {map[string]string{"cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": ""}, "cgroup.procs: no such file"},
		"v1 without new groups": {map[string]string{"memory/cgroup.procs": "", "pids/cgroup.procs": "", "cpu/cgroup.procs": ""}, "cgroup.procs: no such file"},
	} {
		h := Detect(folderOf(t, c.files), "0::/\n")
		require.Equal(t, Rlimit, h.Mode(), name)
		require.ErrorContains(t, h.NoGroups(), c.why, name)
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
	require.NoError(t, p.Create(), "a second call must succeed, as after a restart")
	for _, s := range p.Settings {
		raw, err := os.ReadFile(s.Path)
		require.True(t, err == nil || s.Optional, "%v", err)
		require.True(t, s.Optional || strings.TrimSpace(string(raw)) == s.Value, "the file %s must contain its setting, but contains %s", s.Path, raw)
	}
	require.False(t, p.Kill(), "an empty group has no processes to kill")
	require.False(t, p.OOMKilled())
	require.NoError(t, p.Remove())
	require.NoError(t, p.Remove(), "a second call must succeed, as after a restart")
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
	require.Contains(t, v1.Settings, Setting{Path: "/m/w/memory.kmem.tcp.limit_in_bytes", Value: "16777216", Optional: true})
	require.EqualValues(t, 1<<30, buffers(16<<30), "the buffers must get a sixteenth of the memory")
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

func TestBoundFiles(t *testing.T) {
	t.Parallel()
	require.Equal(t, unix.Rlimit{Cur: 1024, Max: 65_536}, boundFiles(unix.Rlimit{Cur: 1024, Max: 1 << 20}))
	require.Equal(t, unix.Rlimit{Cur: 65_536, Max: 65_536}, boundFiles(unix.Rlimit{Cur: 1 << 20, Max: unix.RLIM_INFINITY}))
	require.Equal(t, unix.Rlimit{Cur: 1024, Max: 4096}, boundFiles(unix.Rlimit{Cur: 1024, Max: 4096}))
}

func TestPassesCores(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{"core\n": false, "/var/cores/%p": false, "|/usr/lib/systemd/systemd-coredump %P": true, "@/run/cores": true} {
		require.Equal(t, want, passesCores(pattern), pattern)
	}
}

func TestDefaults_Fill(t *testing.T) {
	t.Parallel()
	d := NewDefaults(16 << 30)
	const most = 16<<30 - 16<<30/10
	require.Equal(t, executor.Limits{MemoryBytes: most, PIDs: 4096}, d.Fill(executor.Limits{}, Cgroup2))
	require.Equal(t, executor.Limits{MemoryBytes: most, PIDs: 4096}, d.Fill(executor.Limits{}, Rlimit))
	require.Equal(t, executor.Limits{GPUs: 1, PIDs: 4096}, d.Fill(executor.Limits{GPUs: 1}, Rlimit), "no memory limit, because GPU drivers reserve address space")
	require.Equal(t, executor.Limits{GPUs: 1, MemoryBytes: most, PIDs: 4096}, d.Fill(executor.Limits{GPUs: 1}, Cgroup1))
	asked := executor.Limits{CPUs: 2, MemoryBytes: 1 << 30, PIDs: 7}
	require.Equal(t, asked, d.Fill(asked, Cgroup2))
	require.EqualValues(t, 1<<29, NewDefaults(1<<30).Fill(executor.Limits{}, Cgroup2).MemoryBytes, "the default must be at least half of the memory")
	require.Equal(t, executor.Limits{GPUs: 1, PIDs: 4096}, d.FillEngine(executor.Limits{GPUs: 1}), "an engine has only the memory limit of its own setting")
	require.Equal(t, asked, d.FillEngine(asked))
	require.Zero(t, NewDefaults(0).Fill(executor.Limits{}, Cgroup2).MemoryBytes)
}

func TestMappedIn_longLinesCount(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("x", 10*pathBytes)
	dir := folderOf(t, map[string]string{"maps": "7f00-7f01 r--p 00000000 fe:00 1 " + long + "\n" +
		"7f01-7f02 r--p 00000000 00:00 0 \n" +
		"7f02-7f03 r--p 00000000 fe:00 1 " + long + "\n" +
		"7f03-7f04 r--p 00000000 fe:01 1 /usr/lib/with space\n"})
	const rest = 2 * 10 // what is longer than the first part of each long line
	require.EqualValues(t, rest+2, mappedIn(dir, false, 1000))
	require.EqualValues(t, rest+3, mappedIn(dir, true, 1000))
	require.LessOrEqual(t, mappedIn(dir, false, 5), int64(7), "reading must stop within a long line")
}
