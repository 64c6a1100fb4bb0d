package scheduler

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Admins may hold and release nodes between passes. No new work is placed on a held node.
func TestScheduler_RunOnce_heldNodesGetNoWork(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 2, 2)
	const nodes = 5
	for i := range nodes {
		b.exec(`INSERT INTO node (id, fleet_id, name, state, cpus, memory_bytes, gpus, slots, limits, version, joined_at, boundary)
			VALUES ($1, 'flt_1', 'host', 'ready', 8, 0, 2, 2, '', '', now(), '{"kind": "own_user"}')`, fmt.Sprintf("nod_extra_%d", i))
	}
	draw := rand.New(rand.NewPCG(7, 7))
	holds := []string{"", "cordoned", "draining", "drained"}
	s := b.scheduler()
	held := 0
	for range 40 {
		for i := range nodes {
			hold := holds[draw.IntN(len(holds))]
			b.exec(`UPDATE node SET hold = $2, drain_mode = CASE WHEN $2 IN ('draining', 'drained') THEN 'wait' ELSE '' END WHERE id = $1`,
				fmt.Sprintf("nod_extra_%d", i), hold)
		}
		held += b.count(`node WHERE hold <> ''`)
		b.submit(job.Pool{Pool: "gpu", GPUsPerNode: draw.IntN(3)})
		b.exec(`UPDATE work SET created_at = now() - interval '1 hour'`)
		_, err := s.RunOnce(t.Context())
		require.NoError(t, err)
		require.Zero(t, b.count(`work w JOIN node n ON n.id = w.node_id WHERE n.hold <> '' AND w.created_at > now() - interval '1 minute'`))
		b.exec(`UPDATE work SET released_at = now() WHERE random() < 0.5`)
	}
	require.Positive(t, held, "no node was ever held")
	require.Positive(t, b.count(`work`), "nothing was placed")
}
