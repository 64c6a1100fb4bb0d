package key

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Server implements KeyService.
type Server struct {
	authv1.UnimplementedKeyServiceServer

	Rotation *Rotation
}

// ListKeys implements KeyService.
func (s *Server) ListKeys(ctx context.Context, in *authv1.ListKeysRequest) (*authv1.ListKeysResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	list, more, err := s.Rotation.List(ctx, "", p)
	if err != nil {
		return nil, err
	}
	return &authv1.ListKeysResponse{Keys: toProto(list)}, request.SetMore(ctx, more)
}

// RotateKey implements KeyService.
func (s *Server) RotateKey(ctx context.Context, in *authv1.RotateKeyRequest) (*authv1.RotateKeyResponse, error) {
	purpose := Access
	if in.GetPurpose() == authv1.KeyPurpose_KEY_PURPOSE_CALLER {
		purpose = Caller
	}
	if err := s.Rotation.Rotate(ctx, purpose, in.GetRevoke()); err != nil {
		return nil, err
	}
	list, _, err := s.Rotation.List(ctx, purpose, request.Page{Limit: request.DefaultLimit})
	if err != nil {
		return nil, err
	}
	return &authv1.RotateKeyResponse{Keys: toProto(list)}, nil
}

func toProto(list []WithState) []*authv1.SigningKey {
	out := make([]*authv1.SigningKey, 0, len(list))
	for i := range list {
		k := &list[i]
		purpose := authv1.KeyPurpose_KEY_PURPOSE_ACCESS
		if k.Purpose == Caller {
			purpose = authv1.KeyPurpose_KEY_PURPOSE_CALLER
		}
		out = append(out, &authv1.SigningKey{
			Kid: k.ID, Purpose: purpose, State: string(k.State), CreatedAt: timestamppb.New(k.CreatedAt), SignsAt: timestamppb.New(k.SignsAt),
			VerifiesUntil: request.OptionalTime(k.VerifiesUntil), RevokedAt: request.OptionalTime(k.RevokedAt),
		})
	}
	return out
}
