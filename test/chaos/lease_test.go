package chaos

import (
	"context"
	"maps"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// fence is the fence timeout in these tests: the control plane gives up a work that has been silent for this long.
const fence = 4 * time.Second

// quickFence returns settings with which the control plane soon gives up the works of a silent node.
func quickFence() map[string]string {
	return map[string]string{"SERVICE_JOBS_NODE_LEASE": "2s", "SERVICE_JOBS_FENCE_TIMEOUT": fence.String()}
}

type node struct {
	State      string    `json:"state"`
	LastSeenAt time.Time `json:"last_seen_at"`
}

// onlyNode returns the node of the installation.
func onlyNode(ctx context.Context, t *testing.T, l *e2eflow.Loop) (n node) {
	t.Helper()
	var all []node
	if l.Client.Get(ctx, "/api/cluster/nodes", nil, &all) == nil && len(all) == 1 {
		n = all[0]
	}
	return n
}

// TestSplitInstallation_frozenAgent freezes the agent for three times the fence timeout. The attempt must continue,
// because its shim renews its lease. A second job is stopped meanwhile: the stop must take effect although the agent
// is frozen.
func TestSplitInstallation_frozenAgent(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.StageTimeout)
	defer cancel()
	s := testenv.Split(t, testenv.Options{Env: quickFence()})
	l := s.Loop(ctx)
	c, stopped := s.Count(ctx, l), s.Count(ctx, s.Loop(ctx))
	c.AwaitMore(ctx, 1)
	stopped.AwaitMore(ctx, 1)
	agent := s.Processes["agent"]
	agent.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { agent.Signal(syscall.SIGCONT) })
	s.Until(ctx, "the node has been silent for three fence timeouts", func() bool {
		n := onlyNode(ctx, t, l)
		return n.State == "lost" && time.Since(n.LastSeenAt) > 3*fence
	})
	c.AwaitMore(ctx, 10)
	stopped.Stop(ctx)
	stopped.AwaitLast(ctx)
	agent.Signal(syscall.SIGCONT)
	s.Until(ctx, "the node is ready", func() bool { return onlyNode(ctx, t, l).State == "ready" })
	c.AwaitMore(ctx, 10)
	c.Stop(ctx)
	c.End(ctx)
}

// TestSplitInstallation_frozenAgentServes freezes the agent for three times the fence timeout while its engine is
// called. The shim renews the engine's lease, so no call may fail and the engine must not be started again.
func TestSplitInstallation_frozenAgentServes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*testenv.StageTimeout)
	defer cancel()
	env := manySlots()
	maps.Copy(env, quickFence())
	s := testenv.Split(t, testenv.Options{Env: env})
	sc := &scenario{T: t, s: s, l: s.Loop(ctx)}
	sc.submit(ctx)
	require.NoError(t, sc.l.AwaitEnd(ctx), s.Tail())
	engine := sc.serve(ctx)
	d := sc.load(ctx)
	end := d.start(ctx)
	agent := s.Processes["agent"]
	agent.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { agent.Signal(syscall.SIGCONT) })
	s.Until(ctx, "the node has been silent for three fence timeouts", func() bool {
		n := onlyNode(ctx, t, sc.l)
		return n.State == "lost" && time.Since(n.LastSeenAt) > 3*fence
	})
	before := d.count()
	s.Until(ctx, "calls succeed", func() bool { return d.count() > before+50 })
	agent.Signal(syscall.SIGCONT)
	s.Until(ctx, "the node is ready", func() bool { return onlyNode(ctx, t, sc.l).State == "ready" })
	before = d.count()
	s.Until(ctx, "calls succeed", func() bool { return d.count() > before+50 })
	end()
	d.requireNoneWrong(t)
	require.Empty(t, d.cut)
	require.Zero(t, d.refused)
	require.Equal(t, engine, sc.enginePID(ctx), "the engine must not be started again")
}

// TestSingleProcess_awayForLong kills signalboxd and its database for three times the fence timeout, or, if CHAOS_AWAY is
// set, for that duration with the default timeouts. The job must continue without a lost or repeated line, and the
// engine must not be started again.
func TestSingleProcess_awayForLong(t *testing.T) {
	away, env := durationOf(t, "CHAOS_AWAY", 0), manySlots()
	if away == 0 {
		away = 3 * fence
		maps.Copy(env, quickFence())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*testenv.StageTimeout+away)
	defer cancel()
	s := testenv.Single(t, testenv.Options{Env: env})
	sc := &scenario{T: t, s: s, l: s.Loop(ctx)}
	sc.submit(ctx)
	require.NoError(t, sc.l.AwaitEnd(ctx), s.Tail())
	engine := sc.serve(ctx)
	c := s.Count(ctx, s.Loop(ctx))
	c.AwaitMore(ctx, 1)
	database := postmaster(t, s)
	s.Processes["signalboxd"].Kill()
	require.NoError(t, syscall.Kill(database, syscall.SIGKILL))
	killed := time.Now()
	s.Until(ctx, "the control plane was away for "+away.String(), func() bool { return time.Since(killed) > away })
	c.AwaitMore(ctx, 1)
	s.StartSingle()
	c.AwaitMore(ctx, 10)
	sc.awaitServing(ctx, s.URL)
	require.Equal(t, engine, sc.enginePID(ctx), "the engine must not be started again")
	c.Stop(ctx)
	c.End(ctx)
}
