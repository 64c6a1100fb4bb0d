package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// newSlurmHarness creates a Slurm fleet that serves the pools gpu and cpu, with nodes that have joined it.
func newSlurmHarness(t *testing.T, nodes int) *harness {
	t.Helper()
	b := newHarness(t, nodes)
	b.exec(t, `UPDATE fleet SET kind = 'slurm', pools = '{cpu,gpu}'`)
	return b
}

func (b *harness) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func report() *fleet.SlurmReport {
	return &fleet.SlurmReport{
		Version: "22.05", Partitions: []fleet.SlurmPartition{{Name: "gpu", State: "up", Nodes: 2, GPUs: 8, GPUsUsed: 3}},
		Pools: []fleet.SlurmTest{{Pool: "gpu", Slurm: fleet.SlurmPool{Partition: "gpu", Folder: "/s"}, Isolation: "own_user"}},
	}
}

func (b *harness) hello(t *testing.T, node, runsOn string, r *fleet.SlurmReport) (int64, error) {
	t.Helper()
	return b.liveness.Open(t.Context(), fleet.Hello{
		NodeID: node, Incarnation: "x", Drivers: []string{}, RunsOn: runsOn, Slurm: r, Inventory: fleet.Inventory{CPUs: 4, GPUs: 2},
	})
}

const setGPU = `INSERT INTO pool (name, slurm) VALUES ('gpu', '{"partition": "gpu", "account": "", "qos": "", "user": "", "folder": "/s"}')`

func TestLiveness_Open_kindOfFleet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ kind, runsOn, want string }{
		"agent on Slurm":      {fleet.KindAgent, fleet.KindSlurm, "join a fleet of kind slurm"},
		"host in Slurm fleet": {fleet.KindSlurm, fleet.KindAgent, "start its agent with SERVICE_AGENT_RUNS_ON=slurm"},
		"earlier version":     {fleet.KindSlurm, "", "start its agent with SERVICE_AGENT_RUNS_ON=slurm"},
		"Kubernetes":          {fleet.KindSlurm, fleet.KindKubernetes, "is a Slurm fleet"},
		"host":                {fleet.KindAgent, fleet.KindAgent, ""},
		"host, earlier":       {fleet.KindAgent, "", ""},
		"Slurm":               {fleet.KindSlurm, fleet.KindSlurm, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 1)
			b.exec(t, `UPDATE fleet SET kind = $1`, c.kind)
			_, err := b.hello(t, b.nodes[0], c.runsOn, report())
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, fault.HasCode(err, "runs_on"), "%v", err)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, fleet.NodeJoining, b.state(t, b.nodes[0]))
		})
	}
	_, err := newHarness(t, 1).hello(t, "nod_gone", fleet.KindSlurm, nil)
	require.True(t, fault.HasCode(err, fleet.CodeRemoved), "%v", err)
}

func TestLiveness_Open_oneAgentOfSlurmFleet(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t, 2)
	first, err := b.hello(t, b.nodes[0], fleet.KindSlurm, report())
	require.NoError(t, err)
	_, err = b.hello(t, b.nodes[1], fleet.KindSlurm, nil)
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, fleet.CodeAgentExists), "%v", err)
	require.ErrorContains(t, err, "fleet f already has an agent, on host n0")
	again, err := b.hello(t, b.nodes[0], fleet.KindSlurm, nil)
	require.NoError(t, err, "the agent itself may connect again")
	require.Greater(t, again, first)

	b.put(t, b.nodes[0], fleet.NodeLost, fleet.Active)
	_, err = b.hello(t, b.nodes[1], fleet.KindSlurm, nil)
	require.NoError(t, err)
	b.liveness.Beat(fleet.Beat{NodeID: b.nodes[0], Session: again})
	require.NoError(t, b.liveness.Flush(t.Context()))
	require.Equal(t, fleet.NodeLost, b.state(t, b.nodes[0]), "a heartbeat of the former agent must not give the fleet two agents")
	_, err = b.hello(t, b.nodes[0], fleet.KindSlurm, nil)
	require.True(t, fault.HasCode(err, fleet.CodeAgentExists), "%v", err)
}

func TestLiveness_Open_concurrentSlurmAgents(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t, 6)
	done := make(chan error, len(b.nodes))
	for _, n := range b.nodes {
		go func() {
			_, err := b.liveness.Open(t.Context(), fleet.Hello{NodeID: n, Drivers: []string{}, RunsOn: fleet.KindSlurm})
			done <- err
		}()
	}
	admitted := 0
	for range b.nodes {
		err := <-done
		require.True(t, err == nil || fault.HasCode(err, fleet.CodeAgentExists), "%v", err)
		if err == nil {
			admitted++
		}
	}
	require.Equal(t, 1, admitted)
}

