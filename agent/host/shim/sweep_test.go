package shim_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// A killed process exists for some more time, but without the marks by which Sweep finds it.
func TestSweep_waitsForFirstProcess(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := script(t, "true")
	b.launch()
	b.ends()
	first := exec.CommandContext(t.Context(), "sleep", "300")
	require.NoError(t, first.Start())
	r, err := b.Running(b.dir)
	require.NoError(t, err)
	r.First, err = shim.Lookup(first.Process.Pid)
	require.NoError(t, err)
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "run.json"), raw, 0o600))

	clk := clock.NewFake(time.Unix(0, 0))
	swept := make(chan error, 1)
	sweep := func() { swept <- shim.Sweep(ctx, clk, b.dir) }
	go sweep()
	require.NoError(t, clk.Await(ctx, 1), "Sweep must wait")
	clk.Advance(2 * time.Minute)
	require.ErrorContains(t, <-swept, "the kernel has not ended them")

	go sweep()
	require.NoError(t, clk.Await(ctx, 1), "Sweep must wait again")
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait(), "the process must have been killed")
	clk.Advance(time.Second)
	require.NoError(t, <-swept)
}
