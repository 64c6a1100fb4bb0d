package executortest

import (
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

var desiring = map[string]func(*harness){
	"gone work is ended, reported and forgotten": func(b *harness) {
		pids := filepath.Join(b.TempDir(), "pids")
		w := b.shell("a", "echo $$ > "+pids+"; sleep 300")
		b.apply(w)
		b.until("the command has started", func() bool { return written(pids, 1) })
		b.apply(withDesired(w, executor.DesiredGone))
		b.reach(w.Key, executor.PhaseGone)
		for _, pid := range readPIDs(b, pids) {
			require.False(b, b.alive(pid))
		}
		b.reopen(func() {})
		_, known := b.observe(w.Key)
		require.False(b, known, "a removed work must not come back")
		b.apply(withDesired(w, executor.DesiredGone))
		b.reach(w.Key, executor.PhaseGone)
	},
	"work missing from the list is gone": func(b *harness) {
		kept, dropped := b.shell("a", "sleep 300"), b.shell("b", "sleep 300")
		b.apply(kept, dropped)
		b.reach(kept.Key, executor.PhaseRunning)
		b.reach(dropped.Key, executor.PhaseRunning)
		b.apply(kept)
		b.until("only one work is left", func() bool {
			o, known := b.observe(dropped.Key)
			return !known || o.Phase == executor.PhaseGone
		})
		o, known := b.observe(kept.Key)
		require.True(b, known)
		require.Equal(b, executor.PhaseRunning, o.Phase)
	},
	"older fence is ignored": func(b *harness) {
		starts := filepath.Join(b.TempDir(), "starts")
		newer := b.shell("a", "echo newer >> "+starts+"; sleep 300")
		newer.Fence = 2
		older := b.shell("a", "echo older >> "+starts)
		b.apply(newer)
		b.until("the command has started", func() bool {
			o, _ := b.observe(newer.Key)
			return exists(starts) && o.Phase == executor.PhaseRunning
		})
		b.apply(older)
		o, known := b.observe(newer.Key)
		require.True(b, known)
		require.Equal(b, executor.PhaseRunning, o.Phase)
		_, known = b.observe(older.Key)
		require.False(b, known)
	},
	"newer fence replaces the older one": func(b *harness) {
		dir := b.TempDir()
		pids, order := filepath.Join(dir, "pids"), filepath.Join(dir, "order")
		older := b.shell("a", "echo $$ > "+pids+"; sleep 300")
		b.apply(older)
		b.until("the command has started", func() bool { return written(pids, 1) })
		first := readPIDs(b, pids)[0]
		newer := b.shell("a", "if kill -0 "+itoa(first)+"; then echo beside; else echo after; fi > "+order)
		newer.Fence = 2
		b.apply(newer)
		require.Zero(b, b.exit(newer.Key).Code)
		require.Equal(b, "after\n", read(b, order))
		require.False(b, b.alive(first))
	},
	"repeated list changes nothing": func(b *harness) {
		starts := filepath.Join(b.TempDir(), "starts")
		w := b.shell("a", "echo x >> "+starts)
		b.apply(w)
		b.apply(w)
		b.exit(w.Key)
		b.apply(w)
		b.reopen(func() {})
		b.apply(w)
		require.Equal(b, executor.Exit{}, b.exit(w.Key))
		require.Equal(b, "x\n", read(b, starts))
	},
	"invalid work id is rejected": func(b *harness) {
		w := b.shell("../a", "true")
		require.Error(b, b.x.Apply(b.Context(), []executor.Work{w}))
		require.Empty(b, b.x.Observed())
	},
}
