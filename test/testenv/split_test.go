package testenv

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// status returns the fields of a line in /proc/PID/status.
func status(t *testing.T, pid int, key string) []string {
	t.Helper()
	for _, line := range lines(t, fmt.Sprintf("/proc/%d/status", pid)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.Fields(rest)
		}
	}
	require.FailNow(t, "the status of the process has no line "+key)
	return nil
}

// environ returns the environment with which a process was started.
func environ(t *testing.T, pid int) []string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	require.NoError(t, err)
	return strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
}

func TestSplit_processesMatchTheirUnits(t *testing.T) {
	t.Setenv("PIP_NO_INDEX_OF_A_TEST", "1")
	s := Split(t, Options{})
	h := &host{t: t, dir: s.Dir}
	if os.Geteuid() == 0 {
		h.sysusers()
	}
	for name, p := range s.Processes {
		u := readUnit(t, "signalbox-"+name+".service")
		t.Run(name, func(t *testing.T) {
			requireUser(t, h, u, p)
			requireEnvironment(t, name, u, p)
			require.NotContains(t, p.Log(), "nothing reads it", "its environment file must contain no setting that the process ignores")
		})
	}
	requirePrivateFolders(t, h, s)
	requireKnownSettings(t, s)
}

// requireUser requires that a process has the user and groups of its unit.
func requireUser(t *testing.T, h *host, u unit, p *Process) {
	t.Helper()
	c := h.credential(u)
	if c == nil || p.Name == "agent" && !h.python(c) {
		return // the test does not run as root, or the user of the agent's unit finds no suitable Python
	}
	uid, gid := fmt.Sprint(c.Uid), fmt.Sprint(c.Gid)
	require.Equal(t, []string{uid, uid, uid, uid}, status(t, p.PID(), "Uid"))
	require.Equal(t, []string{gid, gid, gid, gid}, status(t, p.PID(), "Gid"))
	var want []string
	for _, one := range c.Groups {
		want = append(want, fmt.Sprint(one))
	}
	require.ElementsMatch(t, want, status(t, p.PID(), "Groups"))
	if c.Uid != 0 { // systemd reduces the capabilities of root to the unit's; the tests do not
		require.Equal(t, []string{"0000000000000000"}, status(t, p.PID(), "CapEff"))
	}
}

// requireEnvironment requires that a process has the variables of its unit's environment files, and no other variables
// of Signalbox or of the test.
func requireEnvironment(t *testing.T, name string, u unit, p *Process) {
	t.Helper()
	var want []string
	for _, line := range u.environment(t) {
		key, _, _ := strings.Cut(line, "=")
		want = append(want, key)
	}
	switch name {
	case "auth":
		want = append(want, "SERVICE_BOOTSTRAP_ADMIN_PASSWORD_FILE")
	case "agent":
		want = append(want, "SERVICE_AGENT_ENVIRONMENTS", "SERVICE_AGENT_RESERVE_BYTES", "SERVICE_AGENT_WORK_DISK_BYTES", "PIP_NO_INDEX_OF_A_TEST")
	}
	var got []string
	for _, line := range environ(t, p.PID()) {
		key, _, _ := strings.Cut(line, "=")
		if strings.HasPrefix(key, "SERVICE_") || key == "PIP_NO_INDEX_OF_A_TEST" {
			got = append(got, key)
		}
	}
	require.ElementsMatch(t, want, got)
	if name != "agent" {
		keys := []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL"}
		for _, line := range environ(t, p.PID()) {
			key, _, _ := strings.Cut(line, "=")
			require.True(t, slices.Contains(keys, key) || slices.Contains(want, key), "%s does not come from the unit", key)
		}
	}
}

// requirePrivateFolders requires that other users cannot read the data folders.
func requirePrivateFolders(t *testing.T, h *host, s *Installation) {
	t.Helper()
	for _, folder := range []string{"lib", "agent"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(s.Dir, folder), func(path string, d os.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := d.Info()
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o007, path)
			if folder == "agent" {
				// No other user can enter the folder. Inside it, files are readable by the users of works.
				return fs.SkipAll
			}
			return nil
		}))
	}
	info, err := os.Stat(filepath.Join(s.Dir, "etc", "signalbox", "secrets", "keyring"))
	require.NoError(t, err)
	want := os.FileMode(0o600)
	if h.users != nil {
		want = 0o640
	}
	require.Equal(t, want, info.Mode().Perm())
}
