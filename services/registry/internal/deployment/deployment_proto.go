package deployment

import (
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// toProto converts a deployment for the API.
func (s *Server) toProto(d *Deployment) *registryv1.Deployment {
	out := &registryv1.Deployment{
		Id: d.ID, Name: d.Name, Project: d.Project, Owner: d.UserName, State: d.State,
		PromotedRevisionId: d.PromotedID, PromotedRevision: d.PromotedNumber, PreviousRevisionId: d.PreviousID,
		Url:       strings.TrimSuffix(s.PublicURL(), "/") + "/inference/" + d.ID + "/v1",
		CreatedAt: timestamppb.New(d.CreatedAt), Description: d.Description, PendingRevision: d.PendingNumber, SuspendMode: d.SuspendMode,
	}
	ready, why := d.readiness()
	out.Ready, out.Reason = ready, revision.ReasonToProto(why)
	out.SuspendedAt = request.OptionalTime(d.SuspendedAt)
	return out
}

func eventToProto(e event.Event) *commonv1.Event {
	return &commonv1.Event{
		Id: e.ID, Seq: e.Seq, Ts: timestamppb.New(e.At), Type: e.Type, ActorKind: e.ActorKind, ActorId: request.NonEmpty(e.ActorID),
		From: request.NonEmpty(e.From), To: request.NonEmpty(e.To), Reason: request.NonEmpty(e.Reason), Message: request.NonEmpty(e.Message),
	}
}
