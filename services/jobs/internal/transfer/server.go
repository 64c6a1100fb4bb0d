package transfer

import (
	"context"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
)

// Server implements OwnerPeerService.
type Server struct {
	commonpeerv1.UnimplementedOwnerPeerServiceServer

	Owners *Owners
}

// CountOwned counts a user's jobs and runs.
func (s *Server) CountOwned(ctx context.Context, in *commonpeerv1.CountOwnedRequest) (*commonpeerv1.OwnedCounts, error) {
	c, err := count(ctx, s.Owners.Pool, in.GetUserId())
	if err != nil {
		return nil, err
	}
	return countsToProto(c), nil
}

// TransferOwned transfers a user's jobs and runs to another user.
func (s *Server) TransferOwned(ctx context.Context, in *commonpeerv1.TransferOwnedRequest) (*commonpeerv1.OwnedCounts, error) {
	moved, err := s.Owners.Transfer(ctx, in.GetUserId(), Person{ID: in.GetToUserId(), Name: in.GetToUsername()})
	if err != nil {
		return nil, err
	}
	return countsToProto(moved), nil
}

func countsToProto(c Counts) *commonpeerv1.OwnedCounts {
	return &commonpeerv1.OwnedCounts{Counts: []*commonpeerv1.OwnedCount{
		{Kind: kindJob, Count: int32(c.Jobs)}, {Kind: kindRun, Count: int32(c.Runs)},
	}}
}
