package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func gpuNode(id string, gpus int) scheduler.Node {
	return scheduler.Node{ID: id, Name: id, Pools: []string{"gpu"}, GPUs: gpus, GPUsFree: gpus, Slots: 4, SlotsFree: 4, CPUs: 64, CPUsFree: 64, MemoryBytes: 1 << 40, MemoryFree: 1 << 40}
}

func wants(id string, order int, pools ...job.Pool) scheduler.Waiting {
	return scheduler.Waiting{JobID: id, OwnerID: "a", Priority: 50, SubmittedAt: fixtures.Now().Add(time.Duration(order) * time.Second), Pools: pools}
}

func gpus(nodes, each int) job.Pool {
	return job.Pool{Pool: "gpu", Role: "trainer", Nodes: nodes, GPUsPerNode: each}
}

func rich() map[string]scheduler.Account { return map[string]scheduler.Account{"a": {Limit: 1000}} }

func byJob(decisions []scheduler.Decision) map[string]scheduler.Decision {
	out := map[string]scheduler.Decision{}
	for _, d := range decisions {
		out[d.JobID+d.WorkID] = d
	}
	return out
}

func TestPlan_placesAndReasons(t *testing.T) {
	t.Parallel()
	urgent := wants("job_urgent", 9, gpus(1, 8))
	urgent.Priority = 90
	poor := wants("job_poor", 1, gpus(1, 2))
	poor.OwnerID = "b"
	huge := wants("job_huge", 2, gpus(1, 16))
	wide := wants("job_wide", 3, gpus(2, 8))
	small := wants("job_small", 4, gpus(1, 1))
	cpu := wants("job_cpu", 5, job.Pool{Pool: "cpu", Nodes: 1})
	nodes := []scheduler.Node{gpuNode("nod_1", 8), gpuNode("nod_2", 8), {ID: "nod_3", Pools: []string{"cpu"}, Slots: 2, SlotsFree: 2, CPUs: 2}}
	accounts := map[string]scheduler.Account{"a": {Limit: 1000}, "b": {Limit: 4, Held: 3}}
	got := byJob(scheduler.Plan(nodes, nil, []scheduler.Waiting{small, wide, huge, poor, urgent, cpu}, accounts))

	require.Len(t, got["job_urgent"].Places, 1)
	require.Equal(t, 1, got["job_urgent"].Position)
	require.Equal(t, job.WaitAccountQuota, got["job_poor"].Reason)
	require.Equal(t, "the job needs 2 GPUs, but the account already holds 3 of its 4", got["job_poor"].Detail)
	require.Equal(t, job.WaitPoolCapacity, got["job_huge"].Reason)
	require.Contains(t, got["job_huge"].Detail, "pool gpu has too few suitable ready nodes")
	require.Equal(t, job.WaitPoolCapacity, got["job_wide"].Reason, "a gang must be placed as a whole")
	require.Contains(t, got["job_wide"].Detail, "pool gpu is full")
	require.Equal(t, job.WaitPriority, got["job_small"].Reason, "a job that would delay the gang ahead must wait")
	require.Contains(t, got["job_small"].Detail, "job_wide")
	require.Len(t, got["job_cpu"].Places, 1, "a job in another pool must be placed")
}

func TestPlan_enginesFirstAndByDriver(t *testing.T) {
	t.Parallel()
	nodes := []scheduler.Node{
		{ID: "nod_1", Pools: []string{"cpu"}, Slots: 1, SlotsFree: 1, Drivers: []string{"command"}},
		{ID: "nod_2", Pools: []string{"cpu"}, Slots: 1, SlotsFree: 1, Drivers: []string{"llamacpp"}},
	}
	got := byJob(scheduler.Plan(nodes, []scheduler.Engine{{WorkID: "wrk_1", Pool: "cpu", Driver: "llamacpp", Slots: 1}, {WorkID: "wrk_2", Pool: "cpu", Driver: "vllm", Slots: 1}},
		[]scheduler.Waiting{wants("job_1", 0, job.Pool{Pool: "cpu", Nodes: 1}), wants("job_2", 1, job.Pool{Pool: "cpu", Nodes: 1})}, nil))
	require.Equal(t, "nod_2", got["wrk_1"].Places[0].NodeID)
	require.Empty(t, got["wrk_2"].Places)
	require.Equal(t, "nod_1", got["job_1"].Places[0].NodeID)
	require.Empty(t, got["job_2"].Places)
}

