package auditview

import (
	"context"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Peer reads the audit of a service through its AuditPeerService.
type Peer struct {
	Client commonpeerv1.AuditPeerServiceClient
}

// Points implements Source.
func (p Peer) Points(ctx context.Context, f audit.Filter, after audit.Point, limit int) ([]audit.Point, error) {
	in := listRequest(f, after, limit)
	in.Keys = true
	out, err := p.Client.ListAudit(ctx, in)
	if err != nil {
		return nil, err
	}
	points := make([]audit.Point, len(out.GetRows()))
	for i, r := range out.GetRows() {
		points[i] = audit.Point{At: r.GetAt().AsTime(), ID: r.GetId()}
	}
	return points, nil
}

// Rows implements Source.
func (p Peer) Rows(ctx context.Context, f audit.Filter, after audit.Point, limit int) ([]audit.Row, error) {
	out, err := p.Client.ListAudit(ctx, listRequest(f, after, limit))
	if err != nil {
		return nil, err
	}
	rows := make([]audit.Row, len(out.GetRows()))
	for i, r := range out.GetRows() {
		rows[i] = audit.Row{
			ID: r.GetId(), At: r.GetAt().AsTime(), Action: r.GetAction(), TargetKind: r.GetTargetKind(), TargetID: r.GetTargetId(),
			Before: r.GetBefore(), After: r.GetAfter(),
			Actor: audit.Actor{
				Kind: r.GetActorKind(), ID: r.GetActorId(), Name: r.GetActorName(), SessionID: r.GetSessionId(),
				ClientAddr: r.GetClientAddress(), RequestID: r.GetRequestId(),
			},
		}
	}
	return rows, nil
}

// Verify implements Source.
func (p Peer) Verify(ctx context.Context) (Chain, error) {
	c, err := p.Client.VerifyAudit(ctx, &commonpeerv1.VerifyAuditRequest{})
	if err != nil {
		return Chain{}, err
	}
	return Chain{OK: c.GetOk(), Rows: c.GetRows(), Checkpoints: c.GetCheckpoints(), Fault: c.GetFault()}, nil
}

func listRequest(f audit.Filter, after audit.Point, limit int) *commonpeerv1.ListAuditRequest {
	return &commonpeerv1.ListAuditRequest{
		Limit: int32(limit), BeforeAt: request.NonZeroTime(after.At), BeforeId: after.ID, Actor: f.Actor, Action: f.Action,
		TargetKind: f.TargetKind, TargetId: f.TargetID, Since: request.NonZeroTime(f.From), Until: request.NonZeroTime(f.To),
	}
}
