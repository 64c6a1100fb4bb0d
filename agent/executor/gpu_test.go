package executor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

func TestPermittedGPUs_invalidList(t *testing.T) {
	t.Parallel()
	all := []executor.GPU{{0, "GPU-aa"}, {1, "GPU-ab"}}
	for list, words := range map[string]string{
		"2": "no GPU 2", "-2": "no GPU -2", "0,0": "listed twice", "GPU-a": "does not name exactly one GPU", "MIG-1": "does not name exactly one GPU", "0,GPU-aa": "listed twice",
	} {
		_, err := executor.PermittedGPUs(all, []string{"CUDA_VISIBLE_DEVICES=" + list})
		require.ErrorContains(t, err, words)
		require.ErrorContains(t, err, "CUDA_VISIBLE_DEVICES")
	}
}
