package shim_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A command that is alive when a stop is requested is stopped, even if the signal does not reach its group. Neither its own
// end nor the kill after the grace period then counts as a failure of the command.
func TestShim_stopOfCommandThatLeftItsGroup(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		handler string
		code    int
	}{
		"ends after the signal": {"lambda *_: sys.exit(5)", 5},
		"ignores the signal":    {"signal.SIG_IGN", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The command joins the group of a child, so that it leads no group.
			b := script(t, "exec "+python+` -c '
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, `+c.handler+`)
os.setpgid(0, subprocess.Popen(["sleep", "300"], preexec_fn=os.setpgrp).pid)
print("begun", flush=True)
while True: signal.pause()'`)
			b.start.Env = append(b.start.Env, "HOME="+os.Getenv("HOME"), "PATH="+os.Getenv("PATH"))
			b.launch()
			b.awaitLine("begun")
			require.NoError(t, b.Stop(b.dir, 500*time.Millisecond))
			exit, found := b.ends()
			require.True(t, found)
			require.True(t, exit.Stopped, b.log())
			require.Equal(t, c.code, exit.Code)
			require.Empty(t, exit.Cause)
		})
	}
}
