package testenv

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// readme returns the text of deploy/README.md and the commands in it.
func readme(t *testing.T) (text, commands string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Root(t), "deploy", "README.md"))
	require.NoError(t, err)
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		commands += block[1]
	}
	return string(raw), commands
}

func TestReadme_installsAndStartsEveryUnit(t *testing.T) {
	t.Parallel()
	_, commands := readme(t)
	before, upgrade, found := strings.Cut(commands, "systemctl enable --now signalbox-agent\n")
	require.True(t, found)
	var installed []string
	for _, name := range regexp.MustCompile(`\bbin/([a-z-]+)`).FindAllStringSubmatch(before, -1) {
		installed = append(installed, name[1])
		require.Contains(t, builtPrograms(t), name[1])
	}
	for file, u := range units(t) {
		require.Contains(t, installed, path.Base(u.command("ExecStart")[0]), file)
		require.Contains(t, upgrade, "bin/"+path.Base(u.command("ExecStart")[0]), file)
		if name := strings.TrimSuffix(file, ".service"); once(u) {
			require.Contains(t, commands, "systemctl enable --now "+name+".timer")
		} else {
			require.Regexp(t, `systemctl enable --now [a-z -]*\b`+name+`\b`, commands)
			require.Regexp(t, `systemctl try-restart [a-z -]*\b`+name+`\b`, upgrade)
		}
	}
	for _, file := range regexp.MustCompile(`\bdeploy/[a-zA-Z0-9_./*-]+`).FindAllString(commands, -1) {
		there, err := filepath.Glob(filepath.Join(Root(t), file))
		require.NoError(t, err)
		require.NotEmpty(t, there, file)
	}
}

// row returns the row of a process in the README's table: `files` are the files that the host of the process must
// have, and `listens` is the column with the ports of the process.
func row(t *testing.T, name string) (files []string, listens string) {
	t.Helper()
	text, _ := readme(t)
	for line := range strings.Lines(text) {
		columns := strings.Split(line, "|")
		if len(columns) != 5 || strings.TrimSpace(columns[1]) != name {
			continue
		}
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(columns[2], -1) {
			files = append(files, braces(strings.TrimSuffix(quoted[1], "/"))...)
		}
		return files, columns[3]
	}
	require.FailNow(t, "the README has no row for "+name)
	return nil, ""
}

// braces expands a shell pattern with at most one pair of braces, such as a{b,c}.
func braces(pattern string) []string {
	head, rest, found := strings.Cut(pattern, "{")
	if !found {
		return []string{pattern}
	}
	inner, tail, _ := strings.Cut(rest, "}")
	var out []string
	for one := range strings.SplitSeq(inner, ",") {
		out = append(out, head+one+tail)
	}
	return out
}

func TestReadme_listsFilesAndPortsOfEachHost(t *testing.T) {
	t.Parallel()
	for _, name := range services {
		files, listens := row(t, name)
		require.Equal(t, name+".env", files[0])
		needed := []string{name + ".env"}
		for _, line := range lines(t, filepath.Join(Root(t), "deploy", "env", name+".env")) {
			key, value, _ := strings.Cut(line, "=")
			if file, ok := strings.CutPrefix(value, "/etc/signalbox/"); ok {
				needed = append(needed, file)
			}
			if strings.HasSuffix(key, "_LISTEN") {
				require.Contains(t, listens, value[strings.LastIndex(value, ":")+1:], line)
			}
		}
		matches := func(pattern, file string) bool {
			ok, err := path.Match(pattern, file)
			require.NoError(t, err)
			return ok
		}
		for _, file := range needed {
			require.True(t, slices.ContainsFunc(files, func(p string) bool { return matches(p, file) }), "the README must list for %s the file %s, which its settings name", name, file)
		}
		for _, pattern := range files {
			require.True(t, slices.ContainsFunc(needed, func(f string) bool { return matches(pattern, f) }), "the README lists for %s the file %s, which its settings do not name", name, pattern)
		}
	}
}

// settingsOf returns the names of the settings that a process accepts.
func settingsOf(t *testing.T, p *Process) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.argv[0], append(slices.Clone(p.argv[1:]), "--print-config")...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = p.env, p.dir, &syscall.SysProcAttr{Credential: p.cred}
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s", p.Name, &errOut)
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^([A-Z0-9_]+)=`).FindAllStringSubmatch(string(out), -1) {
		names = append(names, found[1])
	}
	return names
}

// requireKnownSettings requires that every setting in the README and in the environment files, even in
// comments, is a setting of a process.
func requireKnownSettings(t *testing.T, s *Installation) {
	t.Helper()
	known := map[string]bool{}
	for _, p := range s.Processes {
		for _, name := range settingsOf(t, p) {
			known[name] = true
		}
	}
	text, _ := readme(t)
	files, err := filepath.Glob(filepath.Join(Root(t), "deploy", "env", "*.env"))
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		text += string(raw)
	}
	for _, name := range regexp.MustCompile(`\bSERVICE_[A-Z0-9_]+\b`).FindAllString(text, -1) {
		require.True(t, known[name] || known[strings.TrimSuffix(name, "_FILE")], "%s is not a setting of any process", name)
	}
}
