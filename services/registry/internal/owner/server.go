package owner

import (
	"context"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
)

// Replicas are those of inference: Settle waits a moment until they know what was granted, Await until all have
// what was changed in force.
type Replicas interface {
	Settle(ctx context.Context) error
	Await(ctx context.Context, epoch int64) error
}

// Server answers OwnerPeerService.
type Server struct {
	commonpeerv1.UnimplementedOwnerPeerServiceServer

	Owners   *Owners
	Replicas Replicas
}

// CountOwned counts what a person owns, by kind.
func (s *Server) CountOwned(ctx context.Context, in *commonpeerv1.CountOwnedRequest) (*commonpeerv1.OwnedCounts, error) {
	counts, err := count(ctx, s.Owners.Pool, in.GetUserId())
	if err != nil {
		return nil, err
	}
	return countsToProto(counts), nil
}

// TransferOwned gives them to another person.
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
