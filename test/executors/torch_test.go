package executors

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// torch is the name under which the agents offer an interpreter with PyTorch.
const torch = "torch"

// pythonWithTorch returns the interpreter with which the recipes are tested.
func pythonWithTorch(t *testing.T) string {
	t.Helper()
	root := testenv.Root(t)
	return testenv.Tool(t.Context(), t, "venv.sh", "training", filepath.Join(root, "recipes/sft/lora/requirements.lock"),
		filepath.Join(root, "recipes/demo/chat-tiny/tests/requirements-test.lock"))
}

// reduce adds the numbers 1 and 10 of two ranks.
const reduce = `
import os, torch, torch.distributed
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
number = torch.tensor([10**rank])
torch.distributed.all_reduce(number)
print("rank", rank, "on node", os.environ["SERVICE_JOB_NODE_RANK"], "has", number.item(), flush=True)
torch.distributed.destroy_process_group()
`

// launch starts a rank as the guide does.
const launch = `exec torchrun --nnodes "$SERVICE_JOB_NNODES" --nproc-per-node 1 --rdzv-backend c10d --rdzv-id "$SERVICE_JOB_RUN_ID" ` +
	`--rdzv-endpoint "$SERVICE_JOB_MASTER_ADDR:$SERVICE_JOB_MASTER_PORT" --no-python python -c "$0"`

// openNodes turns the isolation of works off. The nodes are one machine here, on which isolated works do not reach each
// other's ports.
func (h *harness) openNodes() {
	h.Helper()
	require.NoError(h, h.admin.Do(h.Context(), http.MethodPatch, "/api/cluster/pools/"+pool, map[string]string{"isolation": "none"}, nil))
	for _, a := range h.agents() {
		a.Kill()
		a.Set("SERVICE_AGENT_ISOLATION=none")
		a.Start()
	}
}

// reduceOverNodes requires that torchrun finds the other rank of a job with two nodes.
func reduceOverNodes(h *harness) {
	h.openNodes()
	j := h.submit(2, map[string]any{"runtime": map[string]string{"node": torch}}, "sh", "-c", launch, reduce)
	j.reach("succeeded")
	require.Equal(h, 1, j.Job.Attempt)
	var ranks, nodes []int
	for _, line := range j.log() {
		var rank, node, sum int
		if n, _ := fmt.Sscanf(line, "rank %d on node %d has %d", &rank, &node, &sum); n == 3 {
			require.Equal(h, 11, sum)
			ranks, nodes = append(ranks, rank), append(nodes, node)
		}
	}
	slices.Sort(ranks)
	slices.Sort(nodes)
	require.Equal(h, [][]int{{0, 1}, {0, 1}}, [][]int{ranks, nodes})
}
