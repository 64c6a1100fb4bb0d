package boundary

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEnforcer_Clean_oldWorkGroups(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		group string
		age   time.Duration
		gone  bool
	}{
		"any agent":              {"wrk_01m7yttvky83n1vevbgztq12nz.1.1-9d5b1306", time.Hour, true},
		"just old enough":        {"w.2.30-00000000", forgotten + time.Second, true},
		"possibly being entered": {"w.2.30-00000000", forgotten, false},
		"trial group":            {".trial-12", time.Hour, false},
		"foreign group":          {"system.slice", time.Hour, false},
		"similar name":           {"w.2.30-0000000", time.Hour, false},
	} {
		base := t.TempDir()
		dir := filepath.Join(base, c.group)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chtimes(dir, now.Add(-c.age), now.Add(-c.age)))
		Enforcer{bases: []string{filepath.Join(base, "none"), base}}.Clean(now)
		_, err := os.Stat(dir)
		require.Equal(t, c.gone, os.IsNotExist(err), name)
	}
}

// TestEnforcer_Clean_keepsGroupInUse tests nothing on a machine without cgroups.
func TestEnforcer_Clean_keepsGroupInUse(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	h := Detect("/sys/fs/cgroup", string(own))
	for i := range h.bases {
		h.bases[i] = filepath.Join(h.bases[i], "clean-test")
		require.NoError(t, os.MkdirAll(h.bases[i], 0o700))
		t.Cleanup(func() { _ = os.Remove(h.bases[i]) })
	}
	var live, dead Plan
	for _, base := range h.bases {
		live.Groups = append(live.Groups, filepath.Join(base, "live.1.1-00000000"))
		dead.Groups = append(dead.Groups, filepath.Join(base, "dead.1.1-00000000"))
	}
	require.NoError(t, live.Create())
	require.NoError(t, dead.Create())
	t.Cleanup(func() { _ = live.Remove() })
	sleeper := exec.Command("sleep", "300")
	require.NoError(t, sleeper.Start())
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	for _, group := range live.Groups {
		require.NoError(t, write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(sleeper.Process.Pid)))
	}
	h.Clean(time.Now().Add(time.Hour))
	for i := range h.bases {
		require.DirExists(t, live.Groups[i], "a group that contains a process must stay")
		require.NoDirExists(t, dead.Groups[i])
	}
}
