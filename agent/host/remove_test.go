package host

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

func TestWork_remove_deletesCgroup(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	h := &Host{cfg: Config{Data: t.TempDir()}, holder: boundary.Detect("/sys/fs/cgroup", string(own))}
	w := bareWork(h, executor.Key{WorkID: "wrk_group", Generation: 1, Fence: 1}, t.TempDir())
	plan := h.holder.Plan(w.groupName(), executor.Limits{})
	require.NoError(t, plan.Create())
	require.NoError(t, w.remove())
	require.NoDirExists(t, w.dir)
	for _, group := range plan.Groups {
		require.NoDirExists(t, group)
	}
}
