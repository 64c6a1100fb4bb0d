package chaos

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/slurmtest"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// orphanTime is the time after the end of a fence within which Slurm must have no job of the former fence.
const orphanTime = 30 * time.Second

// heldAndRunning are a job that Slurm holds and one that runs, on an installation with a short fence timeout. If unrecorded
// is true, the agent was killed before it knew the id of the held job.
func heldAndRunning(ctx context.Context, t *testing.T, unrecorded bool) (k *slurmKiller, held, running *slurmJob) {
	t.Helper()
	k = startSlurm(ctx, t, quickFence())
	running = k.submit(ctx, slurmStage{name: "running"}, 2)
	running.finishStop(ctx) // SIGTERM ends it at once
	running.awaitRunning(ctx)
	k.fill(ctx)
	if unrecorded {
		held = k.submit(ctx, slurmStage{name: "held", held: true, sbatch: "unanswered"}, 1)
		held.awaitSbatch(ctx)
		k.agent.Kill()
		return k, held, running
	}
	held = k.submit(ctx, slurmStage{name: "held", held: true}, 1)
	held.awaitHeld(ctx)
	return k, held, running
}

// awaitGone waits until Slurm neither holds nor runs any of the jobs.
func (k *slurmKiller) awaitGone(ctx context.Context, former []slurmtest.Job) {
	k.Helper()
	soon, cancel := context.WithTimeout(ctx, orphanTime)
	defer cancel()
	k.s.Until(soon, "Slurm has no job of the former fence", func() bool {
		return !slices.ContainsFunc(k.left(ctx), func(now slurmtest.Job) bool {
			return slices.ContainsFunc(former, func(before slurmtest.Job) bool { return before.ID == now.ID })
		})
	})
}

// remove removes the node of the agent.
func (k *slurmKiller) remove(ctx context.Context) {
	k.Helper()
	var nodes []struct {
		ID    string `json:"id"`
		Fleet string `json:"fleet_id"`
	}
	require.NoError(k, k.l.Client.Get(ctx, "/api/cluster/nodes", nil, &nodes))
	for _, n := range nodes {
		if n.Fleet == k.agent.Fleet {
			require.NoError(k, k.l.Client.Do(ctx, http.MethodDelete, "/api/cluster/nodes/"+n.ID, nil, nil))
			return
		}
	}
	require.Fail(k, "the fleet of the agent has no node")
}

// stop requests the stop of both jobs, and waits until the control plane has given up the one that Slurm holds.
func (k *slurmKiller) stop(ctx context.Context) {
	k.Helper()
	for _, j := range k.jobs {
		require.NoError(k, j.l.Client.Do(ctx, http.MethodPost, "/api/jobs/"+j.l.Job.ID+"/stop", nil, nil))
	}
	for _, j := range k.jobs {
		if j.stage.held {
			require.NoError(k, j.l.AwaitState(ctx, "stopped"))
		}
	}
}

// fenceEnd is how the fence of attempts on Slurm ends.
type fenceEnd struct {
	name string
	// alive is true if the agent runs at that time, and returns if it is dead and returns afterwards.
	alive, returns bool
	// unrecorded is true if the agent was killed before it knew the id of what Slurm holds.
	unrecorded bool
	end        func(*slurmKiller, context.Context)
}

func fenceEnds() []fenceEnd {
	return []fenceEnd{
		{name: "node_removed", alive: true, end: (*slurmKiller).remove},
		{name: "node_removed_before_agent_returns", returns: true, end: (*slurmKiller).remove},
		{name: "node_removed_agent_never_returns", end: (*slurmKiller).remove},
		{name: "stopped_before_agent_returns", returns: true, end: (*slurmKiller).stop},
		{name: "node_removed_id_unrecorded", returns: true, unrecorded: true, end: (*slurmKiller).remove},
		{name: "stopped_id_unrecorded", returns: true, unrecorded: true, end: (*slurmKiller).stop},
		{name: "stopped_agent_never_returns", end: (*slurmKiller).stop},
	}
}

// TestSlurm_fenceEnds ends the fences of an attempt that Slurm holds and of one that runs. Slurm must have neither of them
// soon after that. If the agent never returns, it cannot cancel what Slurm holds. That must then not outlive its start, and
// its command must not run. CI tests one of the ways, which the seed selects.
func TestSlurm_fenceEnds(t *testing.T) {
	rows := fenceEnds()
	if !allRows() {
		rows = draw.Some(draw.New(t), 1, rows, func(r fenceEnd) string { return r.name })
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), testenv.StageTimeout)
			defer cancel()
			k, held, running := heldAndRunning(ctx, t, r.unrecorded)
			former := append(held.slurmJobs(ctx), running.slurmJobs(ctx)...)
			require.Len(t, former, 2)
			if !r.alive && !r.unrecorded {
				k.agent.Kill()
			}
			r.end(k, ctx)
			if r.returns {
				k.agent.Start()
			}
			if !r.alive && !r.returns {
				k.awaitGone(ctx, running.slurmJobs(ctx))
				k.empty(ctx)
			}
			k.awaitGone(ctx, former)
			require.Len(t, running.starts(), running.nodes)
			require.Empty(t, held.starts())
		})
	}
}

// TestSlurm_agentIsAwayForLong lets the fence timeout pass while the agent is dead. The attempt that Slurm holds keeps its
// place and starts in its turn, and the one that runs continues.
func TestSlurm_agentIsAwayForLong(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.StageTimeout)
	defer cancel()
	k, held, running := heldAndRunning(ctx, t, false)
	k.agent.Kill()
	killed := time.Now()
	k.s.Until(ctx, "the agent was away for three fence timeouts", func() bool { return time.Since(killed) > 3*fence })
	k.empty(ctx)
	held.awaitRunning(ctx)
	k.agent.Start()
	for _, j := range []*slurmJob{held, running} {
		j.finish(ctx)
		require.NoError(t, j.l.AwaitEnd(ctx), k.s.Tail())
		require.Equal(t, 1, j.get(ctx).Attempt)
		require.Len(t, j.starts(), j.nodes, "each rank must run once")
		require.Len(t, j.slurmJobs(ctx), 1, "the attempt must be submitted once")
	}
}
