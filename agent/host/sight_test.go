package host_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// hidden returns a script of the node that works do not see.
func hidden(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "serve.py")
	require.NoError(t, os.WriteFile(path, []byte("#!/usr/bin/env python3\n"), 0o755))
	require.NoError(t, boundary.MakeReadable(filepath.Dir(path)))
	return path
}

func TestEngine_outOfSight(t *testing.T) {
	t.Parallel()
	script := hidden(t)
	for name, command := range map[string][]string{"program": {script, "{port}"}, "script of an interpreter": {"python", script, "{port}"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t, "")
			f.work.Engine.Command = command
			f.apply(f.work)
			exit, r := f.failed()
			require.Equal(t, executor.CodeEngineExited, r.Code)
			for _, message := range []string{exit.Message, r.Message} {
				require.Contains(t, message, script+" does not exist inside the boundary of the work")
				require.Contains(t, message, "SERVICE_AGENT_WORK_PATHS")
			}
		})
	}
}

func TestAttempt_outOfSight(t *testing.T) {
	t.Parallel()
	script := hidden(t)
	for name, c := range map[string]struct {
		command []string
		named   bool
	}{
		"program":                {[]string{script}, true},
		"script of a shell":      {[]string{"/bin/sh", script}, true},
		"script of Python":       {[]string{"python3", "-u", script}, true},
		"folder of a program":    {[]string{"/bin/ls", "--color=never", filepath.Dir(script)}, true},
		"file of another reason": {[]string{"/bin/sh", "-c", "exit 3", "x", "--out=/tmp/out"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttempt(t, "", nil)
			a.work.Attempt.Command = c.command
			a.apply()
			exit := a.reach(executor.PhaseExited).Exit
			if !c.named {
				require.Empty(t, exit.Message)
				return
			}
			require.Contains(t, exit.Message, c.command[len(c.command)-1]+" does not exist inside the boundary of the work")
			require.Contains(t, exit.Message, "SERVICE_AGENT_WORK_PATHS")
		})
	}
}
