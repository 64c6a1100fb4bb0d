package executortest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

var adopting = map[string]func(*harness){
	"running command is adopted": func(b *harness) {
		dir := b.TempDir()
		goOn, starts := filepath.Join(dir, "go"), filepath.Join(dir, "starts")
		w := b.shell("a", "echo begin; echo x >> "+starts+"; while [ ! -e "+goOn+" ]; do sleep 0.02; done; echo end; exit 5")
		b.apply(w)
		before := b.reach(w.Key, executor.PhaseRunning)
		b.until("the command has begun", func() bool { return exists(starts) })
		b.reopen(func() {})
		after := b.reach(w.Key, executor.PhaseRunning)
		require.Equal(b, before.RunningAt, after.RunningAt)
		require.NoError(b, os.WriteFile(goOn, nil, 0o600))
		b.endsAs(w, 5, "begin\nend\n", starts)
	},
	"reports to a control plane that moved": func(b *harness) {
		dir := b.TempDir()
		goOn, starts := filepath.Join(dir, "go"), filepath.Join(dir, "starts")
		w := b.shell("a", "echo begin; echo x >> "+starts+"; while [ ! -e "+goOn+" ]; do sleep 0.02; done; "+
			"while [ \"$(cat \"$SERVICE_JOB_ENDPOINT_FILE\")\" = \"$SERVICE_JOB_ENDPOINT\" ]; do sleep 0.02; done; echo to $(cat \"$SERVICE_JOB_ENDPOINT_FILE\")")
		b.apply(w)
		b.until("the first line is delivered", func() bool { text, _ := b.plane.Logs(w.Key); return text == "begin\n" })
		b.reopen(b.plane.Move)
		w.Attempt.IngestEndpoint = b.plane.Endpoint()
		b.apply(w)
		b.reopen(func() {}) // the new endpoint must survive a restart
		require.NoError(b, os.WriteFile(goOn, nil, 0o600))
		b.endsAs(w, 0, "begin\nto "+b.plane.Endpoint()+"\n", starts)
	},
	"exit while no executor runs is reported": func(b *harness) {
		dir := b.TempDir()
		goOn, starts, over := filepath.Join(dir, "go"), filepath.Join(dir, "starts"), filepath.Join(dir, "over")
		w := b.shell("a", "echo x >> "+starts+"; while [ ! -e "+goOn+" ]; do sleep 0.02; done; echo late; touch "+over+"; exit 6")
		b.apply(w)
		b.reach(w.Key, executor.PhaseRunning)
		b.reopen(func() {
			require.NoError(b, os.WriteFile(goOn, nil, 0o600))
			b.await(func() bool { return exists(over) })
		})
		b.endsAs(w, 6, "late\n", starts)
	},
	"interrupted preparation is repeated": func(b *harness) {
		starts := filepath.Join(b.TempDir(), "starts")
		w := b.shell("a", "echo x >> "+starts+"; cat x")
		ref := b.plane.Put("package.tar", Tar(b.T, map[string]string{"x": "y\n"}))
		b.plane.FailDownloads(ref, 1<<30)
		ref.Unpack = true
		w.Attempt.Package = &ref
		b.apply(w)
		b.prepares(w.Key)
		b.reopen(func() { b.plane.FailDownloads(ref, 0) })
		b.endsAs(w, 0, "y\n", starts)
	},
	"log lines are neither lost nor duplicated": func(b *harness) {
		starts := filepath.Join(b.TempDir(), "starts")
		const lines = 300
		w := b.shell("a", "echo x >> "+starts+"; i=0; while [ $i -lt "+strconv.Itoa(lines)+" ]; do echo line $i; i=$((i+1)); sleep 0.005; done")
		b.apply(w)
		b.reach(w.Key, executor.PhaseRunning)
		var want strings.Builder
		for i := range lines {
			want.WriteString("line " + strconv.Itoa(i) + "\n")
		}
		for range 3 {
			b.plane.RefuseLogs(1)
			text, _ := b.plane.Logs(w.Key)
			b.until("more of the log is delivered", func() bool {
				now, _ := b.plane.Logs(w.Key)
				return len(now) > len(text) || len(now) == want.Len()
			})
			b.reopen(func() {})
		}
		b.endsAs(w, 0, want.String(), starts)
	},
	"exit survives a restart": func(b *harness) {
		w := b.shell("a", "exit 9")
		b.apply(w)
		before := b.reach(w.Key, executor.PhaseExited)
		b.reopen(func() {})
		after, known := b.observe(w.Key)
		require.True(b, known)
		require.Equal(b, before, after)
	},
}

// endsAs waits until the attempt has ended. It checks the exit code, the log and that the command was
// started only once.
func (b *harness) endsAs(w executor.Work, code int, log, starts string) {
	b.Helper()
	require.Equal(b, executor.Exit{Code: code}, b.exit(w.Key))
	text, sound := b.plane.Logs(w.Key)
	require.Equal(b, log, text)
	require.True(b, sound)
	raw, err := os.ReadFile(starts)
	require.NoError(b, err)
	require.Equal(b, "x\n", string(raw), "the command must be started only once")
	require.Equal(b, 1, b.plane.Minted(w.Key))
}

// await waits until the condition is true. Unlike the method until, await may be called while no executor is running.
func (b *harness) await(condition func() bool) {
	b.Helper()
	require.Eventually(b, condition, timeout, 10*time.Millisecond)
}
