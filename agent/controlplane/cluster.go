package controlplane

import (
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// hello returns the first message of a session.
func (s *session) hello(boundary *jobsv1.NodeBoundary) *jobsv1.AgentHello {
	hello := &jobsv1.AgentHello{
		NodeId: s.node.ID, Inventory: s.deps.Membership.Inventory, Incarnation: s.deps.Incarnation, Drivers: s.deps.Drivers,
		FetchesWorks: true,
		Boundary:     boundary,
		Pythons:      s.deps.Pythons(), BuildsEnvironments: true,
		RunsOn: jobsv1.FleetKind_FLEET_KIND_AGENT,
	}
	if s.deps.Cluster != nil {
		hello.RunsOn, hello.Slurm = jobsv1.FleetKind_FLEET_KIND_SLURM, toCluster(s.deps.Cluster.Report())
	}
	return hello
}

// sendReport sends the report of the cluster after it has changed.
func (s *session) sendReport(stream jobsv1.AgentService_ConnectClient) error {
	beat := &jobsv1.Heartbeat{Slurm: toCluster(s.deps.Cluster.Report())}
	if err := stream.Send(&jobsv1.ConnectRequest{Message: &jobsv1.ConnectRequest_Heartbeat{Heartbeat: beat}}); err != nil {
		return fmt.Errorf("send the report of the cluster: %w", err)
	}
	return nil
}

func toCluster(r executor.ClusterReport) *jobsv1.SlurmReport {
	p := &jobsv1.SlurmReport{Version: r.Version, Problem: optional(r.Problem)}
	for _, one := range r.Partitions {
		p.Partitions = append(p.Partitions, &jobsv1.SlurmPartition{
			Name: one.Name, State: one.State, Nodes: int32(one.Nodes), NodesIdle: int32(one.NodesIdle), NodesDown: int32(one.NodesDown),
			GpusTotal: int32(one.GPUsTotal), GpusUsed: int32(one.GPUsUsed), GpusPerNode: int32(one.GPUsPerNode), CpusPerNode: int32(one.CPUsPerNode),
			MemoryBytesPerNode: one.MemoryPerNode, JobsWaiting: int32(one.JobsWaiting), MaxTimeS: int64(one.MaxTime / time.Second),
		})
	}
	for _, one := range r.Pools {
		p.Pools = append(p.Pools, &jobsv1.SlurmPoolReport{
			Pool: one.Pool, Slurm: toSlurmPool(one.Slurm), Isolation: one.Isolation, Problem: optional(one.Problem),
			ClosesNetwork: one.ClosesNetwork, TestedAt: request.NonZeroTime(one.TestedAt),
		})
	}
	return p
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func toSlurmPool(p executor.SlurmPool) *jobsv1.SlurmPool {
	return &jobsv1.SlurmPool{Partition: p.Partition, Account: p.Account, Qos: p.QOS, User: p.User, Folder: p.Folder}
}

func fromSlurmPool(p *jobsv1.SlurmPool) executor.SlurmPool {
	return executor.SlurmPool{Partition: p.GetPartition(), Account: p.GetAccount(), QOS: p.GetQos(), User: p.GetUser(), Folder: p.GetFolder()}
}

func fromPools(ps []*jobsv1.DesiredPool) []executor.Pool {
	pools := make([]executor.Pool, 0, len(ps))
	for _, p := range ps {
		pools = append(pools, executor.Pool{Name: p.GetPool(), Slurm: fromSlurmPool(p.GetSlurm())})
	}
	return pools
}

// fromBatch returns nil for the work of a host.
func fromBatch(p *jobsv1.BatchSpec) *executor.BatchSpec {
	if p == nil {
		return nil
	}
	b := &executor.BatchSpec{TimeLimit: seconds(p.GetTimeLimitS()), Priority: int(p.GetPriority()), NotIsolated: p.GetNotIsolated()}
	for _, one := range p.GetParts() {
		b.Parts = append(b.Parts, executor.BatchPart{
			Role: one.GetRole(), Nodes: int(one.GetNodes()), GPUsPerNode: int(one.GetGpusPerNode()), CPUs: int(one.GetCpus()),
			MemoryBytes: one.GetMemoryBytes(), Pool: one.GetPool(), Slurm: fromSlurmPool(one.GetSlurm()),
		})
	}
	return b
}

func toBatchReport(b *executor.BatchReport) *jobsv1.BatchReport {
	if b == nil {
		return nil
	}
	return &jobsv1.BatchReport{Id: b.ID, Reason: b.Reason, Detail: b.Detail, Nodes: b.Nodes}
}
