package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

func fleetToProto(f *Fleet) *jobsv1.Fleet {
	return &jobsv1.Fleet{
		Id: f.ID, Name: f.Name, Kind: kindToProto(f.Kind), State: f.State, Pools: f.Pools,
		Nodes: n32(f.Nodes), GpusTotal: n32(f.GPUs), GpusFree: n32(f.GPUsFree), CreatedAt: timestamppb.New(f.CreatedAt),
		GpusUnhealthy: n32(f.GPUsUnhealthy), LastSeenAt: request.OptionalTime(f.LastSeenAt), Slurm: slurmToProto(f.Slurm),
	}
}

// NodeToProto converts a node to its API message, whose state is DisplayState.
func NodeToProto(n *Node) *jobsv1.Node {
	m := &jobsv1.Node{
		Id: n.ID, FleetId: n.FleetID, Name: n.Name, State: n.DisplayState(), Pools: n.Pools, Gpus: n32(n.GPUs),
		GpusFree: n32(n.GPUsFree), Cpus: n32(n.CPUs), MemoryBytes: n.MemoryBytes, Limits: n.Limits, Version: n.Version,
		JoinedAt: timestamppb.New(n.JoinedAt), LastSeenAt: request.OptionalTime(n.LastSeenAt), Works: n32(n.Works),
		Pythons: Pythons(n.Runtimes), BuildsEnvironments: slices.Contains(n.Runtimes, RuntimeRequirements),
	}
	if n.Boundary != nil {
		m.Boundary = boundaryToProto(n.Boundary)
	}
	if n.HoldReason != "" {
		m.Reason = &n.HoldReason
	}
	if mode := DrainModeToProto(n.DrainMode); mode != jobsv1.DrainMode_DRAIN_MODE_UNSPECIFIED {
		m.Drain = &jobsv1.Drain{Mode: mode, Deadline: request.OptionalTime(n.DrainDeadline)}
	}
	return m
}

func boundaryToProto(b *Boundary) *jobsv1.NodeBoundary {
	return &jobsv1.NodeBoundary{
		Kind: b.Kind, Required: b.Required, Users: optional(b.Users), Namespaces: b.Namespaces, Problem: optional(b.Problem),
		Unlimited: b.Unlimited, NetworkProblem: optional(b.NetworkProblem), ClosesNetwork: b.ClosesNetwork,
		Network: cmp.Or(b.Network, boundaryUnknown), Reasons: b.Reasons,
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// BoundaryFromProto converts the report of a node. If it is nil, the result has the kind unknown.
func BoundaryFromProto(m *jobsv1.NodeBoundary) Boundary {
	b := Boundary{
		Kind: m.GetKind(), Required: m.GetRequired(), Users: m.GetUsers(), Namespaces: append([]string{}, m.GetNamespaces()...),
		Problem: m.GetProblem(), Unlimited: append([]string{}, m.GetUnlimited()...), NetworkProblem: m.GetNetworkProblem(),
		ClosesNetwork: m.GetClosesNetwork(), Network: m.GetNetwork(), Reasons: m.GetReasons(),
	}
	if b.Kind == "" {
		b.Kind, b.Required, b.Problem = boundaryUnknown, true, "the agent does not report how it isolates work; upgrade the agent"
	}
	return b
}

// DrainModeToProto converts a drain mode; an empty one becomes UNSPECIFIED.
func DrainModeToProto(mode string) jobsv1.DrainMode {
	return jobsv1.DrainMode(jobsv1.DrainMode_value["DRAIN_MODE_"+strings.ToUpper(mode)])
}

// tokenToProto converts a join token, without its secret.
func tokenToProto(t *JoinToken, now time.Time) *jobsv1.JoinToken {
	return &jobsv1.JoinToken{
		Id: t.ID, FleetId: t.FleetID, ExpiresAt: timestamppb.New(t.ExpiresAt), MaxUses: n32(t.MaxUses), Uses: n32(t.Uses),
		CreatedAt: timestamppb.New(t.CreatedAt), RevokedAt: request.OptionalTime(t.RevokedAt), Usable: t.Usable(now),
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

func n32(n int) int32 { return int32(n) }
