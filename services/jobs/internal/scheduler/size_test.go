package scheduler

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// other inserts a work that takes resources of the node.
func (b *harness) other(kind string, cpus int, memory int64) {
	b.t.Helper()
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, cpus, memory_bytes, owner_id, project_id,
			node_id, created_at, updated_at)
		VALUES ('wrk_other', $1, 1, 1, 'running', now(), '', 'cpu', 0, 0, $2, $3, 'u', 'p', (SELECT id FROM node), now(), now())`, kind, cpus, memory)
}

func TestScheduler_RunOnce_CPUsStayTakenUntilProcessEnds(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"collecting", "exited"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			requireCPUsTakenUntil(t, phase)
		})
	}
}

func requireCPUsTakenUntil(t *testing.T, ended string) {
	t.Helper()
	b := newHarness(t, 0, 16)
	b.exec(`UPDATE node SET cpus = 2, memory_bytes = 8::bigint << 30`)
	for range 3 {
		b.submit(job.Pool{Pool: "cpu", CPU: 2, MemoryGB: 1})
	}
	b.pass()
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled'`))
	require.Equal(t, 1, b.count(`work WHERE cpus = 2 AND memory_bytes = 1::bigint << 30`), "the row must have the taken resources")
	require.Equal(t, 1, b.count(`job WHERE queue_reason = 'pool_capacity'
		AND queue_detail = 'pool cpu is full; the job needs 1 node with 2 CPUs and 1 GB of memory'`))
	require.Equal(t, 1, b.count(`job WHERE queue_reason = 'priority'`))

	b.submit(job.Pool{Pool: "cpu"})
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, waiting, created_at, updated_at)
		VALUES ('wrk_engine', 'engine', 1, 1, 'running', now(), '', 'cpu', 0, 1, 'u', 'p', 'no_capacity', now(), now())`)
	b.pass()
	require.Equal(t, 2, b.count(`job WHERE state = 'scheduled'`), "a job that needs no CPU must be placed on the node")
	require.Equal(t, 1, b.count(`work WHERE kind = 'engine' AND node_id <> ''`), "an engine must be placed on the node")

	b.exec(`UPDATE work SET phase = 'running' WHERE cpus = 2`)
	b.pass()
	require.Equal(t, 2, b.count(`job WHERE state = 'scheduled'`))
	b.exec(`UPDATE work SET phase = $1 WHERE cpus = 2`, ended)
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE cpus = 2 AND phase = ''`), "exactly one next job must get the CPUs")
	require.Equal(t, 1, b.count(`job WHERE state = 'queued'`))
}

// Other work may take the resources between planning and placing.
func TestScheduler_place_rechecksCPUsAndMemory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cpus   int
		memory int64
		placed int
	}{
		"exactly enough left":    {6, 7 << 30, 1},
		"one CPU too few":        {7, 0, 0},
		"one byte too few":       {0, 7<<30 + 1, 0},
		"old row without values": {0, 0, 1},
		"more than the total":    {99, 99 << 30, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 0, 16)
			b.exec(`UPDATE node SET memory_bytes = 8::bigint << 30`)
			b.submit(job.Pool{Pool: "cpu", CPU: 2, MemoryGB: 1})
			s := b.scheduler()
			decisions, _, err := s.decide(t.Context())
			require.NoError(t, err)
			require.Len(t, decisions[0].Places, 1)
			b.other("attempt", c.cpus, c.memory)
			require.NoError(t, s.place(t.Context(), decisions[0]))
			require.Equal(t, c.placed, b.count("attempt"))
		})
	}
}

func TestScheduler_RunOnce_concurrentSchedulersShareCPUs(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 0, 100)
	for range 10 {
		b.submit(job.Pool{Pool: "cpu", CPU: 3})
		b.submit(job.Pool{Pool: "cpu"})
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if _, err := b.scheduler().RunOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 2, b.count(`work WHERE cpus = 3`), "two jobs with 3 CPUs each must fit into 8 CPUs")
	require.Equal(t, 10, b.count(`work WHERE cpus = 0`), "jobs without CPUs must not be blocked")
}
