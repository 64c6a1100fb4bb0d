package testenv

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// units are the files of deploy/systemd that start a process.
func units(t *testing.T) map[string]unit {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(Root(t), "deploy", "systemd", "*.service"))
	require.NoError(t, err)
	out := map[string]unit{}
	for _, file := range files {
		out[filepath.Base(file)] = readUnit(t, filepath.Base(file))
	}
	require.Greater(t, len(out), len(services))
	return out
}

// once is a unit that does one thing and ends, which root does.
func once(u unit) bool { return u.one("Type") == "oneshot" }

// made are the programs that `make build` makes.
func made(t *testing.T) []string {
	t.Helper()
	var patterns []string
	for _, line := range lines(t, filepath.Join(Root(t), "Makefile")) {
		if rest, ok := strings.CutPrefix(line, "BINARIES ="); ok {
			patterns = strings.Fields(rest)
		}
	}
	require.NotEmpty(t, patterns)
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`}, patterns...)...)
	cmd.Dir = Root(t)
	out, err := cmd.Output()
	require.NoError(t, err)
	var names []string
	for line := range strings.FieldsSeq(string(out)) {
		names = append(names, path.Base(line))
	}
	return names
}

func TestAUnitStartsAProgramThatTheBuildMakes(t *testing.T) {
	t.Parallel()
	programs := made(t)
	for name, u := range units(t) {
		for _, key := range []string{"ExecStartPre", "ExecStart"} {
			if words := u.command(key); key == "ExecStart" || len(words) > 0 {
				require.NotEmpty(t, words, name)
				require.Equal(t, "/usr/bin", path.Dir(words[0]), name)
				require.Contains(t, programs, path.Base(words[0]), name)
			}
		}
		require.Len(t, u["ExecStart"], 1, name)
	}
}

func TestAnEnvironmentFileIsThereAndIsReadByAUnit(t *testing.T) {
	t.Parallel()
	read := map[string]bool{}
	for name, u := range units(t) {
		for _, file := range u["EnvironmentFile"] {
			require.Equal(t, "/etc/signalbox", path.Dir(file), name)
			require.FileExists(t, filepath.Join(Root(t), "deploy", "env", path.Base(file)), name)
			read[path.Base(file)] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(Root(t), "deploy", "env"))
	require.NoError(t, err)
	for _, e := range entries {
		require.True(t, read[e.Name()], "%s is read by no unit", e.Name())
	}
}

// known are the users and groups of deploy/sysusers.d.
func known(t *testing.T) (users, groups []string) {
	t.Helper()
	for _, line := range lines(t, filepath.Join(Root(t), "deploy", "sysusers.d", "signalbox.conf")) {
		fields := strings.Fields(line)
		require.Contains(t, []string{"u", "g"}, fields[0], line)
		if groups = append(groups, fields[1]); fields[0] == "u" {
			users = append(users, fields[1])
		}
	}
	return users, groups
}

func TestAUnitRunsAsAUserOfSysusersWithAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	users, groups := known(t)
	first := map[string]string{}
	for name, u := range units(t) {
		if once(u) {
			require.Equal(t, "root", u.one("User"), name)
			continue
		}
		require.Contains(t, users, u.one("User"), name)
		require.Contains(t, groups, u.one("Group"), name)
		require.Empty(t, first[u.one("Group")], "%s: who shares a first group can look into the other", name)
		first[u.one("Group")] = name
		for one := range strings.FieldsSeq(u.one("SupplementaryGroups")) {
			require.Contains(t, groups, one, name)
			require.True(t, one == "signalbox" || one == "signalbox-keyring" || one == "signalbox-audit", "%s reads what is another's", name)
		}
		keyring := strings.Contains(strings.Join(u.environment(t), "\n"), "SERVICE_KEYRING_FILE=")
		require.Equal(t, keyring, slices.Contains(strings.Fields(u.one("SupplementaryGroups")), "signalbox-keyring"), name)
		audit := strings.Contains(strings.Join(u.environment(t), "\n"), "SERVICE_AUDIT_KEY_FILE=")
		require.Equal(t, audit, slices.Contains(strings.Fields(u.one("SupplementaryGroups")), "signalbox-audit"), name)
	}
}

func TestAUnitIsStartedAgainForEverAndMayChangeOnlyItsData(t *testing.T) {
	t.Parallel()
	for name, u := range units(t) {
		require.Equal(t, "yes", u.one("NoNewPrivileges"), name)
		require.Equal(t, "strict", u.one("ProtectSystem"), name)
		if once(u) {
			continue
		}
		require.Equal(t, "always", u.one("Restart"), name)
		require.Equal(t, "0", u.one("StartLimitIntervalSec"), name)
		require.NotNil(t, u["CapabilityBoundingSet"], name)
		require.Empty(t, u.one("CapabilityBoundingSet"), name)
		writes := append([]string{"/var/lib/" + u.one("StateDirectory")}, u["ReadWritePaths"]...)
		require.Contains(t, strings.Join(writes, " ")+" ", u.one("WorkingDirectory")+" ", name)
	}
}

func TestTheAgentsUnitLeavesItsWorksAlone(t *testing.T) {
	t.Parallel()
	u := readUnit(t, "signalbox-agent.service")
	require.Equal(t, "process", u.one("KillMode"), "they outlive the agent")
	require.Equal(t, "continue", u.one("OOMPolicy"), "one that is ended for its memory takes nobody along")
	for _, key := range []string{"PrivateTmp", "PrivateDevices", "ProtectClock", "MemoryDenyWriteExecute", "RestrictNamespaces"} {
		require.Empty(t, u.one(key), "%s: they use devices, make code and go on when the agent's mounts are gone", key)
	}
}

// machine is a root with the files of deploy/ where deploy/README.md puts them.
func machine(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put := func(file, text string, mode os.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(text), mode))
	}
	put("etc/group", "", 0o644)
	for _, target := range []string{"sysinit", "basic", "shutdown", "network-online", "timers", "multi-user"} {
		put("etc/systemd/system/"+target+".target", "[Unit]\n", 0o644)
	}
	for _, name := range made(t) {
		put("usr/bin/"+name, "#!/bin/sh\n", 0o755)
	}
	for from, to := range map[string]string{"systemd": "etc/systemd/system", "sysusers.d": "usr/lib/sysusers.d"} {
		entries, err := os.ReadDir(filepath.Join(Root(t), "deploy", from))
		require.NoError(t, err)
		for _, e := range entries {
			raw, err := os.ReadFile(filepath.Join(Root(t), "deploy", from, e.Name()))
			require.NoError(t, err)
			put(filepath.Join(to, e.Name()), string(raw), 0o644)
		}
	}
	return root
}

// TestSystemdTakesTheUnits asks systemd itself, on machines that have it.
func TestSystemdTakesTheUnits(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("no systemd-analyze on this machine; the other tests read the units")
		return
	}
	root := machine(t)
	files, err := filepath.Glob(filepath.Join(Root(t), "deploy", "systemd", "*"))
	require.NoError(t, err)
	args := []string{"--root=" + root, "verify"}
	for _, file := range files {
		args = append(args, filepath.Base(file))
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out), "what it does not know it tells and ignores")
}

// TestSysusersMakesTheUsersOfTheStand compares the stand's reading of the file with systemd's own.
func TestSysusersMakesTheUsersOfTheStand(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("systemd-sysusers")
	if err != nil || os.Geteuid() != 0 {
		t.Log("systemd-sysusers does not run here; the stand reads its file by itself")
		return
	}
	root := machine(t)
	out, err := exec.CommandContext(t.Context(), "systemd-sysusers", "--root="+root).CombinedOutput()
	require.NoError(t, err, "%s", out)
	h := &host{t: t, dir: t.TempDir()}
	h.sysusers()
	for file, places := range map[string][]int{"passwd": {0, 5, 6}, "group": {0}} {
		require.ElementsMatch(t, columns(t, filepath.Join(h.dir, "etc", file), places), columns(t, filepath.Join(root, "etc", file), places), file)
	}
}

// columns are those places of each line of an account file.
func columns(t *testing.T, path string, places []int) []string {
	t.Helper()
	var out []string
	for _, line := range lines(t, path) {
		fields, kept := strings.Split(line, ":"), ""
		for _, n := range places {
			kept += fields[n] + ":"
		}
		out = append(out, kept)
	}
	return out
}