func TestLiveness_ReportSlurm(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t, 1)
	b.exec(t, setGPU)
	store, node := fleet.Store{}, b.nodes[0]
	load := func() *fleet.Node {
		n, err := store.Node(t.Context(), b.pool, node)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, []string{}, load().Permitted)
	session, err := b.hello(t, node, fleet.KindSlurm, report())
	require.NoError(t, err)
	n := load()
	require.Equal(t, report(), n.Slurm.Report)
	require.Equal(t, []string{"gpu"}, n.Permitted)
	require.Equal(t, [3]int{0, 200, 200}, [3]int{n.GPUs, n.SlotsTotal, n.SlotsFree}, "the GPUs of the agent's own host do not count")

	changed := report()
	changed.Pools[0].Isolation = "none"
	require.NoError(t, b.liveness.ReportSlurm(t.Context(), fleet.Beat{NodeID: node, Session: session - 1}, changed))
	require.Equal(t, report(), load().Slurm.Report, "a superseded session must not report")
	require.NoError(t, b.liveness.ReportSlurm(t.Context(), fleet.Beat{NodeID: node, Session: session}, changed))
	require.Equal(t, changed, load().Slurm.Report)
	require.Empty(t, load().Permitted)
	b.exec(t, `UPDATE pool SET isolation = 'none'`)
	require.Equal(t, []string{"gpu"}, load().Permitted)
	_, err = b.hello(t, node, fleet.KindSlurm, nil)
	require.NoError(t, err)
	require.Equal(t, changed, load().Slurm.Report, "a hello without a report must keep the former one")
	b.exec(t, `UPDATE fleet SET kind = 'agent'`)
	require.Nil(t, load().Slurm)
}

func TestStore_fleetCountsGPUsOfPartitions(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t, 2)
	b.exec(t, setGPU)
	load := func() *fleet.Fleet {
		fleets, err := fleet.Store{}.List(t.Context(), b.pool, request.Page{Limit: 10})
		require.NoError(t, err)
		require.Len(t, fleets, 1)
		return fleets[0]
	}
	require.Nil(t, load().Slurm)
	_, err := b.hello(t, b.nodes[0], fleet.KindSlurm, report())
	require.NoError(t, err)
	f := load()
	require.Equal(t, [4]int{2, 8, 5, 0}, [4]int{f.Nodes, f.GPUs, f.GPUsFree, f.GPUsUnhealthy})
	require.Equal(t, report(), f.Slurm)
	b.put(t, b.nodes[0], fleet.NodeLost, fleet.Active)
	f = load()
	require.Equal(t, [3]int{0, 0, 8}, [3]int{f.GPUs, f.GPUsFree, f.GPUsUnhealthy})
	second := report()
	second.Version = "23.02"
	_, err = b.hello(t, b.nodes[1], fleet.KindSlurm, second)
	require.NoError(t, err)
	require.Equal(t, "23.02", load().Slurm.Version, "the newest agent counts")
}

func TestStore_slurmPoolsAndFleets(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t, 1)
	b.exec(t, setGPU)
	b.exec(t, `INSERT INTO pool (name, isolation) VALUES ('cpu', 'none')`)
	b.exec(t, `INSERT INTO fleet (id, name, kind, state, pools, created_at) VALUES ('flt_hosts', 'hosts', 'agent', 'active', '{cpu}', now())`)
	store := fleet.Store{}
	pools, err := store.SlurmPools(t.Context(), b.pool, b.nodes[0])
	require.NoError(t, err)
	require.Equal(t, []*fleet.PoolSlurm{{Name: "gpu", Slurm: fleet.SlurmPool{Partition: "gpu", Folder: "/s"}}}, pools)
	agents, err := store.SlurmAgents(t.Context(), b.pool, "gpu")
	require.NoError(t, err)
	require.Equal(t, b.nodes, agents)

	fleets, err := store.SlurmFleets(t.Context(), b.pool, "gpu")
	require.NoError(t, err)
	require.Len(t, fleets, 1)
	require.Nil(t, fleets[0].Runtimes)
	require.Nil(t, fleets[0].Slurm().Report, "its agent has not connected yet")
	_, err = b.liveness.Open(t.Context(), fleet.Hello{NodeID: b.nodes[0], Drivers: []string{}, RunsOn: fleet.KindSlurm, Runtimes: []string{"requirements"}, Slurm: report()})
	require.NoError(t, err)
	fleets, err = store.SlurmFleets(t.Context(), b.pool, "gpu")
	require.NoError(t, err)
	require.Equal(t, []string{"requirements"}, fleets[0].Runtimes)
	require.True(t, fleets[0].Slurm().Permits([]string{"gpu"}))
	nodes, known, err := store.InPool(t.Context(), b.pool, "gpu", time.Now().Add(-time.Minute))
	require.NoError(t, err)
	require.True(t, known)
	require.Empty(t, nodes, "the agent of a Slurm fleet runs no work itself")

	for pool, want := range map[string][2]bool{"gpu": {false, true}, "cpu": {true, false}, "other": {false, false}} {
		hosts, err := store.Hosts(t.Context(), b.pool, pool)
		require.NoError(t, err)
		only, err := store.OnlySlurm(t.Context(), b.pool, pool)
		require.NoError(t, err)
		require.Equal(t, want, [2]bool{hosts, only}, pool)
	}
	b.exec(t, `UPDATE fleet SET state = 'disabled'`)
	fleets, err = store.SlurmFleets(t.Context(), b.pool, "gpu")
	require.NoError(t, err)
	require.Empty(t, fleets)
}

// A placement with the settings of a pool waits for a change of these settings.
func TestStore_LockReady_locksSlurmSettings(t *testing.T) {
	t.Parallel()
	b := newSlurmHarness(t, 1)
	b.exec(t, setGPU)
	_, err := b.hello(t, b.nodes[0], fleet.KindSlurm, report())
	require.NoError(t, err)
	require.NoError(t, pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		nodes, err := fleet.Store{}.LockReady(ctx, tx, b.nodes)
		require.Len(t, nodes, 1)
		require.Equal(t, "gpu", nodes[0].Slurm.Pools["gpu"].Slurm.Partition)
		_, blocked := b.pool.Exec(t.Context(), `SELECT FROM pool WHERE name = 'gpu' FOR UPDATE NOWAIT`)
		require.ErrorContains(t, blocked, "could not obtain lock")
		return err
	}))
}
