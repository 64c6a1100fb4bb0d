package revision

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// ToProto converts a revision for the API.
func ToProto(r *Revision) *registryv1.Revision {
	out := &registryv1.Revision{
		Id: r.ID, DeploymentId: r.DeploymentID, Number: r.Number, State: string(r.State), Ready: r.State == Ready,
		Source:  &registryv1.RevisionSource{ModelId: r.Source.ModelID, Version: r.Source.Version},
		Serving: servingToProto(r.Serving), ServingDigest: r.ServingDigest, Replicas: replicasToProto(r),
		ProbeReport: r.Probes, CreatedAt: timestamppb.New(r.CreatedAt), ReadyAt: request.OptionalTime(r.ReadyAt),
	}
	out.Reason = ReasonToProto(r.Reason)
	for _, at := range r.PromotedAt {
		out.PromotedAt = append(out.PromotedAt, timestamppb.New(at))
	}
	return out
}

// ReasonToProto converts a reason, which may be nil, for the API.
func ReasonToProto(r *Reason) *registryv1.RevisionReason {
	if r == nil {
		return nil
	}
	return &registryv1.RevisionReason{Phase: r.Phase, Code: r.Code, Message: r.Message, LogExcerpt: r.Log}
}

func replicasToProto(r *Revision) []*registryv1.Replica {
	if r.Engine.NodeID == "" {
		return nil
	}
	return []*registryv1.Replica{{
		Id: r.ReplicaID(), NodeId: r.Engine.NodeID, State: string(r.State), EnginePid: r.Engine.PID,
		StartedAt: request.OptionalTime(r.Engine.StartedAt), ReadyAt: request.OptionalTime(r.Engine.ReadyAt),
	}}
}

func servingToProto(s Serving) *registryv1.Serving {
	out := &registryv1.Serving{
		Engine: s.Engine, Args: s.Args, Command: s.Command, Requirements: s.Requirements, Pool: s.Pool, Gpus: s.GPUs,
	}
	if t := s.Timeouts; t != nil {
		out.Timeouts = &registryv1.ServingTimeouts{FirstByteS: nonZero(t.FirstByteS), IdleS: nonZero(t.IdleS)}
	}
	return out
}

// nonZero returns nil for 0.
func nonZero(n int32) *int32 {
	if n == 0 {
		return nil
	}
	return &n
}

// ServingFromProto returns the Serving in a request.
func ServingFromProto(s *registryv1.Serving) Serving {
	out := Serving{
		Engine: s.GetEngine(), Args: s.GetArgs(), Command: s.GetCommand(), Requirements: s.GetRequirements(),
		Pool: s.GetPool(), GPUs: s.GetGpus(),
	}
	if t := s.GetTimeouts(); t != nil {
		out.Timeouts = &Timeouts{FirstByteS: t.GetFirstByteS(), IdleS: t.GetIdleS()}
	}
	return out
}

// ReplicaToProto converts the current execution of the engine for the inference service.
func ReplicaToProto(r *Revision) *registrypeerv1.ServedReplica {
	out := &registrypeerv1.ServedReplica{
		Id: r.ReplicaID(), Address: r.Engine.Address, ApiKey: r.Engine.Key.Reveal(), NodeId: r.Engine.NodeID,
	}
	if t := r.Serving.Timeouts; t != nil {
		out.FirstByteS, out.IdleS = t.FirstByteS, t.IdleS
	}
	return out
}