func TestPlan_ranksGetSeparateNodes(t *testing.T) {
	t.Parallel()
	nodes := []scheduler.Node{gpuNode("nod_1", 8), gpuNode("nod_2", 8), gpuNode("nod_3", 4)}
	got := byJob(scheduler.Plan(nodes, nil, []scheduler.Waiting{wants("job_1", 0, gpus(2, 4), job.Pool{Pool: "gpu", Role: "rollout", Nodes: 1, GPUsPerNode: 8})}, rich()))
	places := got["job_1"].Places
	require.Len(t, places, 3)
	seen := map[string]bool{}
	for i, p := range places {
		require.Equal(t, i, p.Rank)
		require.False(t, seen[p.NodeID])
		seen[p.NodeID] = true
	}
	require.Equal(t, "rollout", places[2].Pool.Role)
}

// randomCluster returns random nodes, waiting jobs and accounts.
func randomCluster(r *rand.Rand) ([]scheduler.Node, []scheduler.Waiting, map[string]scheduler.Account) {
	var nodes []scheduler.Node
	for i := range 1 + r.IntN(5) {
		n := gpuNode(fmt.Sprintf("nod_%d", i), r.IntN(9))
		n.GPUsFree = r.IntN(n.GPUs + 1)
		n.Slots = 1 + r.IntN(3)
		n.SlotsFree = r.IntN(n.Slots + 1)
		n.CPUs, n.MemoryBytes = r.IntN(5), int64(r.IntN(5))<<30
		n.CPUsFree, n.MemoryFree = r.IntN(n.CPUs+1), int64(r.IntN(int(n.MemoryBytes>>30)+1))<<30
		n.Pools = [][]string{{"gpu"}, {"cpu"}, {"gpu", "cpu"}}[r.IntN(3)]
		nodes = append(nodes, n)
	}
	accounts := map[string]scheduler.Account{}
	for _, owner := range []string{"a", "b", "c"} {
		limit := r.IntN(17)
		accounts[owner] = scheduler.Account{Limit: limit, Held: r.IntN(limit + 1)}
	}
	var jobs []scheduler.Waiting
	for i := range r.IntN(12) {
		w := wants(fmt.Sprintf("job_%02d", i), r.IntN(5))
		w.OwnerID, w.Priority = []string{"a", "b", "c"}[r.IntN(3)], 10*r.IntN(3)
		for range 1 + r.IntN(2) {
			w.Pools = append(w.Pools, job.Pool{Pool: []string{"gpu", "cpu"}[r.IntN(2)], Nodes: 1 + r.IntN(2), GPUsPerNode: r.IntN(5), CPU: max(0, r.IntN(6)-2), MemoryGB: max(0, r.IntN(6)-2)})
		}
		jobs = append(jobs, w)
	}
	return nodes, jobs, accounts
}

func TestPlan_invariantsOnRandomClusters(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		nodes, jobs, accounts := randomCluster(r)
		before := slices.Clone(nodes)
		decisions := scheduler.Plan(nodes, nil, jobs, accounts)
		require.Empty(t, cmp.Diff(before, nodes), "Plan must not modify its arguments")

		shuffled := slices.Clone(jobs)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		turned := slices.Clone(nodes)
		slices.Reverse(turned)
		require.Empty(t, cmp.Diff(decisions, scheduler.Plan(turned, nil, shuffled, accounts)), "seed %d: the order of the arguments must not matter", seed)

		check(t, seed, nodes, jobs, accounts, byJob(decisions))
	}
}

