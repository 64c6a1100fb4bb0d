package playground

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func toProto(s *Session, targets []*revision.Revision) *registryv1.PlaygroundSession {
	out := &registryv1.PlaygroundSession{
		Id: s.ID, Title: s.Title, Project: s.Project, Owner: s.UserName, State: s.standing(targets),
		CreatedAt: timestamppb.New(s.CreatedAt), ExpiresAt: timestamppb.New(s.ExpiresAt), IdleTimeoutS: int32(s.Idle.Seconds()),
		LastActivityAt: timestamppb.New(s.LastActivity),
	}
	if s.Reason != "" {
		out.Reason = &s.Reason
	}
	out.EndedAt = request.OptionalTime(s.EndedAt)
	for _, r := range targets {
		shown := revision.ToProto(r)
		out.Targets = append(out.Targets, &registryv1.PlaygroundTarget{
			Target: r.Number, Source: shown.GetSource(), Serving: shown.GetServing(), State: shown.GetState(), Reason: shown.GetReason(),
		})
	}
	return out
}
