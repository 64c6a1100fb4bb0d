package executortest

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

var stopping = map[string]func(*harness){
	"stop lets the command end": func(b *harness) {
		ready := filepath.Join(b.TempDir(), "ready")
		w := b.shell("a", "trap 'echo bye; exit 4' TERM; touch "+ready+"; while :; do sleep 0.05; done")
		b.apply(w)
		b.until("the trap is set", func() bool { return exists(ready) })
		b.apply(withDesired(w, executor.DesiredStopped))
		require.Equal(b, executor.Exit{Code: 4, Reason: executor.ReasonStopped}, b.exit(w.Key))
		text, _ := b.plane.Logs(w.Key)
		require.Contains(b, text, "bye\n")
	},
	"stop kills after the grace period": func(b *harness) {
		ready := filepath.Join(b.TempDir(), "ready")
		w := b.shell("a", "trap '' TERM; touch "+ready+"; while :; do sleep 0.05; done")
		w.Attempt.Grace = 300 * time.Millisecond
		b.apply(w)
		b.until("the trap is set", func() bool { return exists(ready) })
		b.apply(withDesired(w, executor.DesiredStopped))
		exit := b.exit(w.Key)
		require.Equal(b, executor.Exit{Code: -1, Signal: int(syscall.SIGKILL), Reason: executor.ReasonStopped}, exit)
	},
	"force cuts the grace period short": func(b *harness) {
		ready := filepath.Join(b.TempDir(), "ready")
		w := b.shell("a", "trap '' TERM; touch "+ready+"; while :; do sleep 0.05; done")
		w.Attempt.Grace = time.Hour
		b.apply(w)
		b.until("the trap is set", func() bool { return exists(ready) })
		w = withDesired(w, executor.DesiredStopped)
		b.apply(w)
		w.Force = true
		b.apply(w)
		require.Equal(b, executor.Exit{Code: -1, Signal: int(syscall.SIGKILL), Reason: executor.ReasonStopped}, b.exit(w.Key))
	},
	"forced stop after a restart": func(b *harness) {
		ready := filepath.Join(b.TempDir(), "ready")
		w := b.shell("a", "trap '' TERM; touch "+ready+"; while :; do sleep 0.05; done")
		w.Attempt.Grace = time.Hour
		b.apply(w)
		b.until("the trap is set", func() bool { return exists(ready) })
		w = withDesired(w, executor.DesiredStopped)
		w.Force = true
		b.reopen(func() {}) // the next executor receives the stop instead
		b.apply(w)
		require.Equal(b, executor.ReasonStopped, b.exit(w.Key).Reason)
	},
	"stop ends all processes of the work": func(b *harness) {
		pids := filepath.Join(b.TempDir(), "pids")
		w := b.shell("a", "sleep 300 & echo $! > "+pids+"; setsid sleep 300 & echo $! >> "+pids+"; wait")
		b.apply(w)
		b.until("both children have started", func() bool { return written(pids, 2) })
		b.apply(withDesired(w, executor.DesiredStopped))
		require.Equal(b, executor.ReasonStopped, b.exit(w.Key).Reason)
		for _, pid := range readPIDs(b, pids) {
			require.False(b, b.alive(pid))
		}
	},
	"stop during preparation": func(b *harness) {
		w := b.shell("a", "echo never")
		ref := b.plane.Put("package.tar", Tar(b.T, map[string]string{"x": "y"}))
		b.plane.FailDownloads(ref, 1<<30)
		ref.Unpack = true
		w.Attempt.Package = &ref
		b.apply(w)
		b.prepares(w.Key)
		b.apply(withDesired(w, executor.DesiredStopped))
		require.Equal(b, executor.Exit{Code: -1, Reason: executor.ReasonStopped}, b.exit(w.Key))
		require.Zero(b, b.plane.Minted(w.Key))
	},
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() || info.Mode().IsRegular())
}