// check verifies the guarantees of a plan: no node is oversubscribed, gangs are whole, and quotas are respected.
func check(t *testing.T, seed uint64, nodes []scheduler.Node, jobs []scheduler.Waiting, accounts map[string]scheduler.Account, got map[string]scheduler.Decision) {
	t.Helper()
	free := map[string]scheduler.Node{}
	for _, n := range nodes {
		free[n.ID] = n
	}
	held := map[string]int{}
	for _, w := range jobs {
		d := got[w.JobID]
		require.Equal(t, len(d.Places) == 0, d.Reason != "", "seed %d: a decision must have either places or a reason", seed)
		if len(d.Places) == 0 {
			continue
		}
		ranks, own := 0, map[string]bool{}
		for _, p := range w.Pools {
			ranks += p.Nodes
		}
		require.Len(t, d.Places, ranks, "seed %d: the gang must be placed as a whole", seed)
		for _, p := range d.Places {
			n := free[p.NodeID]
			require.Contains(t, n.Pools, p.Pool.Pool, "seed %d: the node is not in the pool", seed)
			require.False(t, own[p.NodeID], "seed %d: two ranks must not be on one node", seed)
			own[p.NodeID] = true
			n.GPUsFree -= p.Pool.GPUsPerNode
			n.SlotsFree -= job.SlotsOf(p.Pool.GPUsPerNode)
			require.GreaterOrEqual(t, n.GPUsFree, 0, "seed %d: the node is oversubscribed", seed)
			require.GreaterOrEqual(t, n.SlotsFree, 0, "seed %d: the node is oversubscribed", seed)
			n.CPUsFree -= p.Pool.CPU
			n.MemoryFree -= int64(p.Pool.MemoryGB) << 30
			require.GreaterOrEqual(t, n.CPUsFree, 0, "seed %d: the node is oversubscribed", seed)
			require.GreaterOrEqual(t, n.MemoryFree, int64(0), "seed %d: the node is oversubscribed", seed)
			free[p.NodeID] = n
		}
		held[w.OwnerID] += job.Demand(w.Pools)
	}
	for owner, n := range held {
		if n > 0 {
			require.LessOrEqual(t, accounts[owner].Held+n, accounts[owner].Limit, "seed %d: the quota is exceeded", seed)
		}
	}
}

// TestPlan_wholeNodeJobDoesNotStarve makes a job wait for a whole node while small jobs keep arriving.
func TestPlan_wholeNodeJobDoesNotStarve(t *testing.T) {
	t.Parallel()
	node := gpuNode("nod_1", 8)
	running := []int{} // remaining ticks of each small job
	for range 4 {
		running = append(running, 3)
		node.GPUsFree--
	}
	big := wants("job_big", 0, gpus(1, 8))
	for tick := range 10 {
		small := wants(fmt.Sprintf("job_small%d", tick), 1+tick, gpus(1, 1))
		got := byJob(scheduler.Plan([]scheduler.Node{node}, nil, []scheduler.Waiting{small, big}, rich()))
		if len(got["job_big"].Places) == 1 {
			return
		}
		if len(got[small.JobID].Places) == 1 {
			running, node.GPUsFree = append(running, 3), node.GPUsFree-1
		}
		left := running[:0]
		for _, n := range running {
			if n > 1 {
				left = append(left, n-1)
			} else {
				node.GPUsFree++
			}
		}
		running = left
	}
	require.Fail(t, "the whole-node job was never placed")
}

// A job waits for isolation only if none of the nodes that may run work of the pool could ever run the job.
func TestPlan_reasonIsolation(t *testing.T) {
	t.Parallel()
	refusing, full := gpuNode("nod_1", 8), gpuNode("nod_2", 8)
	refusing.Pools, refusing.Refused = nil, []string{"gpu"}
	full.GPUsFree = 0
	engine := []scheduler.Engine{{WorkID: "wrk_1", OwnerID: "usr_1", Pool: "gpu", GPUs: 4}}
	jobs := []scheduler.Waiting{{JobID: "job_1", OwnerID: "usr_1", Pools: []job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: 4}}}}
	accounts := map[string]scheduler.Account{"usr_1": {Limit: 64}}
	for name, c := range map[string]struct {
		nodes  []scheduler.Node
		reason string
	}{
		"only the refusing node": {[]scheduler.Node{refusing}, job.WaitIsolation},
		"another node is full":   {[]scheduler.Node{refusing, full}, job.WaitPoolCapacity},
		"another node too small": {[]scheduler.Node{refusing, gpuNode("nod_2", 2)}, job.WaitIsolation},
	} {
		for _, d := range scheduler.Plan(c.nodes, engine, jobs, accounts) {
			require.Empty(t, d.Places, name)
			require.Equal(t, c.reason, d.Reason, "%s: %+v", name, d)
		}
	}
}
