package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

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

// lookAgain is how often a watch checks for news in case a wake-up was lost.
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
}

type watchStream = grpc.BidiStreamingServer[registrypeerv1.WatchRequest, registrypeerv1.WatchResponse]

// watch is the server side of one replica's stream.
type watch struct {
	*Server

	reader  reader
	stream  watchStream
	replica string
	// sent is the epoch of the last snapshot that was sent on this stream. The replica applies messages in order, so
	// everything that follows on the stream comes after that snapshot.
	sent int64
}

// Watch serves the stream of one replica until it ends.
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
	w := &watch{Server: s, reader: reader{pool: s.Pool, store: s.Store, revisions: s.Revisions}, stream: stream}
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

// Release gives back the leases of replicas. If the wake-up is lost, waiting revocations notice at their next check.
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

// take stores the epoch that the replica has applied and grants a renewal. If the replica lacks the snapshot that was
// current at the grant, the response contains that snapshot, so that a replica with a renewed lease never serves
// outdated state.
func (w *watch) take(ctx context.Context, in *registrypeerv1.WatchRequest) error {
	if id.Check(id.Replica, in.GetReplicaId()) != nil || (w.replica != "" && w.replica != in.GetReplicaId()) {
		return fault.New(fault.Refused, "replica", "a stream belongs to one replica; replica_id must be valid and must not change")
	}
	w.replica = in.GetReplicaId()
	if in.GetRenewal() == 0 {
		return w.Ledger.Ack(ctx, w.replica, in.GetAckedEpoch())
	}
	granted, err := w.Ledger.Renew(ctx, w.replica, in.GetAckedEpoch())
	if err != nil {
		return err
	}
	out := &registrypeerv1.WatchResponse{
		Epoch: w.sent, Renewed: in.GetRenewal(), Lease: durationpb.New(granted.Lease),
	}
	if granted.Epoch > w.sent {
		whole, err := w.reader.read(ctx)
		if err != nil {
			return err
		}
		out.Epoch, out.Snapshot = whole.epoch, whole.toProto()
	}
	return w.send(out)
}

// news sends a snapshot if there is a newer one. A replica gets nothing before its first request.
func (w *watch) news(ctx context.Context) error {
	if w.replica == "" {
		return nil
	}
	now, err := epoch.Current(ctx, w.Pool)
	if err != nil || now <= w.sent {
		return err
	}
	whole, err := w.reader.read(ctx)
	if err != nil {
		return err
	}
	return w.send(&registrypeerv1.WatchResponse{Epoch: whole.epoch, Snapshot: whole.toProto()})
}

func (w *watch) send(out *registrypeerv1.WatchResponse) error {
	if err := w.stream.Send(out); err != nil {
		return fmt.Errorf("send a snapshot: %w", err)
	}
	w.sent = out.GetEpoch()
	return nil
}
