package deployment

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// toProto is a deployment as it is shown.
func (s *Server) toProto(d *Deployment) *registryv1.Deployment {
	return &registryv1.Deployment{
		Id: d.ID, Name: d.Name, Project: d.Project, Owner: d.UserName, State: d.State,
		PromotedRevisionId: d.PromotedID, PromotedRevision: d.PromotedNumber, PreviousRevisionId: d.PreviousID,
		Url:       strings.TrimSuffix(s.PublicURL(), "/") + "/inference/" + d.ID + "/v1",
		CreatedAt: timestamppb.New(d.CreatedAt),
	}
}

func revisionToProto(r *Revision) *registryv1.Revision {
	out := &registryv1.Revision{
		Id: r.ID, DeploymentId: r.DeploymentID, Number: r.Number, State: string(r.State), Ready: r.State == Ready,
		Source:  &registryv1.RevisionSource{ModelId: r.Source.ModelID, Version: r.Source.Version},
		Serving: servingToProto(r.Serving), ServingDigest: r.ServingDigest, Replicas: replicasToProto(r),
		ProbeReport: r.Probes, CreatedAt: timestamppb.New(r.CreatedAt), ReadyAt: timeTo(r.ReadyAt),
	}
	if r.Reason != nil {
		out.Reason = &registryv1.RevisionReason{
			Phase: r.Reason.Phase, Code: r.Reason.Code, Message: r.Reason.Message, LogExcerpt: r.Reason.Log,
		}
	}
	for _, at := range r.PromotedAt {
		out.PromotedAt = append(out.PromotedAt, timestamppb.New(at))
	}
	return out
}

func replicasToProto(r *Revision) []*registryv1.Replica {
	if r.Engine.NodeID == "" {
		return nil
	}
	return []*registryv1.Replica{{
		Id: r.ReplicaID(), NodeId: r.Engine.NodeID, State: string(r.State), EnginePid: r.Engine.PID,
		StartedAt: timeTo(r.Engine.StartedAt), ReadyAt: timeTo(r.Engine.ReadyAt),
	}}
}

// ReplicaID names the present execution: another placement is another replica.
func (r *Revision) ReplicaID() string {
	var number [16]byte
	binary.BigEndian.PutUint64(number[:8], uint64(r.Generation))
	binary.BigEndian.PutUint64(number[8:], uint64(r.Engine.Fence))
	sum := sha256.Sum256(append([]byte(r.WorkID), number[:]...))
	return string(id.Replica) + "_" + strings.ToLower(ulid.ULID(sum[:16]).String())
}

func servingToProto(s Serving) *registryv1.Serving {
	return &registryv1.Serving{
		Engine: s.Engine, Args: s.Args, Command: s.Command, Requirements: s.Requirements, Pool: s.Pool, Gpus: s.GPUs,
	}
}

func servingFromProto(s *registryv1.Serving) Serving {
	return Serving{
		Engine: s.GetEngine(), Args: s.GetArgs(), Command: s.GetCommand(), Requirements: s.GetRequirements(),
		Pool: s.GetPool(), GPUs: s.GetGpus(),
	}
}

func tokenToProto(t *Token) *registryv1.DeploymentToken {
	return &registryv1.DeploymentToken{
		Id: t.ID, DeploymentId: t.DeploymentID, Name: t.Name, Prefix: t.Prefix,
		CreatedAt: timestamppb.New(t.CreatedAt), RevokedAt: timeTo(t.RevokedAt),
	}
}

func eventToProto(e event.Event) *commonv1.Event {
	return &commonv1.Event{
		Id: e.ID, Ts: timestamppb.New(e.At), Type: e.Type, ActorKind: e.ActorKind, ActorId: set(e.ActorID),
		From: set(e.From), To: set(e.To), Reason: set(e.Reason), Message: set(e.Message),
	}
}

// set is nil for what has no text.
func set(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timeTo(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
