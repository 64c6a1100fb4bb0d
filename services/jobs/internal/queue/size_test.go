package queue

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// other is an engine's or an attempt's work that takes something of the node.
func (b *bench) other(kind string, cpus int, memory int64) {
	b.t.Helper()
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, cpus, memory_bytes, owner_id, project_id,
			node_id, created_at, updated_at)
		VALUES ('wrk_other', $1, 1, 1, 'running', now(), '', 'cpu', 0, 0, $2, $3, 'u', 'p', (SELECT id FROM node), now(), now())`, kind, cpus, memory)
}

func TestAJobThatAskedForAllCPUsHasTheNodeUntilItIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0, 16)
	b.exec(`UPDATE node SET cpus = 2, memory_bytes = 8::bigint << 30`)
	for range 3 {
		b.submit(job.Pool{Pool: "cpu", CPU: 2, MemoryGB: 1})
	}
	b.pass()
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled'`))
	require.Equal(t, 1, b.count(`work WHERE cpus = 2 AND memory_bytes = 1::bigint << 30`), "what it takes is in its row")
	require.Equal(t, 1, b.count(`job WHERE queue_reason = 'pool_capacity'
		AND queue_detail = 'pool cpu is full: 1 nodes with 2 CPUs and 1 GB of memory are asked for'`))
	require.Equal(t, 1, b.count(`job WHERE queue_reason = 'priority'`))

	b.submit(job.Pool{Pool: "cpu"})
	b.exec(`INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, waiting, created_at, updated_at)
		VALUES ('wrk_engine', 'engine', 1, 1, 'running', now(), '', 'cpu', 0, 1, 'u', 'p', 'no_capacity', now(), now())`)
	b.pass()
	require.Equal(t, 2, b.count(`job WHERE state = 'scheduled'`), "who asks for no CPU runs beside it")
	require.Equal(t, 1, b.count(`work WHERE kind = 'engine' AND node_id <> ''`), "so does an engine")

	b.exec(`UPDATE work SET phase = 'exited' WHERE cpus = 2`)
	b.pass()
	require.Equal(t, 2, b.count(`job WHERE state = 'scheduled'`), "an end that is not collected keeps its place")
	b.exec(`UPDATE work SET released_at = now() WHERE cpus = 2`)
	b.pass()
	require.Equal(t, 1, b.count(`work WHERE cpus = 2 AND released_at IS NULL`), "the next one has them, and it alone")
	require.Equal(t, 1, b.count(`job WHERE state = 'queued'`))
}

// Between the plan and the deed somebody else takes what was planned with.
func TestCPUsAndMemoryAreCountedAgainWhenAJobIsPlaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cpus   int
		memory int64
		placed int
	}{
		"just enough is left":       {6, 7 << 30, 1},
		"a CPU too few":             {7, 0, 0},
		"a byte too few":            {0, 7<<30 + 1, 0},
		"what an older row forgot":  {0, 0, 1},
		"more than there ever were": {99, 99 << 30, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 0, 16)
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

func TestManySchedulersGiveNoCPUTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0, 100)
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
	require.Equal(t, 2, b.count(`work WHERE cpus = 3`), "of eight CPUs two times three are given")
	require.Equal(t, 10, b.count(`work WHERE cpus = 0`), "who asks for none is not held up")
}
