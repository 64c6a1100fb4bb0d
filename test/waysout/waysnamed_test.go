package waysout

import (
	"context"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// namedBy returns the ways by the resource with which a node names them: if such a way is open, the resource is in
// `boundary.unlimited` of the node. A node cannot name the other ways, so those must be closed. The resource disk has no
// way: where works have no disks, a watch closes `disk space` and `inodes`, but too late to be named a limit.
func namedBy() map[string][]string {
	return map[string][]string{
		"devices": {"GPU of another work", "GPU of no work", "GPU without a request", "device that was not given"},
		"memory":  {"memory of several processes", "anonymous shared memory", "file in memory", "memory of sockets"},
		"network": {
			"port of another work on loopback", "port of another work on the node's address", "datagram to another work",
			"multicast to the node", "broadcast to the node", "port of the database", "port for agents",
			"port of a service on loopback", "port of a service on the node's address", "port of Redis", "admin port",
		},
		"ports": {
			"listener at the public port", "listener at the public port over IPv6", "listener at the port of the database",
			"listener at a port for engines",
		},
		"processes": {"processes and threads"},
		"sockets":   {"abstract socket of another work"},
	}
}

// stated is what the node itself states in the API about the boundary of its works.
type stated struct {
	Kind      string            `json:"kind"`
	Network   string            `json:"network"`
	Unlimited []string          `json:"unlimited"`
	Reasons   map[string]string `json:"reasons"`
}

// readStated reads what the node states, after its agent has connected.
func (h *waysHarness) readStated(ctx context.Context) {
	h.T.Helper()
	var nodes []struct {
		Boundary *stated `json:"boundary"`
	}
	require.NoError(h.T, h.admin.Client.Get(ctx, "/api/cluster/nodes", nil, &nodes))
	require.Len(h.T, nodes, 1)
	require.NotNil(h.T, nodes[0].Boundary)
	h.stated = *nodes[0].Boundary
	require.ElementsMatch(h.T, h.stated.Unlimited, slices.Collect(maps.Keys(h.stated.Reasons)), "the node must state why each resource is not limited")
}

// requireNamed requires that exactly those ways are open that the node names, besides those that are meant to be open.
func (h *waysHarness) requireNamed() {
	h.T.Helper()
	named := map[string]bool{}
	for _, resource := range h.stated.Unlimited {
		for _, name := range namedBy()[resource] {
			named[name] = true
		}
	}
	for _, w := range ways() {
		if w.root == openWay || w.device && os.Geteuid() != 0 {
			continue
		}
		require.Equal(h.T, openIf(named[w.name]), h.results[w.name],
			"the way %q must be open exactly if the node names it; the node names %v", w.name, h.stated.Unlimited)
	}
}

func TestNamedBy_waysOfTheTable(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, w := range ways() {
		known[w.name] = true
	}
	seen := map[string]bool{}
	for resource, names := range namedBy() {
		for _, name := range names {
			require.True(t, known[name] && !seen[name], "%s: %s", resource, name)
			seen[name] = true
		}
	}
}
