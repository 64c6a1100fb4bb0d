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

// units returns the service units of deploy/systemd by file name.
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

// once reports whether a unit runs a command to its end, instead of a service. Such a unit runs as root.
func once(u unit) bool { return u.one("Type") == "oneshot" }

// builtPrograms returns the programs that `make build` builds.
func builtPrograms(t *testing.T) []string {
	t.Helper()
	var patterns []string
	for _, line := range lines(t, filepath.Join(Root(t), "scripts", "build.sh")) {
		if rest, ok := strings.CutPrefix(line, "programs=("); ok {
			patterns = strings.Fields(strings.TrimSuffix(rest, ")"))
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

func TestUnits_startBuiltPrograms(t *testing.T) {
	t.Parallel()
	programs := builtPrograms(t)
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

func TestUnits_environmentFiles(t *testing.T) {
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
		require.True(t, read[e.Name()], "no unit reads %s", e.Name())
	}
}

// known returns the users and groups in deploy/sysusers.d.
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

func TestUnits_usersAndGroups(t *testing.T) {
	t.Parallel()
	users, groups := known(t)
	first := map[string]string{}
	for name, u := range units(t) {
		if once(u) {
			require.Equal(t, "root", u.one("User"), name)
			continue
		}
		if name == agentUnit {
			require.Equal(t, "root", u.one("User"), "the agent must be root, because it gives each work its own user")
			continue
		}
		require.Contains(t, users, u.one("User"), name)
		require.Contains(t, groups, u.one("Group"), name)
		require.Empty(t, first[u.one("Group")], "%s: two units must not have the same primary group", name)
		first[u.one("Group")] = name
		for one := range strings.FieldsSeq(u.one("SupplementaryGroups")) {
			require.Contains(t, groups, one, name)
			require.True(t, one == "signalbox" || one == "signalbox-keyring" || one == "signalbox-audit", "%s must not be in a group of another unit", name)
		}
		keyring := strings.Contains(strings.Join(u.environment(t), "\n"), "SERVICE_KEYRING_FILE=")
		require.Equal(t, keyring, slices.Contains(strings.Fields(u.one("SupplementaryGroups")), "signalbox-keyring"), name)
		audit := strings.Contains(strings.Join(u.environment(t), "\n"), "SERVICE_AUDIT_KEY_FILE=")
		require.Equal(t, audit, slices.Contains(strings.Fields(u.one("SupplementaryGroups")), "signalbox-audit"), name)
	}
}

func TestUnits_restartAndSandbox(t *testing.T) {
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
		require.Equal(t, name == agentUnit, u.one("CapabilityBoundingSet") != "", name)
		writes := append([]string{"/var/lib/" + u.one("StateDirectory")}, u["ReadWritePaths"]...)
		require.Contains(t, strings.Join(writes, " ")+" ", u.one("WorkingDirectory")+" ", name)
	}
}

const agentUnit = "signalbox-agent.service"

func TestUnitsWithWorks_allowTheBoundary(t *testing.T) {
	t.Parallel()
	require.NotContains(t, readUnit(t, agentUnit).one("CapabilityBoundingSet"), "~", "the unit must list the allowed capabilities")
	for _, name := range []string{agentUnit, "signalboxd.service"} {
		for _, key := range []string{"ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc", "ProcSubset", "SystemCallFilter"} {
			require.Empty(t, readUnit(t, name).one(key), "%s: %s: a work could not have its own /proc", name, key)
		}
	}
}

func TestUnitsWithWorks_leaveWorksRunning(t *testing.T) {
	t.Parallel()
	for _, name := range []string{agentUnit, "signalboxd.service"} {
		u := readUnit(t, name)
		require.Equal(t, "process", u.one("KillMode"), "%s: works must outlive the process", name)
		require.Equal(t, "continue", u.one("OOMPolicy"), "%s: a work killed for using too much memory must not stop the others", name)
		for _, key := range []string{"PrivateTmp", "PrivateDevices", "ProtectClock", "MemoryDenyWriteExecute", "RestrictNamespaces"} {
			require.Empty(t, u.one(key), "%s: %s: works use devices, generate code and outlive the process's mounts", name, key)
		}
	}
}

// machine creates a root folder that contains the files of deploy/ at the paths of deploy/README.md.
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
	for _, name := range builtPrograms(t) {
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

// TestUnits_verifiedBySystemd verifies the units with systemd-analyze if it is installed.
func TestUnits_verifiedBySystemd(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is not installed; only the other tests check the units")
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
	require.Empty(t, string(out), "systemd must not print warnings, for example about unknown keys")
}

// TestSysusers_likeSystemd compares the host's users with the users that systemd-sysusers creates.
func TestSysusers_likeSystemd(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("systemd-sysusers")
	if err != nil || os.Geteuid() != 0 {
		t.Log("systemd-sysusers is not installed or the test does not run as root; nothing to compare")
		return
	}
	root := machine(t)
	out, err := exec.CommandContext(t.Context(), "systemd-sysusers", "--root="+root).CombinedOutput()
	require.NoError(t, err, "%s", out)
	h := &host{t: t, dir: t.TempDir()}
	h.sysusers()
	for file, positions := range map[string][]int{"passwd": {0, 5, 6}, "group": {0}} {
		require.ElementsMatch(t, columns(t, filepath.Join(h.dir, "etc", file), positions), columns(t, filepath.Join(root, "etc", file), positions), file)
	}
}

// columns returns the given columns of each line in an account file.
func columns(t *testing.T, path string, positions []int) []string {
	t.Helper()
	var out []string
	for _, line := range lines(t, path) {
		fields, kept := strings.Split(line, ":"), ""
		for _, n := range positions {
			kept += fields[n] + ":"
		}
		out = append(out, kept)
	}
	return out
}
