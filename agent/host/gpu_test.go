package host

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// newGPUs returns folders with devices of the given numbers. If the map bus is not nil, it contains the PCI address of
// each device.
func newGPUs(t *testing.T, bus map[int]string, numbers ...int) executor.GPUFolders {
	t.Helper()
	f := executor.GPUFolders{Dev: t.TempDir(), Proc: t.TempDir()}
	for _, n := range numbers {
		require.NoError(t, os.WriteFile(f.Device(n), nil, 0o600))
		if bus != nil {
			dir := filepath.Join(f.Proc, bus[n])
			require.NoError(t, os.Mkdir(dir, 0o700))
			text := fmt.Sprintf("Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-%d%d-a\nBus Location: \t %s\nDevice Minor: \t %d\n", n, n, bus[n], n)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "information"), []byte(text), 0o600))
		}
	}
	for _, other := range []string{"nvidiactl", "nvidia-uvm", "nvidia0x"} {
		require.NoError(t, os.WriteFile(filepath.Join(f.Dev, other), nil, 0o600))
	}
	return f
}

func TestWork_takeGPUs(t *testing.T) {
	t.Parallel()
	reversed := map[int]string{2: "0000:c1:00.0", 3: "0000:41:00.0", 10: "0000:d1:00.0"}
	for name, c := range map[string]struct {
		folders  executor.GPUFolders
		environ  []string
		isolated bool
		numbers  []int
		variable string
	}{
		"all devices":              {folders: newGPUs(t, nil, 0, 1), numbers: []int{0, 1}, variable: "0,1"},
		"devices of a container":   {folders: newGPUs(t, nil, 2, 3), numbers: []int{2, 3}, variable: "0,1"},
		"order of numbers":         {folders: newGPUs(t, nil, 10, 9), numbers: []int{9, 10}, variable: "0,1"},
		"order of the bus":         {folders: newGPUs(t, reversed, 2, 3), numbers: []int{3, 2}, variable: "GPU-33-a,GPU-22-a"},
		"some permitted":           {folders: newGPUs(t, nil, 0, 1, 2, 3), environ: []string{"CUDA_VISIBLE_DEVICES=2,3"}, numbers: []int{2, 3}, variable: "2,3"},
		"permitted by UUID":        {folders: newGPUs(t, reversed, 2, 3, 10), environ: []string{"CUDA_VISIBLE_DEVICES=GPU-10, GPU-22"}, numbers: []int{10, 2}, variable: "GPU-1010-a,GPU-22-a"},
		"permitted, in a boundary": {folders: newGPUs(t, nil, 0, 1, 2, 3), environ: []string{"CUDA_VISIBLE_DEVICES=3,2"}, isolated: true, numbers: []int{3, 2}, variable: "0,1"},
		"last variable":            {folders: newGPUs(t, nil, 0, 1, 2), environ: []string{"CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=1,2,-1,0"}, numbers: []int{1, 2}, variable: "1,2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &Host{works: map[executor.Key]*work{}, tried: make(chan struct{}), folders: c.folders, cfg: Config{Environ: c.environ}, kind: boundary.None}
			if c.isolated {
				h.kind = boundary.OwnUser
			}
			close(h.tried)
			require.Equal(t, 2, h.CountGPUs())
			w := bareWork(h, executor.Key{WorkID: "w"}, t.TempDir())
			variable, err := w.takeGPUs(2)
			require.NoError(t, err)
			require.Equal(t, c.numbers, w.assignment.GPUs)
			require.Equal(t, c.variable, variable)
			binds := w.devices()
			require.Equal(t, c.folders.Device(c.numbers[0]), binds[1].Path)
			require.Equal(t, c.folders.Device(c.numbers[1]), binds[2].Path)
			require.FileExists(t, binds[2].Path)
			h.works[w.key] = w
			_, err = bareWork(h, executor.Key{WorkID: "v"}, t.TempDir()).takeGPUs(1)
			require.ErrorContains(t, err, "only 0 are free on this node")
			w.seen.Phase = executor.PhaseExited
			_, err = bareWork(h, executor.Key{WorkID: "v"}, t.TempDir()).takeGPUs(1)
			require.NoError(t, err)
		})
	}
}

func TestWork_takeGPUs_none(t *testing.T) {
	t.Parallel()
	h := &Host{works: map[executor.Key]*work{}, tried: make(chan struct{}), folders: newGPUs(t, nil, 0), kind: boundary.None, cfg: Config{Environ: []string{"CUDA_VISIBLE_DEVICES="}}}
	close(h.tried)
	w := bareWork(h, executor.Key{WorkID: "w"}, t.TempDir())
	numbers, err := w.takeGPUs(0)
	require.NoError(t, err)
	require.Empty(t, numbers)
	require.Nil(t, w.devices())
	require.Zero(t, h.CountGPUs())
	w.assignment.GPUs = []int{7}
	_, err = w.takeGPUs(1)
	require.ErrorContains(t, err, "no longer exists")
}
