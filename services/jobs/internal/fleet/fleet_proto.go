package fleet

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

func fleetToProto(f *Fleet) *jobsv1.Fleet {
	return &jobsv1.Fleet{
		Id: f.ID, Name: f.Name, Kind: kindToProto(f.Kind), State: f.State, Pools: f.Pools,
		Nodes: n32(f.Nodes), GpusTotal: n32(f.GPUs), GpusFree: n32(f.GPUsFree), CreatedAt: timestamppb.New(f.CreatedAt),
	}
}

func nodeToProto(n *Node) *jobsv1.Node {
	return &jobsv1.Node{
		Id: n.ID, FleetId: n.FleetID, Name: n.Name, State: n.State, Pools: n.Pools, Gpus: n32(n.GPUs),
		GpusFree: n32(n.GPUsFree), Cpus: n32(n.CPUs), MemoryBytes: n.MemoryBytes, Limits: n.Limits, Version: n.Version,
		JoinedAt: timestamppb.New(n.JoinedAt), LastSeenAt: timeTo(n.LastSeenAt),
	}
}

func inventoryFromProto(i *jobsv1.Inventory) Inventory {
	return Inventory{
		CPUs: int(i.GetCpus()), MemoryBytes: i.GetMemoryBytes(), GPUs: int(i.GetGpus()),
		Limits: i.GetLimits(), Version: i.GetVersion(),
	}
}

func kindToProto(kind string) jobsv1.FleetKind {
	switch kind {
	case KindAgent:
		return jobsv1.FleetKind_FLEET_KIND_AGENT
	case KindKubernetes:
		return jobsv1.FleetKind_FLEET_KIND_KUBERNETES
	case KindSlurm:
		return jobsv1.FleetKind_FLEET_KIND_SLURM
	}
	return jobsv1.FleetKind_FLEET_KIND_UNSPECIFIED
}

func kindFromProto(kind jobsv1.FleetKind) string {
	switch kind {
	case jobsv1.FleetKind_FLEET_KIND_KUBERNETES:
		return KindKubernetes
	case jobsv1.FleetKind_FLEET_KIND_SLURM:
		return KindSlurm
	case jobsv1.FleetKind_FLEET_KIND_AGENT, jobsv1.FleetKind_FLEET_KIND_UNSPECIFIED:
	}
	return KindAgent
}

func timeTo(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

func n32(n int) int32 { return int32(n) }
