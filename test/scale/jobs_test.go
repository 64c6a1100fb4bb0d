package scale

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// listOfJobs compares the time of filtered lists of jobs in a small and in a large installation. The filters match
// the same number of jobs in both.
func (h *harness) listOfJobs(ctx context.Context, t *testing.T) {
	t.Helper()
	usual := h.submit(ctx, h.loop.Client, "usual", "true")
	require.NoError(t, usual.AwaitEnd(ctx))
	rare := h.submit(ctx, h.loop.Client, "rare", "false")
	require.Error(t, rare.AwaitEnd(ctx))
	const matches = 20
	h.copies(ctx, "jobs.job", rare.Job.ID, matches-1, map[string]string{
		"id": "'job_rare' || i", "run_id": "'run_rare' || i", "name": "'a rare one ' || i", "labels": `'{"rare": "x"}'`,
	})
	h.exec(ctx, `UPDATE jobs.job SET name = 'a rare one', labels = '{"rare": "x"}' WHERE id = $1`, rare.Job.ID)
	count := 0
	fill := func(to int) {
		h.copies(ctx, "jobs.job", usual.Job.ID, to-count, map[string]string{
			"id": "'job_usual" + string(rune('a'+count%26)) + "' || i", "run_id": "'run_usual" + string(rune('a'+count%26)) + "' || i",
			"name": "'usual ' || md5(i::text)", "created_at": "t.created_at - make_interval(secs => i)",
		})
		count = to
	}
	queries := map[string]string{"label": "label=rare%3Dx", "name": "q=rare+one", "state": "state=failed"}
	measure := func(query string) time.Duration {
		var took []time.Duration
		for range 8 * rounds {
			began := time.Now()
			a, err := h.loop.Client.Call(ctx, http.MethodGet, "/api/jobs?"+query, nil)
			took = append(took, time.Since(began))
			require.NoError(t, err)
			var list []struct{ ID string }
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			require.NoError(t, json.Unmarshal(a.Body, &list), "%s", a.Body)
			require.Len(t, list, matches, query)
		}
		return median(took)
	}
	few, many := size(100, 1000), size(2000, 100_000)
	before := map[string]time.Duration{}
	fill(few)
	for name, query := range queries {
		before[name] = measure(query)
	}
	fill(many)
	for name, query := range queries {
		const goal = 1.5
		after := measure(query)
		ratio := float64(after) / float64(before[name])
		report(t, ratio <= goal, "GET /api/jobs by %s: %d jobs %s, %d jobs %s, ratio %.2f (at most %.1f)", name, few, before[name], many, after, ratio, goal)
	}
}

// longQueue measures how long a job waits until it runs, alone and behind a long queue of another account.
func (h *harness) longQueue(ctx context.Context, t *testing.T) {
	t.Helper()
	hoarder, other := h.user(ctx, "hoarder"), h.user(ctx, "other")
	var nodes []struct{ ID string }
	require.NoError(t, h.loop.Client.Get(ctx, "/api/cluster/nodes", nil, &nodes))
	require.Len(t, nodes, 1)
	wait := func(name string) time.Duration {
		var took []time.Duration
		for range rounds {
			began := time.Now()
			l := h.submit(ctx, other, name, "true")
			require.NoError(t, l.AwaitEnd(ctx))
			took = append(took, time.Since(began))
		}
		return median(took)
	}
	alone := wait("alone")
	node := "/api/cluster/nodes/" + nodes[0].ID
	require.NoError(t, h.loop.Client.Post(ctx, node+"/cordon", nil, nil))
	first := h.submit(ctx, hoarder, "hoarded", "true")
	n := size(500, 20_000)
	// The copies need a GPU, which this node does not have.
	h.copies(ctx, "jobs.job", first.Job.ID, n, map[string]string{
		"id": "'job_hoarded' || i", "run_id": "'run_hoarded' || i", "name": "'hoarded ' || i",
		"pools": "jsonb_set(t.pools, '{0,gpus_per_node}', '1')", "created_at": "t.created_at - interval '1 hour'",
	})
	require.NoError(t, h.loop.Client.Post(ctx, node+"/uncordon", nil, nil))
	behind := wait("behind")
	const goal = 3
	ratio := float64(behind) / float64(alone)
	report(t, ratio <= goal, "from the submission to the end of a job of another account: %s alone, %s behind %d queued jobs, ratio %.2f (at most %d)", alone, behind, n, ratio, goal)
}
