package testenv

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unit contains the values of each key of a systemd unit, in order.
type unit map[string][]string

// one returns the last value of a key, or "" if the unit has no such key.
func (u unit) one(key string) string {
	if len(u[key]) == 0 {
		return ""
	}
	return u[key][len(u[key])-1]
}

// command returns the words of the command in a key. The result is empty if the unit has no such key.
func (u unit) command(key string) []string { return strings.Fields(u.one(key)) }

// readUnit reads a file of deploy/systemd.
func readUnit(t testing.TB, file string) unit {
	t.Helper()
	u := unit{}
	for _, line := range lines(t, filepath.Join(Root(t), "deploy", "systemd", file)) {
		if key, value, ok := strings.Cut(line, "="); ok {
			u[key] = append(u[key], value)
		}
	}
	return u
}

// unit returns the unit of a process of the host.
func (h *host) unit(t testing.TB, name string) unit {
	t.Helper()
	u := readUnit(t, "signalbox-"+name+".service")
	if name == "agent" && h.ordinary {
		u["User"], u["Group"] = append(u["User"], "signalbox-agent"), append(u["Group"], "signalbox-agent")
	}
	return u
}

// environment returns the lines of the unit's environment files in deploy/env.
func (u unit) environment(t testing.TB) []string {
	t.Helper()
	var env []string
	for _, file := range u["EnvironmentFile"] {
		env = append(env, lines(t, filepath.Join(Root(t), "deploy", "env", filepath.Base(file)))...)
	}
	return env
}

// lines returns the lines of a file, except comments and empty lines.
func lines(t testing.TB, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	var out []string
	for scan := bufio.NewScanner(f); scan.Scan(); {
		if line := strings.TrimSpace(scan.Text()); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}
