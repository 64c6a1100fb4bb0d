package auditview

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Server implements AuditService.
type Server struct {
	authv1.UnimplementedAuditServiceServer

	Trail *Trail
}

// ListAudit implements AuditService.
func (s *Server) ListAudit(ctx context.Context, in *authv1.ListAuditRequest) (*authv1.ListAuditResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	f := audit.Filter{
		Actor: in.GetActor(), Action: in.GetAction(), TargetKind: in.GetTargetKind(), TargetID: in.GetTargetId(),
		From: request.TimeOrZero(in.GetSince()), To: request.TimeOrZero(in.GetUntil()),
	}
	var after audit.Point
	if after.At, after.ID, err = request.ReadTimePosition(id.Audit, in.After); err != nil {
		return nil, err
	}
	rows, more, err := s.Trail.List(ctx, f, after, p)
	if err != nil {
		return nil, err
	}
	out := &authv1.ListAuditResponse{}
	for i := range rows {
		out.Rows = append(out.Rows, toProto(&rows[i]))
	}
	return out, request.SetNextAfter(ctx, more, rows, func(r *Row) string { return request.TimePosition(r.At, r.ID) })
}

// VerifyAudit implements AuditService.
func (s *Server) VerifyAudit(ctx context.Context, _ *authv1.VerifyAuditRequest) (*authv1.AuditReport, error) {
	chains, err := s.Trail.Verify(ctx)
	if err != nil {
		return nil, err
	}
	broken := slices.ContainsFunc(chains, func(c Chain) bool { return !c.OK })
	out := &authv1.AuditReport{Ok: !broken}
	for _, c := range chains {
		out.Chains = append(out.Chains, &authv1.AuditChain{
			Service: c.Service, Ok: c.OK, Rows: c.Rows, Checkpoints: c.Checkpoints, Fault: request.NonEmpty(c.Fault),
		})
	}
	return out, nil
}

func toProto(r *Row) *authv1.AuditRow {
	return &authv1.AuditRow{
		Id: r.ID, At: timestamppb.New(r.At), Service: r.Service, ActorKind: r.Actor.Kind, ActorId: request.NonEmpty(r.Actor.ID),
		ActorName: request.NonEmpty(r.Actor.Name), SessionId: request.NonEmpty(r.Actor.SessionID), ClientAddress: request.NonEmpty(r.Actor.ClientAddr), Action: r.Action,
		TargetKind: r.TargetKind, TargetId: r.TargetID, Before: r.Before, After: r.After, RequestId: request.NonEmpty(r.Actor.RequestID),
	}
}
