package auditpeer

import (
	"context"

	"google.golang.org/grpc"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
)

// Client returns a client that calls the server directly, without a network.
func (s *Server) Client() commonpeerv1.AuditPeerServiceClient { return local{s} }

type local struct{ server *Server }

// ListAudit implements AuditPeerServiceClient.
func (l local) ListAudit(
	ctx context.Context, in *commonpeerv1.ListAuditRequest, _ ...grpc.CallOption,
) (*commonpeerv1.ListAuditResponse, error) {
	return l.server.ListAudit(ctx, in)
}

// VerifyAudit implements AuditPeerServiceClient.
func (l local) VerifyAudit(
	ctx context.Context, in *commonpeerv1.VerifyAuditRequest, _ ...grpc.CallOption,
) (*commonpeerv1.AuditChain, error) {
	return l.server.VerifyAudit(ctx, in)
}
