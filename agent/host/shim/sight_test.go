package shim_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// outside returns a folder of the machine that works do not see, with a program, a script for sh, and a script whose
// interpreter is the program.
func outside(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"program": "#!/bin/sh\nexit 0\n", "script.sh": "exit 0\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	require.NoError(t, boundary.MakeReadable(dir))
	return dir
}

func TestIsolated_programOutOfSight(t *testing.T) {
	t.Parallel()
	dir := outside(t)
	for name, c := range map[string]struct {
		path    string
		content string // of the file that a bind adds at path; empty if there is no bind
		named   string // the missing file that the failure must name
	}{
		"program":             {path: filepath.Join(dir, "program"), named: filepath.Join(dir, "program")},
		"program in /tmp":     {path: "/tmp/no-such-program", named: "/tmp/no-such-program"},
		"program in PATH":     {path: "no-such-program", named: "no-such-program"},
		"interpreter":         {content: "#!" + filepath.Join(dir, "program") + " -x\n", named: "its interpreter " + filepath.Join(dir, "program") + " does not exist"},
		"interpreter of tmp":  {content: "#! /tmp/python\n", named: "its interpreter /tmp/python does not exist"},
		"without a last line": {content: "#!/opt/none", named: "its interpreter /opt/none does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := isolated(t, "")
			b.start.Path = c.path
			if c.content != "" {
				b.start.Path = filepath.Join(b.start.Dir, "script")
				require.NoError(t, os.WriteFile(b.start.Path, []byte(c.content), 0o755))
			}
			b.start.Args = []string{b.start.Path}
			b.launch()
			exit, found := b.ends()
			require.True(t, found)
			require.Equal(t, -1, exit.Code)
			require.Contains(t, exit.Failure, c.named)
			require.Contains(t, exit.Failure, "SERVICE_AGENT_WORK_PATHS")
		})
	}
}

func TestShim_missingProgramWithoutBoundary(t *testing.T) {
	t.Parallel()
	b := script(t, "")
	b.start.Path = "/tmp/no-such-program"
	b.launch()
	exit, _ := b.ends()
	require.Equal(t, "start /tmp/no-such-program: no such file or directory", exit.Failure, "without a boundary, the machine lacks the file")
}

func TestIsolated_argumentsOutOfSight(t *testing.T) {
	t.Parallel()
	dir := outside(t)
	b := isolated(t, "exit 2")
	b.start.Args = append(b.start.Args, filepath.Join(dir, "script.sh"), "--config="+dir+"/c.yaml", "--usr=/usr", "/usr/bin", "relative/path", "a=b", "--out=/tmp/out", "/")
	b.launch()
	exit, found := b.ends()
	require.True(t, found)
	require.Equal(t, 2, exit.Code)
	require.Equal(t, []string{filepath.Join(dir, "script.sh"), dir + "/c.yaml", "/tmp/out"}, exit.Missing)

	many := isolated(t, "exit 0")
	for range 1000 {
		many.start.Args = append(many.start.Args, "/no/such/file")
	}
	many.launch()
	exit, _ = many.ends()
	require.Zero(t, exit.Code)
	require.Len(t, exit.Missing, 8)
}
