package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
)

// slurmNode returns the agent of a Slurm fleet that serves the pools. All of them were tested.
func slurmNode(id string, slots int, pools ...string) scheduler.Node {
	s := &fleet.Slurm{Report: &fleet.SlurmReport{}, Pools: map[string]fleet.SlurmSettings{}}
	for _, pool := range pools {
		set := fleet.SlurmPool{Partition: "p-" + pool, Folder: "/s"}
		s.Pools[pool] = fleet.SlurmSettings{Slurm: set, Isolation: fleet.IsolationRequired}
		s.Report.Pools = append(s.Report.Pools, fleet.SlurmTest{Pool: pool, Slurm: set, Isolation: "own_user"})
	}
	return scheduler.Node{ID: id, Name: id, Pools: pools, Slots: slots, SlotsFree: slots, Slurm: s}
}

func onSlurm(nodes, each int) job.Pool {
	return job.Pool{Pool: "slurm", Role: "trainer", Nodes: nodes, GPUsPerNode: each}
}

func TestPlan_slurmTakesGangAsOnePlace(t *testing.T) {
	t.Parallel()
	parts := []job.Pool{onSlurm(4, 8), {Pool: "rollout", Role: "rollout", Nodes: 2, GPUsPerNode: 1}}
	got := byJob(scheduler.Plan([]scheduler.Node{gpuNode("nod_1", 8), slurmNode("nod_s", 1, "rollout", "slurm")}, nil,
		[]scheduler.Waiting{wants("job_1", 1, parts...), wants("job_2", 2, onSlurm(1, 0)), wants("job_3", 3, gpus(1, 8))}, rich()))
	require.Equal(t, []scheduler.Place{{NodeID: "nod_s", Pool: parts[0], Parts: parts}}, got["job_1"].Places)
	require.Equal(t, job.WaitPoolCapacity, got["job_2"].Reason)
	require.Equal(t, "pool slurm is full: its Slurm fleet already has 1 job; the job waits here until one of them ends", got["job_2"].Detail)
	require.Len(t, got["job_3"].Places, 1)
	require.Nil(t, got["job_3"].Places[0].Parts)
}

// The queue has one order, whether the pools run on hosts or on Slurm, and one quota of each account.
func TestPlan_orderAndQuotaOverHostsAndSlurm(t *testing.T) {
	t.Parallel()
	var jobs []scheduler.Waiting
	r := rand.New(rand.NewPCG(33, 1))
	for i := range 200 {
		pool := gpus(1, 1)
		if i%2 == 0 {
			pool = onSlurm(2, 2)
		}
		w := wants(fmt.Sprintf("job_%03d", i), i, pool)
		w.OwnerID, w.Priority = []string{"a", "b", "c"}[r.IntN(3)], 50+10*r.IntN(3)
		jobs = append(jobs, w)
	}
	nodes := []scheduler.Node{gpuNode("nod_1", 8), gpuNode("nod_2", 8), slurmNode("nod_s", 5, "slurm")}
	accounts := map[string]scheduler.Account{"a": {Limit: 12, Held: 2}, "b": {Limit: 9}, "c": {Limit: 1000}}
	got := byJob(scheduler.Plan(nodes, nil, jobs, accounts))
	slices.SortFunc(jobs, func(a, b scheduler.Waiting) int { return got[a.JobID].Position - got[b.JobID].Position })
	held, placed := map[string]int{"a": 2}, map[string]int{}
	for i, w := range jobs {
		require.Equal(t, i+1, got[w.JobID].Position)
		if i > 0 {
			before := jobs[i-1]
			require.True(t, before.Priority > w.Priority || before.Priority == w.Priority && before.SubmittedAt.Before(w.SubmittedAt))
		}
		pool, d := w.Pools[0].Pool, got[w.JobID]
		if room := accounts[w.OwnerID].Limit - held[w.OwnerID]; room < job.Demand(w.Pools) {
			require.Equal(t, job.WaitAccountQuota, d.Reason, "%v", d)
			continue
		}
		if len(d.Places) == 0 {
			require.Equal(t, map[string]int{"gpu": 16, "slurm": 5}[pool], placed[pool], "a job that fits must be placed before later ones: %v", d)
			continue
		}
		require.Equal(t, pool == "slurm", d.Places[0].NodeID == "nod_s")
		placed[pool]++
		held[w.OwnerID] += job.Demand(w.Pools)
	}
	require.Equal(t, map[string]int{"gpu": 16, "slurm": 5}, placed)
}

