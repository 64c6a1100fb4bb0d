package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/scheduler"
)

// sized returns a node of pool gpu with 2 CPUs and 4 GB in total, and the given free resources.
func sized(cpus, gigabytes, slots int) scheduler.Node {
	n := gpuNode("nod_1", 1)
	n.CPUs, n.CPUsFree, n.MemoryBytes, n.MemoryFree = 2, cpus, 4<<30, int64(gigabytes)<<30
	n.SlotsFree = slots
	return n
}

func part(gpus, cpus, gigabytes int) job.Pool {
	return job.Pool{Pool: "gpu", Nodes: 1, GPUsPerNode: gpus, CPU: cpus, MemoryGB: gigabytes}
}

func TestPlan_respectsFreeCPUsAndMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		free   scheduler.Node
		want   job.Pool
		detail string // why the job waits, or empty
	}{
		"all CPUs free, all needed":    {sized(2, 4, 4), part(0, 2, 4), ""},
		"one CPU free, one needed":     {sized(1, 0, 4), part(0, 1, 0), ""},
		"one CPU free, two needed":     {sized(1, 4, 4), part(0, 2, 0), "pool gpu is full; the job needs 1 node with 2 CPUs"},
		"GPU and CPUs":                 {sized(1, 4, 4), part(1, 2, 0), "pool gpu is full; the job needs 1 node with 1 GPU and 2 CPUs"},
		"all free memory needed":       {sized(0, 3, 4), part(0, 0, 3), ""},
		"1 GB more than free":          {sized(0, 3, 4), part(0, 0, 4), "pool gpu is full; the job needs 1 node with 4 GB of memory"},
		"GPU, CPUs and memory":         {sized(0, 0, 4), part(1, 2, 4), "pool gpu is full; the job needs 1 node with 1 GPU, 2 CPUs and 4 GB of memory"},
		"more than the node has":       {sized(2, 4, 4), part(0, 3, 0), "pool gpu has too few suitable ready nodes; the job needs 1 node with 3 CPUs"},
		"more nodes than there are":    {sized(2, 4, 4), job.Pool{Pool: "gpu", Nodes: 2, CPU: 1}, "pool gpu has too few suitable ready nodes; the job needs 2 nodes with 1 CPU each"},
		"nothing needed, nothing free": {sized(0, 0, 1), part(0, 0, 0), ""},
		"only a GPU needed and free":   {sized(0, 0, 0), part(1, 0, 0), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := scheduler.Plan([]scheduler.Node{c.free}, nil, []scheduler.Waiting{wants("job_1", 0, c.want)}, rich())[0]
			require.Equal(t, c.detail, d.Detail)
			require.Equal(t, c.detail == "", len(d.Places) == 1)
			require.Equal(t, c.detail != "", d.Reason == job.WaitPoolCapacity)
		})
	}
}

func TestPlan_engineRunsWithoutFreeCPUs(t *testing.T) {
	t.Parallel()
	got := byJob(scheduler.Plan([]scheduler.Node{sized(0, 0, 1)}, []scheduler.Engine{{WorkID: "wrk_1", Pool: "gpu", Slots: 1}}, nil, nil))
	require.Len(t, got["wrk_1"].Places, 1)
}

// Only work that cannot delay the blocked job may pass it.
func TestPlan_onlySlotWorkPassesJobLackingCPUs(t *testing.T) {
	t.Parallel()
	const reserved = "pool gpu is reserved for job_ahead, which is ahead in the queue"
	for name, c := range map[string]struct {
		free          scheduler.Node
		ahead, behind job.Pool
		detail        string
	}{
		"only a slot, two free":    {sized(1, 4, 2), part(0, 2, 0), part(0, 0, 0), ""},
		"only a slot, one free":    {sized(1, 4, 1), part(0, 2, 0), part(0, 0, 0), reserved},
		"job ahead lacks memory":   {sized(2, 3, 2), part(0, 0, 4), part(0, 0, 0), ""},
		"needs the free CPU":       {sized(1, 4, 2), part(0, 2, 0), part(0, 1, 0), reserved},
		"needs memory":             {sized(1, 4, 2), part(0, 2, 0), part(0, 0, 1), reserved},
		"needs the GPU":            {sized(1, 4, 2), part(1, 2, 0), part(1, 0, 0), reserved},
		"job ahead lacks GPU, CPU": {func() scheduler.Node { n := sized(1, 4, 2); n.GPUsFree = 0; return n }(), part(1, 2, 0), part(0, 0, 0), reserved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := byJob(scheduler.Plan([]scheduler.Node{c.free}, nil,
				[]scheduler.Waiting{wants("job_ahead", 0, c.ahead), wants("job_behind", 1, c.behind)}, rich()))
			require.Equal(t, job.WaitPoolCapacity, got["job_ahead"].Reason)
			require.Equal(t, c.detail, got["job_behind"].Detail)
			require.Equal(t, c.detail != "", got["job_behind"].Reason == job.WaitPriority)
		})
	}
}

// Work that needs only a slot keeps arriving and does not end. The job that waits for CPUs still finds a free slot
// when the CPUs are free.
func TestPlan_jobWaitingForCPUsKeepsSlot(t *testing.T) {
	t.Parallel()
	node := sized(0, 4, 3) // the work that has the CPUs also has a GPU, so it takes no slot
	ahead := wants("job_ahead", 0, part(0, 2, 0))
	passed := 0
	for tick := range 6 {
		if tick == 4 {
			node.CPUsFree = 2
		}
		small := wants(fmt.Sprintf("job_small%d", tick), 1+tick, part(0, 0, 0))
		got := byJob(scheduler.Plan([]scheduler.Node{node}, nil, []scheduler.Waiting{small, ahead}, rich()))
		if len(got[small.JobID].Places) == 1 {
			passed, node.SlotsFree = passed+1, node.SlotsFree-1
		}
		if len(got["job_ahead"].Places) == 1 {
			require.Equal(t, 4, tick)
			require.GreaterOrEqual(t, passed, 2, "work that cannot delay the job must pass it")
			return
		}
	}
	require.Fail(t, "the job found no slot")
}
