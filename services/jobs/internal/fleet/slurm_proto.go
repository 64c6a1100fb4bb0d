package fleet

import (
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// SlurmPoolToProto converts how the jobs of a pool run on Slurm. The zero value becomes nil.
func SlurmPoolToProto(p SlurmPool) *jobsv1.SlurmPool {
	if !p.Set() {
		return nil
	}
	return &jobsv1.SlurmPool{Partition: p.Partition, Account: p.Account, Qos: p.QOS, User: p.User, Folder: p.Folder}
}

// SlurmPoolFromProto converts how the jobs of a pool run on Slurm. Nil becomes the zero value.
func SlurmPoolFromProto(m *jobsv1.SlurmPool) SlurmPool {
	return SlurmPool{Partition: m.GetPartition(), Account: m.GetAccount(), QOS: m.GetQos(), User: m.GetUser(), Folder: m.GetFolder()}
}

// RunsOnFromProto converts what an agent runs works on. An agent that does not state it runs works on its host.
func RunsOnFromProto(kind jobsv1.FleetKind) string { return kindFromProto(kind) }

// SlurmFromProto converts the report of an agent; nil stays nil. Two entries with the same name are refused.
func SlurmFromProto(m *jobsv1.SlurmReport) (*SlurmReport, error) {
	if m == nil {
		return nil, nil //nolint:nilnil // nil means that the agent reports nothing
	}
	r := &SlurmReport{Version: storable(m.GetVersion()), Problem: storable(m.GetProblem()), Partitions: []SlurmPartition{}, Pools: []SlurmTest{}}
	names := map[string]bool{}
	for _, p := range m.GetPartitions() {
		if names[p.GetName()] {
			return nil, fault.New(fault.Refused, "slurm_report", "the report of the Slurm cluster contains the partition %q twice", p.GetName())
		}
		names[p.GetName()] = true
		r.Partitions = append(r.Partitions, partitionFromProto(p))
	}
	tested := map[string]bool{}
	for _, t := range m.GetPools() {
		if tested[t.GetPool()] {
			return nil, fault.New(fault.Refused, "slurm_report", "the report of the Slurm cluster contains the pool %q twice", t.GetPool())
		}
		tested[t.GetPool()] = true
		r.Pools = append(r.Pools, SlurmTest{
			Pool: storable(t.GetPool()), Slurm: SlurmPoolFromProto(t.GetSlurm()), Isolation: storable(t.GetIsolation()),
			Problem: storable(t.GetProblem()), ClosesNetwork: t.GetClosesNetwork(), TestedAt: request.StorableTime(t.GetTestedAt()),
		})
	}
	return r, nil
}

// storable removes NUL, which jsonb cannot store.
func storable(s string) string { return strings.ReplaceAll(s, "\x00", "") }

// partitionFromProto converts a partition. Negative numbers become 0.
func partitionFromProto(p *jobsv1.SlurmPartition) SlurmPartition {
	return SlurmPartition{
		Name: storable(p.GetName()), State: storable(p.GetState()), Nodes: count(p.GetNodes()), NodesIdle: count(p.GetNodesIdle()),
		NodesDown: count(p.GetNodesDown()), GPUs: count(p.GetGpusTotal()), GPUsUsed: count(p.GetGpusUsed()), CPUsPerNode: count(p.GetCpusPerNode()),
		MemoryPerNode: max(0, p.GetMemoryBytesPerNode()), GPUsPerNode: count(p.GetGpusPerNode()), JobsWaiting: count(p.GetJobsWaiting()),
		MaxTimeS: max(0, p.GetMaxTimeS()),
	}
}

func count(n int32) int { return int(max(0, n)) }

func slurmToProto(r *SlurmReport) *jobsv1.SlurmReport {
	if r == nil {
		return nil
	}
	m := &jobsv1.SlurmReport{Version: r.Version, Problem: optional(r.Problem)}
	for _, p := range r.Partitions {
		m.Partitions = append(m.Partitions, &jobsv1.SlurmPartition{
			Name: p.Name, State: p.State, Nodes: n32(p.Nodes), NodesIdle: n32(p.NodesIdle), NodesDown: n32(p.NodesDown), GpusTotal: n32(p.GPUs),
			GpusUsed: n32(p.GPUsUsed), CpusPerNode: n32(p.CPUsPerNode), MemoryBytesPerNode: p.MemoryPerNode, GpusPerNode: n32(p.GPUsPerNode),
			JobsWaiting: n32(p.JobsWaiting), MaxTimeS: p.MaxTimeS,
		})
	}
	for _, t := range r.Pools {
		tested := &jobsv1.SlurmPoolReport{
			Pool: t.Pool, Slurm: SlurmPoolToProto(t.Slurm), Isolation: t.Isolation, Problem: optional(t.Problem), ClosesNetwork: t.ClosesNetwork,
		}
		if t.TestedAt != nil {
			tested.TestedAt = timestamppb.New(*t.TestedAt)
		}
		m.Pools = append(m.Pools, tested)
	}
	return m
}