func TestPlan_slurmReasons(t *testing.T) {
	t.Parallel()
	set := func(change func(n *scheduler.Node)) scheduler.Node {
		n := slurmNode("nod_s", 4, "slurm")
		n.Runtimes = []string{"requirements"}
		change(&n)
		return n
	}
	refuse := func(n *scheduler.Node) { n.Pools, n.Refused = nil, []string{"slurm"} }
	for name, c := range map[string]struct {
		node           scheduler.Node
		want           scheduler.Waiting
		reason, detail string
	}{
		"no settings": {
			set(func(n *scheduler.Node) { refuse(n); n.Slurm.Pools = nil }), wants("job_1", 1, onSlurm(1, 1)),
			job.WaitPoolCapacity, "pool slurm has no Slurm settings yet; an admin sets them with PATCH /api/cluster/pools/slurm",
		},
		"not tested": {
			set(func(n *scheduler.Node) { refuse(n); n.Slurm.Report.Pools = nil }), wants("job_1", 1, onSlurm(1, 1)),
			job.WaitPoolCapacity, "pool slurm is not tested yet; the agent of its Slurm fleet tests it with a short job",
		},
		"not isolated": {
			set(func(n *scheduler.Node) { refuse(n); n.Slurm.Report.Pools[0].Isolation = "none" }), wants("job_1", 1, onSlurm(1, 1)),
			job.WaitIsolation, "the nodes of pool slurm do not isolate the work they run: its test ended without a result; " +
				"repair that, or have an admin permit work without isolation in the pool",
		},
		"Slurm is down": {
			set(func(n *scheduler.Node) { refuse(n); n.Slurm.Report.Problem = "timeout" }), wants("job_1", 1, onSlurm(1, 1)),
			job.WaitPoolCapacity, "the agent of the Slurm fleet cannot reach Slurm: timeout",
		},
		"no network": {
			set(func(*scheduler.Node) {}), func() scheduler.Waiting { w := wants("job_1", 1, onSlurm(1, 1)); w.NoNetwork = true; return w }(),
			job.WaitIsolation, "the Slurm fleet of pool slurm cannot run a job without network access",
		},
		"environment": {
			set(func(*scheduler.Node) {}), func() scheduler.Waiting { w := wants("job_1", 1, onSlurm(1, 1)); w.Runtime = "node:jax"; return w }(),
			job.WaitPoolCapacity, "the agent of the Slurm fleet of pool slurm does not offer the interpreter jax",
		},
		"other pool": {
			set(func(*scheduler.Node) {}), wants("job_1", 1, onSlurm(1, 1), gpus(1, 1)),
			job.WaitPoolCapacity, "pool slurm has too few suitable ready nodes; the job needs 1 node with 1 GPU",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := scheduler.Plan([]scheduler.Node{c.node}, nil, []scheduler.Waiting{c.want}, rich())
			require.Empty(t, got[0].Places)
			require.Equal(t, [2]string{c.reason, c.detail}, [2]string{got[0].Reason, got[0].Detail})
		})
	}
}

func TestPlan_slurmRunsNoEngines(t *testing.T) {
	t.Parallel()
	got := scheduler.Plan([]scheduler.Node{slurmNode("nod_s", 4, "slurm")}, []scheduler.Engine{{WorkID: "wrk_1", Pool: "slurm", Slots: 1}}, nil, nil)
	require.Empty(t, got[0].Places)
	require.Equal(t, job.WaitPoolCapacity, got[0].Reason)
}

// A pool that hosts and a Slurm fleet serve gets its jobs to the hosts first.
func TestPlan_poolOfHostsAndSlurm(t *testing.T) {
	t.Parallel()
	got := byJob(scheduler.Plan([]scheduler.Node{gpuNode("nod_1", 1), slurmNode("nod_s", 1, "gpu")}, nil,
		[]scheduler.Waiting{wants("job_1", 1, gpus(1, 1)), wants("job_2", 2, gpus(1, 1)), wants("job_3", 3, gpus(1, 1))}, rich()))
	require.Equal(t, "nod_1", got["job_1"].Places[0].NodeID)
	require.Equal(t, "nod_s", got["job_2"].Places[0].NodeID)
	require.Contains(t, got["job_3"].Detail, "pool gpu is full")
}
