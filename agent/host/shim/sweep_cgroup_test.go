package shim_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// A cgroup lists no process that is ending, but the kernel does not remove it until the process has ended.
func TestSweep_waitsForCgroup(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := script(t, "true")
	b.launch()
	b.ends()
	group := filepath.Join(b.dir, "group")
	ending := filepath.Join(group, "ending")
	require.NoError(t, os.MkdirAll(ending, 0o700)) // a folder that is not empty cannot be removed either
	s, err := shim.ReadStart(b.dir)
	require.NoError(t, err)
	s.Limits.Groups = []string{group}
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "start.json"), raw, 0o600))

	clk := clock.NewFake(time.Unix(0, 0))
	swept := make(chan error, 1)
	sweep := func() { swept <- shim.Sweep(ctx, clk, b.dir) }
	go sweep()
	require.NoError(t, clk.Await(ctx, 1), "Sweep must wait")
	clk.Advance(2 * time.Minute)
	require.ErrorContains(t, <-swept, "remove the cgroup")

	go sweep()
	require.NoError(t, clk.Await(ctx, 1), "Sweep must wait again")
	require.NoError(t, os.Remove(ending))
	clk.Advance(time.Second)
	require.NoError(t, <-swept)
	require.NoDirExists(t, group)
}
