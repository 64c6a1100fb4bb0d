package gateway

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway/internal/sse"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// gate applies the credential check and the limits of REST requests to gRPC calls.
type gate struct{ g *Gateway }

// Limit implements grpcproxy.Gate.
func (w gate) Limit(rt route.Route) time.Duration { return w.g.limitOf(rt) }

// Conn implements grpcproxy.Gate.
func (w gate) Conn(service string) grpc.ClientConnInterface { return w.g.conn(service) }

// Admit implements grpcproxy.Gate. As for a REST request, it has auth check the bearer token and sign the caller's
// identity. For a stream it also limits the streams per credential, repeats the check, and ends the stream when the
// gateway stops.
func (w gate) Admit(ctx context.Context, rt route.Route, header http.Header, peer string) (context.Context, func(), error) {
	ctx = obs.WithRequestID(ctx, w.g.deps.IDs.New(id.Request))
	if isLate(ctx) {
		return ctx, nil, draining()
	}
	r := &http.Request{Header: header, RemoteAddr: peer}
	ctx, claim, err := w.g.vouched(ctx, r, rt)
	if err != nil || rt.Kind != route.Stream {
		return ctx, func() {}, err
	}
	release, ok := w.g.limit.Take(claim.Credential)
	if !ok {
		return ctx, nil, tooManyStreams()
	}
	ctx, cut := context.WithCancelCause(ctx)
	again := w.g.checker.Recheck(ctx, claim)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.watch(ctx, cut, again)
	}()
	return ctx, func() { cut(nil); <-watched; release() }, nil
}

// watch ends a stream when the gateway stops or when the caller's access has changed since the stream was opened.
func (w gate) watch(ctx context.Context, cut context.CancelCauseFunc, check func(context.Context) error) {
	recheck := w.g.deps.Clock.NewTicker(sse.Recheck)
	defer recheck.Stop()
	for {
		select {
		case <-recheck.C():
			if err := sse.Revoked(ctx, check); err != nil {
				cut(err)
				return
			}
		case <-w.g.stop:
			cut(draining())
			return
		case <-ctx.Done():
			return
		}
	}
}
