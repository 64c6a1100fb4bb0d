package queue_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/queue"
)

// sized is a node of the pool gpu with two CPUs and four gigabytes, of which so much is free.
func sized(cpus, gigabytes, slots int) queue.Node {
	n := gpuNode("nod_1", 1)
	n.CPUs, n.CPUsFree, n.MemoryBytes, n.MemoryFree = 2, cpus, 4<<30, int64(gigabytes)<<30
	n.SlotsFree = slots
	return n
}

func part(gpus, cpus, gigabytes int) job.Pool {
	return job.Pool{Pool: "gpu", Nodes: 1, GPUsPerNode: gpus, CPU: cpus, MemoryGB: gigabytes}
}

func TestCPUsAndMemoryThatAreTakenAreNotGivenAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		free queue.Node
		want job.Pool
		told string // why it waits, or nothing
	}{
		"all CPUs free, all asked":       {sized(2, 4, 4), part(0, 2, 4), ""},
		"one CPU free, one asked":        {sized(1, 0, 4), part(0, 1, 0), ""},
		"one CPU free, two asked":        {sized(1, 4, 4), part(0, 2, 0), "pool gpu is full: 1 nodes with 2 CPUs are asked for"},
		"CPUs beside a GPU":              {sized(1, 4, 4), part(1, 2, 0), "pool gpu is full: 1 nodes with 1 GPUs and 2 CPUs are asked for"},
		"just the memory that is free":   {sized(0, 3, 4), part(0, 0, 3), ""},
		"a gigabyte more":                {sized(0, 3, 4), part(0, 0, 4), "pool gpu is full: 1 nodes with 4 GB of memory are asked for"},
		"all three":                      {sized(0, 0, 4), part(1, 2, 4), "pool gpu is full: 1 nodes with 1 GPUs, 2 CPUs and 4 GB of memory are asked for"},
		"more than the node has":         {sized(2, 4, 4), part(0, 3, 0), "no ready nodes of pool gpu are enough: 1 nodes with 3 CPUs are asked for"},
		"nothing asked, nothing left":    {sized(0, 0, 1), part(0, 0, 0), ""},
		"a GPU alone, nothing else left": {sized(0, 0, 0), part(1, 0, 0), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := queue.Plan(at(), []queue.Node{c.free}, nil, []queue.Waiting{wants("job_1", 0, c.want)}, rich())[0]
			require.Equal(t, c.told, d.Detail)
			require.Equal(t, c.told == "", len(d.Places) == 1)
			require.Equal(t, c.told != "", d.Reason == job.WaitPoolCapacity)
		})
	}
}

func TestAnEngineIsKeptFromNoNodeWhoseCPUsAreTaken(t *testing.T) {
	t.Parallel()
	got := byJob(queue.Plan(at(), []queue.Node{sized(0, 0, 1)}, []queue.Engine{{WorkID: "wrk_1", Pool: "gpu", Slots: 1}}, nil, nil))
	require.Len(t, got["wrk_1"].Places, 1)
}

// What stands ahead is delayed by nobody; who cannot delay it goes on.
func TestOnlyWorkThatTakesASlotAloneGoesPastAJobThatLacksCPUs(t *testing.T) {
	t.Parallel()
	const kept = "pool gpu is kept for job_ahead, which is ahead"
	for name, c := range map[string]struct {
		free          queue.Node
		ahead, behind job.Pool
		told          string
	}{
		"a slot alone, two free":   {sized(1, 4, 2), part(0, 2, 0), part(0, 0, 0), ""},
		"a slot alone, the last":   {sized(1, 4, 1), part(0, 2, 0), part(0, 0, 0), kept},
		"behind one short of GB":   {sized(2, 3, 2), part(0, 0, 4), part(0, 0, 0), ""},
		"the CPU that is left":     {sized(1, 4, 2), part(0, 2, 0), part(0, 1, 0), kept},
		"memory":                   {sized(1, 4, 2), part(0, 2, 0), part(0, 0, 1), kept},
		"the GPU that it needs":    {sized(1, 4, 2), part(1, 2, 0), part(1, 0, 0), kept},
		"behind one short of both": {func() queue.Node { n := sized(1, 4, 2); n.GPUsFree = 0; return n }(), part(1, 2, 0), part(0, 0, 0), kept},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := byJob(queue.Plan(at(), []queue.Node{c.free}, nil,
				[]queue.Waiting{wants("job_ahead", 0, c.ahead), wants("job_behind", 1, c.behind)}, rich()))
			require.Equal(t, job.WaitPoolCapacity, got["job_ahead"].Reason)
			require.Equal(t, c.told, got["job_behind"].Detail)
			require.Equal(t, c.told != "", got["job_behind"].Reason == job.WaitPriority)
		})
	}
}

// Work that asks for a slot alone arrives for ever and stays for long; the job that waits for the CPUs has
// its slot when they are free.
func TestAJobThatWaitsForCPUsFindsASlotWhenTheyAreFree(t *testing.T) {
	t.Parallel()
	node := sized(0, 4, 3) // who has the CPUs has a GPU, and so no slot to give back
	ahead := wants("job_ahead", 0, part(0, 2, 0))
	passed := 0
	for tick := range 6 {
		if tick == 4 {
			node.CPUsFree = 2
		}
		small := wants(fmt.Sprintf("job_small%d", tick), 1+tick, part(0, 0, 0))
		got := byJob(queue.Plan(at(), []queue.Node{node}, nil, []queue.Waiting{small, ahead}, rich()))
		if len(got[small.JobID].Places) == 1 {
			passed, node.SlotsFree = passed+1, node.SlotsFree-1
		}
		if len(got["job_ahead"].Places) == 1 {
			require.Equal(t, 4, tick)
			require.GreaterOrEqual(t, passed, 2, "who could not delay it went on")
			return
		}
	}
	require.Fail(t, "it waited for a slot")
}
