package snapshot

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// lookAgain is how often a watch checks for changes in case a wake-up was lost.
const lookAgain = time.Second

// Server implements SnapshotService.
type Server struct {
	registrypeerv1.UnimplementedSnapshotServiceServer

	Pool      *pgxpool.Pool
	Store     *deployment.Store
	Revisions *revision.Store
	Ledger    *epoch.Ledger
	Hub       *pg.NotifyHub
	Clock     clock.Clock
	Metrics   *Metrics
	// Changer replaces engines that hang.
	Changer EngineReplacer
}

// EngineReplacer replaces an engine if it is the current one. deployment.Changer implements it.
type EngineReplacer interface {
	ReplaceEngine(ctx context.Context, hung deployment.Hung) (replaced bool, err error)
}

// Watch serves the stream of one replica until the stream ends.
func (s *Server) Watch(stream watchStream) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	changed := s.Hub.Wait(db.SnapshotTopic)
	defer changed.Close()
	again := s.Clock.NewTicker(lookAgain)
	defer again.Stop()
	requests := make(chan *registrypeerv1.WatchRequest)
	broken := make(chan error, 1)
	// gRPC ends Recv when this handler returns, so the goroutine ends shortly afterwards.
	go func() { broken <- receive(ctx, stream, requests) }()
	w := s.watch(stream)
	for {
		var err error
		select {
		case in := <-requests:
			err = w.take(ctx, in)
		case <-changed.C:
			err = w.news(ctx)
		case <-again.C():
			err = w.news(ctx)
		case err = <-broken:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// Release gives back the leases of replicas. If the wake-up is lost, a revocation that waits notices the release at its
// next check.
func (s *Server) Release(ctx context.Context, in *registrypeerv1.ReleaseRequest) (*registrypeerv1.ReleaseResponse, error) {
	for _, replica := range in.GetReplicaIds() {
		if id.Check(id.Replica, replica) != nil {
			return nil, fault.New(fault.Refused, "replica", "replica_ids must contain valid replica IDs")
		}
	}
	if err := s.Ledger.Release(ctx, in.GetReplicaIds()); err != nil {
		return nil, err
	}
	return &registrypeerv1.ReleaseResponse{}, nil
}

// ReplaceEngine implements SnapshotService.
func (s *Server) ReplaceEngine(
	ctx context.Context, in *registrypeerv1.ReplaceEngineRequest,
) (*registrypeerv1.ReplaceEngineResponse, error) {
	replaced, err := s.Changer.ReplaceEngine(ctx, deployment.Hung{
		RevisionID: in.GetRevisionId(), ReplicaID: in.GetReplicaId(), Address: in.GetAddress(), Silent: in.GetSilent().AsDuration(),
	})
	if err != nil {
		return nil, err
	}
	return &registrypeerv1.ReplaceEngineResponse{Replaced: replaced}, nil
}

// GetDeploymentOwner implements SnapshotService.
func (s *Server) GetDeploymentOwner(
	ctx context.Context, in *registrypeerv1.GetDeploymentOwnerRequest,
) (*registrypeerv1.DeploymentOwner, error) {
	o, err := s.Store.OwnerOf(ctx, s.Pool, in.GetDeploymentId())
	if err != nil {
		return nil, err
	}
	return &registrypeerv1.DeploymentOwner{OwnerId: o.UserID, ProjectId: o.ProjectID, Visibility: o.Visibility}, nil
}

func receive(ctx context.Context, stream watchStream, out chan<- *registrypeerv1.WatchRequest) error {
	for {
		in, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case out <- in:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
