package controlplane

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// cluster is a fake cluster.
type cluster struct {
	pools   chan []executor.Pool
	changes chan struct{}

	mu     sync.Mutex
	report executor.ClusterReport
}

func (c *cluster) SetPools(pools []executor.Pool) { c.pools <- pools }
func (c *cluster) ReportChanges() <-chan struct{} { return c.changes }
func (c *cluster) Report() executor.ClusterReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report
}

// An agent of a Slurm cluster reports it at the beginning of a session and after each change, and receives the pools.
func TestSession_reportsCluster(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	c := &cluster{pools: make(chan []executor.Pool, 16), changes: make(chan struct{}, 1), report: executor.ClusterReport{Version: "22.05.8"}}
	m := p.link(filepath.Join(t.TempDir(), "node"), func(d *Deps) { d.Cluster = c })
	s := p.session()
	require.Equal(t, jobsv1.FleetKind_FLEET_KIND_SLURM, s.hello.GetRunsOn())
	require.Equal(t, "22.05.8", s.hello.GetSlurm().GetVersion())
	await(t, s.heard, "the complete state")
	c.mu.Lock()
	c.report.Problem = "x"
	c.mu.Unlock()
	c.changes <- struct{}{}
	require.Equal(t, "x", await(t, s.beats, "the changed report").GetSlurm().GetProblem())
	require.NoError(t, s.Send(&jobsv1.ConnectResponse{Message: &jobsv1.ConnectResponse_Desired{Desired: &jobsv1.DesiredWorks{
		Pools: []*jobsv1.DesiredPool{{Pool: "gpu", Slurm: &jobsv1.SlurmPool{Partition: "p", Folder: "/f"}}},
	}}}))
	require.Equal(t, []executor.Pool{{Name: "gpu", Slurm: executor.SlurmPool{Partition: "p", Folder: "/f"}}}, await(t, c.pools, "the pools"))
	m.stop()
}

// An agent of a host states so and has no cluster.
func TestSession_runsOnHost(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	m := p.link(filepath.Join(t.TempDir(), "node"))
	s := p.session()
	require.Equal(t, jobsv1.FleetKind_FLEET_KIND_AGENT, s.hello.GetRunsOn())
	require.Nil(t, s.hello.GetSlurm())
	m.stop()
}

func TestToCluster_allFields(t *testing.T) {
	t.Parallel()
	pool := executor.SlurmPool{Partition: "gpu", Account: "a", QOS: "q", User: "u", Folder: "/f"}
	p := toCluster(executor.ClusterReport{
		Version: "v", Problem: "p",
		Partitions: []executor.Partition{{
			Name: "gpu", State: "up", Nodes: 1, NodesIdle: 2, NodesDown: 3, GPUsTotal: 4, GPUsUsed: 5, GPUsPerNode: 6, CPUsPerNode: 7,
			MemoryPerNode: 8, JobsWaiting: 9, MaxTime: 10 * time.Second,
		}},
		Pools: []executor.PoolReport{{Pool: "p", Slurm: pool, Isolation: "none", Problem: "p", ClosesNetwork: true, TestedAt: time.Unix(1, 0)}},
	})
	for _, m := range []proto.Message{p, p.GetPartitions()[0], p.GetPools()[0], p.GetPools()[0].GetSlurm()} {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			require.True(t, m.ProtoReflect().Has(fields.Get(i)), fields.Get(i).FullName())
		}
	}
	require.Equal(t, pool, fromSlurmPool(p.GetPools()[0].GetSlurm()))
	require.Nil(t, toCluster(executor.ClusterReport{}).Problem)
}
