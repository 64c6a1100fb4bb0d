// Package auditpeer serves a service's own part of the audit to auth, which merges the parts of all services. It
// returns rows in list order and the result of verifying the service's hash chain. It promises that the responses of
// all services have the same format and stay below the maximum message size.
package auditpeer

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Server implements AuditPeerService for one schema.
type Server struct {
	commonpeerv1.UnimplementedAuditPeerServiceServer

	Service string
	Pool    *pgxpool.Pool
	// Keys are the public keys that verify signed heads, by key ID: the current key and all earlier ones.
	Keys map[string]ed25519.PublicKey
	// Heads is the file, outside the database, that stores the signed heads.
	Heads *audit.File
	Clock clock.Clock
}

// sealedWithin is how long it may take until a row is sealed and its signed head is stored: the interval of the
// sealer plus the duration of the longest transaction that writes a row.
const sealedWithin = 2 * time.Minute

// maxRows limits the number of complete rows in a response, and maxStates the total size of their states in bytes.
// With both limits a response stays well below the maximum message size.
const (
	maxRows   = 1000
	maxStates = 2 << 20
)

// ListAudit implements AuditPeerService.
func (s *Server) ListAudit(ctx context.Context, in *commonpeerv1.ListAuditRequest) (*commonpeerv1.ListAuditResponse, error) {
	f := audit.Filter{
		Actor: in.GetActor(), Action: in.GetAction(), TargetKind: in.GetTargetKind(), TargetID: in.GetTargetId(),
		From: request.TimeOrZero(in.GetSince()), To: request.TimeOrZero(in.GetUntil()),
	}
	after := audit.Point{At: request.TimeOrZero(in.GetBeforeAt()), ID: in.GetBeforeId()}
	if in.GetKeys() {
		return s.points(ctx, f, after, int(in.GetLimit()))
	}
	if in.GetLimit() > maxRows {
		return nil, fault.InvalidFields(fault.At(fault.TypeLessThanEqual, fmt.Sprintf("Input should be at most %d unless the field keys is set", maxRows), "limit"))
	}
	rows, err := audit.After(ctx, s.Pool, f, after, int(in.GetLimit()))
	if err != nil {
		return nil, err
	}
	audit.Shorten(rows, maxStates)
	out := &commonpeerv1.ListAuditResponse{}
	for i := range rows {
		out.Rows = append(out.Rows, toProto(&rows[i]))
	}
	return out, nil
}

func (s *Server) points(ctx context.Context, f audit.Filter, after audit.Point, limit int) (*commonpeerv1.ListAuditResponse, error) {
	points, err := audit.Points(ctx, s.Pool, f, after, limit)
	if err != nil {
		return nil, err
	}
	out := &commonpeerv1.ListAuditResponse{}
	for _, p := range points {
		out.Rows = append(out.Rows, &commonpeerv1.AuditRow{Id: p.ID, At: timestamppb.New(p.At)})
	}
	return out, nil
}

// namedBreaks is the maximum number of breaks of the hash chain that a response describes individually.
const namedBreaks = 20

// VerifyAudit implements AuditPeerService.
func (s *Server) VerifyAudit(ctx context.Context, _ *commonpeerv1.VerifyAuditRequest) (*commonpeerv1.AuditChain, error) {
	// Read the clock and the stored heads before the database: a head that is stored after the database was read
	// would look as if the end of the log had been cut off.
	due := s.Clock.Now().Add(-sealedWithin)
	outside, err := s.Heads.Checkpoints()
	if err != nil {
		return nil, fmt.Errorf("read the signed audit heads of %s: %w", s.Service, err)
	}
	report, err := audit.Verify(ctx, s.Pool, audit.Trust{
		Service: s.Service, Keys: s.Keys, Outside: outside, Due: due,
	})
	if err != nil {
		return nil, fmt.Errorf("verify the audit log of %s: %w", s.Service, err)
	}
	return &commonpeerv1.AuditChain{
		Ok: report.Broken() == nil, Rows: report.Sealed, Checkpoints: int64(report.Heads), Fault: words(report),
	}, nil
}

// words describes all breaks in one text, which is empty if there are none.
func words(r audit.Report) string {
	named := r.Breaks[:min(len(r.Breaks), namedBreaks)]
	all := make([]string, 0, len(named)+1)
	for _, b := range named {
		all = append(all, b.String())
	}
	if more := len(r.Breaks) + r.More - len(named); more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

func toProto(r *audit.Row) *commonpeerv1.AuditRow {
	return &commonpeerv1.AuditRow{
		Id: r.ID, At: timestamppb.New(r.At), ActorKind: r.Actor.Kind, ActorId: request.NonEmpty(r.Actor.ID), ActorName: request.NonEmpty(r.Actor.Name),
		SessionId: request.NonEmpty(r.Actor.SessionID), ClientAddress: request.NonEmpty(r.Actor.ClientAddr), Action: r.Action, TargetKind: r.TargetKind,
		TargetId: r.TargetID, Before: r.Before, After: r.After, RequestId: request.NonEmpty(r.Actor.RequestID),
	}
}
