package transfer

import (
	"context"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
)

// Replicas waits for the inference replicas. Settle waits briefly until the replicas have applied the current epoch.
// Await waits until every replica with a valid lease has applied the given epoch.
type Replicas interface {
	Settle(ctx context.Context) error
	Await(ctx context.Context, epoch int64) error
}

// Server implements OwnerPeerService.
type Server struct {
	commonpeerv1.UnimplementedOwnerPeerServiceServer

	Owners   *Owners
	Replicas Replicas
}

// CountOwned counts the objects that a user owns, by kind.
func (s *Server) CountOwned(ctx context.Context, in *commonpeerv1.CountOwnedRequest) (*commonpeerv1.OwnedCounts, error) {
	counts, err := count(ctx, s.Owners.Pool, in.GetUserId())
	if err != nil {
		return nil, err
	}
	return countsToProto(counts), nil
}

// TransferOwned transfers all objects of a user to another user.
func (s *Server) TransferOwned(ctx context.Context, in *commonpeerv1.TransferOwnedRequest) (*commonpeerv1.OwnedCounts, error) {
	moved, err := s.Owners.Transfer(ctx, in.GetUserId(), Person{ID: in.GetToUserId(), Name: in.GetToUsername()})
	if err != nil {
		return nil, err
	}
	return countsToProto(moved), s.Replicas.Settle(ctx)
}

func countsToProto(counts []Count) *commonpeerv1.OwnedCounts {
	out := &commonpeerv1.OwnedCounts{}
	for _, c := range counts {
		out.Counts = append(out.Counts, &commonpeerv1.OwnedCount{Kind: c.Kind, Count: int32(c.Count)})
	}
	return out
}
