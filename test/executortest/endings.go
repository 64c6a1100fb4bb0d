package executortest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

var endings = map[string]func(*harness){
	"command runs and ends": func(b *harness) {
		w := b.shell("a", "echo one; echo two >&2; printf three")
		b.apply(w)
		o := b.reach(w.Key, executor.PhaseExited)
		require.Equal(b, executor.Exit{}, *o.Exit)
		require.False(b, o.PreparingAt.IsZero())
		require.False(b, o.RunningAt.Before(o.PreparingAt))
		require.False(b, o.ExitedAt.Before(o.RunningAt))
		text, sound := b.plane.Logs(w.Key)
		require.Equal(b, "one\ntwo\nthree", text)
		require.True(b, sound)
		require.Equal(b, 1, b.plane.Minted(w.Key))
	},
	"exit code is reported": func(b *harness) {
		w := b.shell("a", "exit 7")
		b.apply(w)
		require.Equal(b, executor.Exit{Code: 7}, b.exit(w.Key))
	},
	"signal is reported": func(b *harness) {
		w := b.shell("a", "kill -9 $$")
		b.apply(w)
		require.Equal(b, executor.Exit{Code: -1, Signal: int(syscall.SIGKILL)}, b.exit(w.Key))
	},
	"missing command": func(b *harness) {
		w := b.shell("a", "")
		w.Attempt.Command = []string{"no-such-command-here"}
		b.apply(w)
		exit := b.exit(w.Key)
		require.Equal(b, executor.ReasonStart, exit.Reason)
		require.Equal(b, -1, exit.Code)
		require.Contains(b, exit.Message, "no-such-command-here")
	},
	"leftover child processes are killed": func(b *harness) {
		file := filepath.Join(b.TempDir(), "pids")
		// One child stays in the process group. The other one gets its own session.
		w := b.shell("a", "sleep 300 & echo $! >> "+file+"; setsid sleep 300 & sleep 0.2; pgrep -f 'sleep 300' -P $$ >> "+file+"; exit 3")
		b.apply(w)
		require.Equal(b, 3, b.exit(w.Key).Code)
		for _, pid := range readPIDs(b, file) {
			require.False(b, b.alive(pid), "process %d is still running", pid)
		}
	},
	"many log lines arrive once and in order": func(b *harness) {
		w := b.shell("a", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
		b.plane.RefuseLogs(2)
		b.apply(w)
		b.exit(w.Key)
		text, sound := b.plane.Logs(w.Key)
		require.True(b, sound)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		require.Len(b, lines, 20000)
		for i, line := range lines {
			require.Equal(b, "line "+strconv.Itoa(i), line)
		}
	},
	"output that is not UTF-8 is replaced": func(b *harness) {
		w := b.shell("a", `printf 'a\377b\000c\n'`)
		b.apply(w)
		b.exit(w.Key)
		text, sound := b.plane.Logs(w.Key)
		require.Equal(b, "a\uFFFDb\u2400c\n", text)
		require.True(b, sound)
	},
}

// written reports whether a command has written n complete lines to a file. The shell creates the file before it writes.
func written(file string, n int) bool {
	raw, err := os.ReadFile(file)
	return err == nil && strings.Count(string(raw), "\n") == n
}

func readPIDs(b *harness, file string) []int {
	b.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(b, err)
	var pids []int
	for field := range strings.FieldsSeq(string(raw)) {
		pid, err := strconv.Atoi(field)
		require.NoError(b, err)
		pids = append(pids, pid)
	}
	require.NotEmpty(b, pids)
	return pids
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(rest, "Z")
}
