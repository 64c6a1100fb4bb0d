package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// Times and sizes of every stream.
const (
	Heartbeat    = 15 * time.Second
	Recheck      = 5 * time.Second
	WriteTimeout = 15 * time.Second
	Backlog      = 16

	// opening is how long a service may take to accept the stream. No response is written before the service has
	// accepted it, because a response would reveal to an unauthorized caller that the stream exists.
	opening   = 10 * time.Second
	batchSize = 32 << 10

	codeDraining = "draining" // the error code of a gateway or service that is shutting down
	checkTime    = 3 * time.Second
)

// Stream serves one server-streaming RPC as Server-Sent Events.
type Stream struct {
	method string
	in     protoreflect.MessageType
	out    protoreflect.MessageType
	form   form
	codec  *restjson.Codec
	clk    clock.Clock
	conn   grpc.ClientConnInterface
}

// New prepares a stream; the Go types of its messages must be linked into the binary.
func New(md protoreflect.MethodDescriptor, conn grpc.ClientConnInterface, codec *restjson.Codec, clk clock.Clock) (*Stream, error) {
	s := &Stream{method: "/" + string(md.Parent().FullName()) + "/" + string(md.Name()), codec: codec, clk: clk, conn: conn}
	var err error
	if s.in, err = protoregistry.GlobalTypes.FindMessageByName(md.Input().FullName()); err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.method, err)
	}
	if s.out, err = protoregistry.GlobalTypes.FindMessageByName(md.Output().FullName()); err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.method, err)
	}
	if s.form, err = formOf(md.Output()); err != nil {
		return nil, err
	}
	return s, nil
}

// Request returns an empty request message of the RPC.
func (s *Stream) Request() proto.Message { return s.in.New().Interface() }

// Run opens the RPC with the given request and writes its events until the RPC ends, the client leaves or stop is
// closed. It returns an error only if nothing has been written yet, so that its caller can write a plain error
// response. Run calls the function check repeatedly to verify that the client may still read.
func (s *Stream) Run(w http.ResponseWriter, r *http.Request, in proto.Message, stop <-chan struct{}, check func(context.Context) error) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	src, err := s.open(ctx, in)
	if err != nil {
		return err
	}
	defer func() {
		cancel()
		src.drain()
	}()
	first, err := s.first(ctx, src, stop)
	if err != nil {
		return err
	}
	out := newSink(w, cursor(in))
	defer out.release()
	out.begin()
	if first != nil {
		out.add(*first)
	}
	s.relay(ctx, src, out, stop, watch{requestID: obs.RequestID(r.Context()), check: check, call: middleware.CallOf(r.Context())})
	return nil
}

// first waits until the service has accepted the stream, by its first event or its header.
func (s *Stream) first(ctx context.Context, src *source, stop <-chan struct{}) (*event, error) {
	timer := s.clk.NewTimer(opening)
	defer timer.Stop()
	select {
	case e, ok := <-src.events:
		if !ok && !errors.Is(src.err, io.EOF) {
			return nil, src.err
		}
		if !ok {
			return nil, nil
		}
		return &e, nil
	case <-src.opened:
		return nil, nil
	case <-timer.C():
		return nil, fault.New(fault.Unavailable, fault.CodeDeadline, "the stream was not opened in time")
	case <-stop:
		return nil, fault.New(fault.Unavailable, codeDraining, "the server is shutting down")
	case <-ctx.Done():
		return nil, fault.FromContext(ctx.Err())
	}
}

// watch contains the request id of a stream and what is needed to check its caller and to write its errors.
type watch struct {
	requestID string
	check     func(context.Context) error
	call      *middleware.Call // nil outside the gateway
}

// placed returns the error that a plain request would return for err.
func (w watch) placed(err error) *fault.Error {
	if w.call == nil {
		return fault.From(err)
	}
	return middleware.WithLocations(w.call, err)
}

func (s *Stream) relay(ctx context.Context, src *source, out *sink, stop <-chan struct{}, beside watch) {
	beat, recheck := s.clk.NewTicker(Heartbeat), s.clk.NewTicker(Recheck)
	defer beat.Stop()
	defer recheck.Stop()
	for !out.ended() {
		if out.flush() != nil {
			return
		}
		select {
		case e, ok := <-src.events:
			if !ok {
				s.finish(ctx, src.err, out, beside)
				return
			}
			out.add(e)
			src.more(out)
		case <-beat.C():
			out.comment()
		case <-recheck.C():
			if err := Revoked(ctx, beside.check); err != nil {
				s.finish(ctx, err, out, beside)
				return
			}
		case <-stop:
			out.reconnect()
			_ = out.flush()
			return
		case <-ctx.Done():
			return
		}
	}
	_ = out.flush()
}

// Revoked returns the reason why a stream must end: the credential is refused, the caller's access has changed, or
// maintenance has begun. It returns nil if auth is unreachable, because the check is soon repeated.
func Revoked(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	err := check(ctx)
	if fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.Forbidden) || fault.HasCode(err, bearer.CodeAccessChanged) ||
		fault.HasCode(err, fault.CodeMaintenance) {
		return err
	}
	return nil
}

// finish writes the last event of a complete stream if the service does not send it itself. If the RPC failed or auth
// refuses the caller, finish writes an error event. If the service is unavailable, the client has left or the caller's
// access has changed, it writes no event; the client then reconnects and continues if it is still allowed to.
func (s *Stream) finish(ctx context.Context, err error, out *sink, beside watch) {
	f := beside.placed(err)
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, io.EOF):
		if s.form.oneof == nil {
			out.add(closing(out.seq))
		}
	case f.Code == codeDraining:
		out.reconnect()
	case f.Kind == fault.Unavailable:
		return
	default:
		out.fail(f, beside.requestID)
	}
	_ = out.flush()
}
