package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

const (
	// GatewayLease is how long a gateway may use cached callers after auth has granted a renewal.
	GatewayLease = 5 * time.Second
	// drift bounds how far the clocks of a gateway and of Postgres may diverge during a lease: by 1/drift of the lease.
	drift = 1000
	// lookAgain is the interval at which the database is read in case a wake-up was lost.
	lookAgain = time.Second
)

// Gateways knows which gateways may use cached callers and which changes they have applied. A gateway caches callers
// only while it has a lease. A change of a session, an account, a membership, a key or the maintenance mode raises the
// epoch in its own transaction, by a trigger. The change is in force everywhere once each gateway has dropped its cache
// and acknowledged the epoch, or has no lease any more.
type Gateways struct {
	Pool  *pgxpool.Pool
	Hub   *pg.NotifyHub
	Clock clock.Clock

	settled atomic.Int64 // the highest epoch that is known to be in force everywhere
}

// Settle returns once all committed changes are in force at every gateway. It waits for an unreachable gateway until
// its lease expires. The calls that make changes therefore return after Settle.
func (g *Gateways) Settle(ctx context.Context) error {
	epoch, err := currentEpoch(ctx, g.Pool)
	if err != nil || epoch <= g.settled.Load() {
		return err
	}
	acked := g.Hub.Wait(acksTopic)
	defer acked.Close()
	for {
		wait, err := behind(ctx, g.Pool, epoch)
		if err != nil {
			return err
		}
		if wait <= 0 {
			break
		}
		timer := g.Clock.NewTimer(min(lookAgain, wait))
		select {
		case <-acked.C:
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return fault.FromContext(ctx.Err())
		}
		timer.Stop()
	}
	for known := g.settled.Load(); known < epoch && !g.settled.CompareAndSwap(known, epoch); {
		known = g.settled.Load()
	}
	return nil
}

// Sweep deletes the gateways whose leases have expired.
func (g *Gateways) Sweep(ctx context.Context) error { return forgetGateways(ctx, g.Pool) }

type callerStream = grpc.BidiStreamingServer[authpeerv1.WatchCallersRequest, authpeerv1.WatchCallersResponse]

// callerWatch is the server side of one gateway's stream.
type callerWatch struct {
	*Gateways

	stream  callerStream
	gateway string
	sent    int64 // the last epoch that was sent
	acked   int64 // the highest epoch that the gateway has acknowledged on this stream
}

// WatchCallers implements CredentialService. It serves one gateway until the stream ends.
func (s *PeerServer) WatchCallers(stream callerStream) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	changed := s.Gateways.Hub.Wait(callersTopic)
	defer changed.Close()
	requests, broken := make(chan *authpeerv1.WatchCallersRequest), make(chan error, 1)
	// gRPC ends Recv when this handler returns, so the goroutine ends shortly afterwards.
	go func() { broken <- receive(ctx, stream, requests) }()
	w := &callerWatch{Gateways: s.Gateways, stream: stream}
	for {
		var err error
		select {
		case in := <-requests:
			err = w.take(ctx, in)
		case <-changed.C:
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

func receive(ctx context.Context, stream callerStream, out chan<- *authpeerv1.WatchCallersRequest) error {
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

// take stores what the gateway has applied and grants a renewal. The response to a renewal contains the epoch that was
// current after the lease was stored: a later change sees the lease and waits for the gateway.
func (w *callerWatch) take(ctx context.Context, in *authpeerv1.WatchCallersRequest) error {
	if id.Check(id.Replica, in.GetGatewayId()) != nil || (w.gateway != "" && w.gateway != in.GetGatewayId()) {
		return fault.New(fault.Refused, "replica", "a stream belongs to one gateway; gateway_id must be valid and must not change")
	}
	w.gateway = in.GetGatewayId()
	if in.GetLeaving() {
		return forgetGateway(ctx, w.Pool, w.gateway)
	}
	news := in.GetAckedEpoch() > w.acked
	if err := storeGateway(ctx, w.Pool, in, news); err != nil {
		return err
	}
	w.acked = max(w.acked, in.GetAckedEpoch())
	if in.GetRenewal() == 0 {
		return nil
	}
	epoch, err := currentEpoch(ctx, w.Pool)
	if err != nil {
		return err
	}
	return w.send(&authpeerv1.WatchCallersResponse{
		Epoch: epoch, Renewed: in.GetRenewal(), Lease: durationpb.New(GatewayLease - GatewayLease/drift),
	})
}

// news sends the epoch if it has increased. A gateway gets nothing before its first request.
func (w *callerWatch) news(ctx context.Context) error {
	if w.gateway == "" {
		return nil
	}
	epoch, err := currentEpoch(ctx, w.Pool)
	if err != nil || epoch == w.sent {
		return err
	}
	return w.send(&authpeerv1.WatchCallersResponse{Epoch: epoch})
}

func (w *callerWatch) send(out *authpeerv1.WatchCallersResponse) error {
	if err := w.stream.Send(out); err != nil {
		return fmt.Errorf("send the epoch of callers: %w", err)
	}
	w.sent = out.GetEpoch()
	return nil
}
