package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

// CodeDraining is the error code of a stream that ended because its server is stopping. The client may reopen it
// on another replica.
const CodeDraining = "draining"

// errDraining is the cancellation cause of a stream's context when its server is stopping.
var errDraining = errors.New("the server is stopping")

// call is the state of one call in the server.
type call struct {
	s       *Server
	ctx     context.Context
	method  string
	started time.Time
	panicAt []byte
}

func (s *Server) begin(ctx context.Context, method string) (context.Context, *call) {
	ctx = obs.WithRequestID(ctx, s.requestID(ctx))
	return ctx, &call{s: s, ctx: ctx, method: method, started: s.options.Clock.Now()}
}

// requestID returns the request id of the call if it is safe for logs and headers, else a new one.
func (s *Server) requestID(ctx context.Context) string {
	if v := metadata.ValueFromIncomingContext(ctx, metadataRequestID); len(v) == 1 && isValidID(v[0]) {
		return v[0]
	}
	return s.options.NewRequestID()
}

func isValidID(id string) bool {
	for _, r := range id {
		if r != '.' && r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return id != "" && len(id) <= 128
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	ctx, c := s.begin(ctx, info.FullMethod)
	defer func() { err = c.end(recover(), err) }()
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	ctx, err = s.admit(ctx, c.method)
	c.ctx = ctx
	if err != nil {
		return nil, err
	}
	if err = validate(req); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (s *Server) stream(srv any, raw grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	ctx, c := s.begin(raw.Context(), info.FullMethod)
	defer func() { err = c.end(recover(), err) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.drain, func() { cancel(errDraining) })()
	ctx, err = s.admit(ctx, c.method)
	c.ctx = ctx
	if err != nil {
		return err
	}
	return handle(srv, &serverStream{raw, ctx})
}

// serverStream has the context of the call and validates incoming messages. RecvMsg returns when the context is done,
// even while the server is draining.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) RecvMsg(m any) error {
	// grpc ends a receive only with the stream itself, which is too late for a draining server. The goroutine ends
	// with the stream at the latest, which is just after the handler has returned.
	got := make(chan error, 1)
	go func() { got <- s.ServerStream.RecvMsg(m) }()
	select {
	case err := <-got:
		if err != nil {
			return err
		}
		return validate(m)
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func validate(m any) error {
	if msg, ok := m.(proto.Message); ok {
		return Validate(msg)
	}
	return nil
}

// end converts the result of the call into a status and writes its log line.
func (c *call) end(panicked any, err error) error {
	if panicked != nil {
		c.panicAt = debug.Stack()
		err = fault.New(fault.Internal, "panic", "panic").Wrap(fmt.Errorf("%v", panicked))
	}
	f := c.judge(err)
	c.log(f, err)
	if f == nil {
		return nil
	}
	st := f.GRPCStatus()
	if st.Code() == codes.Unavailable {
		// SetTrailer fails only if the stream has ended; no client needs the trailer then.
		_ = grpc.SetTrailer(c.ctx, metadata.Pairs(pushback, "-1"))
	}
	return st.Err()
}

// judge converts an error into a fault. A fault is returned unchanged. Other errors are passed to Classify, and errors
// that Classify does not know become internal errors. A call that was canceled by the stop of the server gets the code
// CodeDraining.
func (c *call) judge(err error) *fault.Error {
	if err == nil {
		return nil
	}
	var own *fault.Error
	if !errors.As(err, &own) && c.s.options.Classify != nil {
		err = c.s.options.Classify(err)
	}
	f := fault.From(err)
	if f.Code == fault.CodeCanceled && errors.Is(context.Cause(c.ctx), errDraining) {
		return fault.New(fault.Unavailable, CodeDraining, "the server is stopping").Wrap(err)
	}
	return f
}

// log writes the log line of the call with the full error of the handler. Clients see only the fault.
func (c *call) log(f *fault.Error, err error) {
	if f == nil && !c.s.options.Log.Enabled(c.ctx, slog.LevelDebug) {
		return
	}
	took := clock.Since(c.s.options.Clock, c.started)
	attrs := []slog.Attr{
		slog.String("method", c.method), slog.String("peer", Peer(c.ctx)),
		slog.Float64("took_ms", float64(took.Microseconds())/1000),
	}
	if caller, ok := authn.FromContext(c.ctx); ok {
		attrs = append(attrs, slog.String("caller_kind", string(caller.Kind)), slog.String("caller", caller.Subject))
	}
	if f == nil {
		c.s.options.Log.LogAttrs(c.ctx, slog.LevelDebug, "rpc", attrs...)
		return
	}
	attrs = append(attrs, slog.String("kind", string(f.Kind)), slog.String("code", f.Code), slog.String("error", err.Error()))
	if c.panicAt != nil {
		attrs = append(attrs, slog.String("stack", string(c.panicAt)))
	}
	c.s.options.Log.LogAttrs(c.ctx, level(f), "rpc", attrs...)
}

func level(f *fault.Error) slog.Level {
	switch f.Kind {
	case fault.Internal:
		return slog.LevelError
	case fault.Dependency, fault.Unconfigured:
		return slog.LevelWarn
	case fault.Unavailable:
		if f.Code == fault.CodeCanceled || f.Code == fault.CodeMaintenance || f.Code == CodeDraining {
			return slog.LevelInfo
		}
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}
