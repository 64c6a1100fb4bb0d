package deployment

import (
	"context"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/emptypb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/idempotency"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deploytoken"
)

// CreateDeploymentToken creates a token. Only this response contains its secret: a repeat with the same Idempotency-Key
// returns the token without the secret.
func (s *Server) CreateDeploymentToken(ctx context.Context, in *registryv1.CreateDeploymentTokenRequest) (*registryv1.DeploymentToken, error) {
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	out := &registryv1.DeploymentToken{}
	var text secret.String
	err = s.Once.Do(ctx, registryv1.DeploymentService_CreateDeploymentToken_FullMethodName, in, out, func(ctx context.Context, tx pgx.Tx) error {
		t, minted, err := s.Changer.Mint(ctx, tx, s.IDs, s.Rand, d.ID, in.GetName())
		if err != nil {
			return err
		}
		text = minted
		idempotency.Set(out, deploytoken.ToProto(t))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !text.IsZero() {
		shown := text.Reveal()
		out.Token = &shown
	}
	return out, s.Replicas.Settle(ctx)
}

// ListDeploymentTokens returns the tokens of a deployment without their secrets, newest first.
func (s *Server) ListDeploymentTokens(
	ctx context.Context, in *registryv1.ListDeploymentTokensRequest,
) (*registryv1.ListDeploymentTokensResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	d, err := s.get(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	found, err := s.Tokens.List(ctx, s.Pool, d.ID, p)
	if err != nil {
		return nil, err
	}
	found, more := request.CutPage(found, p)
	out := &registryv1.ListDeploymentTokensResponse{}
	for _, t := range found {
		out.Tokens = append(out.Tokens, deploytoken.ToProto(t))
	}
	return out, request.SetMore(ctx, more)
}

// RevokeDeploymentToken revokes a token. It returns when no replica of inference that may still serve accepts the
// token. A repeated call waits again.
func (s *Server) RevokeDeploymentToken(ctx context.Context, in *registryv1.RevokeDeploymentTokenRequest) (*emptypb.Empty, error) {
	if err := request.ID(id.TokenRow, "token_id", in.GetTokenId()); err != nil {
		return nil, err
	}
	d, err := s.editable(ctx, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	from, err := s.Changer.Revoke(ctx, d.ID, in.GetTokenId())
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, s.Replicas.Await(ctx, from)
}
