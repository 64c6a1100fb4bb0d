package rpc

import (
	"context"
	"errors"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// direct makes the unary calls of one client inside its process. A call does not use a connection, but everything else
// is the same: the message is encoded and decoded, only metadata reaches the server, and the server's interceptor
// checks the call. HTTP/2 over a pipe would cost several times as much as most handlers.
type direct struct {
	bus   *Bus
	key   string
	from  *peer.Peer
	clock clock.Clock
	stats []stats.Handler
}

// outcome is what a server returns to a direct call.
type outcome struct {
	raw             []byte
	header, trailer metadata.MD
	err             error
}

// invoke makes a call. It does nothing and returns false if the call must use the connection. This is the case if no
// server runs in this process, if the server is stopping or already serves as many calls as one connection allows, if
// direct calls do not support the options or the metadata of the call, or if grpc must report that the call is invalid.
func (d *direct) invoke(ctx context.Context, md metadata.MD, name string, in, out any, options []grpc.CallOption) (bool, error) {
	request, encodes := in.(proto.Message)
	response, decodes := out.(proto.Message)
	server := d.bus.server(d.key)
	if server == nil || !encodes || !decodes || !plainOptions(options) || !plainMetadata(md) {
		return false, nil
	}
	m, known := server.methods[name]
	raw, err := proto.Marshal(request)
	if !known || err != nil || len(raw) > MaxMessage || !server.calls.enter() {
		return false, nil //nolint:nilerr // grpc reports the message that cannot be encoded
	}
	begun := d.clock.Now()
	ctx = begin(ctx, d.stats, name, &stats.Begin{Client: true, BeginTime: begun})
	handle(ctx, d.stats, &stats.OutHeader{Client: true, FullMethod: name, RemoteAddr: d.from.LocalAddr})
	handle(ctx, d.stats, &stats.OutPayload{Client: true, Length: len(raw)})
	got := d.await(ctx, server, m, name, raw)
	if got.err == nil {
		handle(ctx, d.stats, &stats.InPayload{Client: true, Length: len(got.raw)})
		got.err = decoded(proto.Unmarshal(got.raw, response))
	}
	handle(ctx, d.stats, &stats.End{Client: true, BeginTime: begun, EndTime: d.clock.Now(), Error: got.err})
	deliver(options, got)
	return true, got.err
}

// await lets the server handle the call. It returns when the call has been handled, when ctx is done, or when the
// server aborts its calls. The handler may still be running then; the server waits for it.
func (d *direct) await(ctx context.Context, server *Server, m method, name string, raw []byte) outcome {
	served := make(chan outcome, 1)
	server.calls.start(func() {
		defer server.calls.leave()
		served <- server.direct(ctx, d.from, m, name, raw)
	})
	select {
	case got := <-served:
		return got
	case <-ctx.Done():
		return outcome{err: status.FromContextError(ctx.Err()).Err()}
	case <-server.abort.Done():
		return outcome{err: status.Error(codes.Unavailable, errAborted.Error())}
	}
}

var errAborted = errors.New("the server has stopped")

// direct handles a call of a client in this process.
//
//nolint:contextcheck // the context of a server has no values of its client's context
func (s *Server) direct(client context.Context, from *peer.Peer, m method, name string, raw []byte) outcome {
	md, _ := metadata.FromOutgoingContext(client)
	base, cancel := context.WithCancelCause(wireContext{client})
	defer cancel(nil)
	defer context.AfterFunc(s.abort, func() { cancel(errAborted) })()
	begun := s.options.Clock.Now()
	ctx := metadata.NewIncomingContext(peer.NewContext(base, from), md)
	ctx = begin(ctx, s.stats, name, &stats.Begin{BeginTime: begun})
	sent := &directStream{method: name}
	decode := func(into any) error {
		handle(ctx, s.stats, &stats.InPayload{Length: len(raw)})
		message, ok := into.(proto.Message)
		if !ok {
			return status.Errorf(codes.Internal, "the request of %s is not a message", name)
		}
		return decoded(proto.Unmarshal(raw, message))
	}
	reply, err := m.handle(m.impl, grpc.NewContextWithServerTransportStream(ctx, sent), decode, s.unary)
	got := outcome{err: err}
	if err == nil {
		got.raw, got.err = encoded(reply)
	}
	if got.err == nil {
		handle(ctx, s.stats, &stats.OutPayload{Length: len(got.raw)})
	}
	handle(ctx, s.stats, &stats.End{BeginTime: begun, EndTime: s.options.Clock.Now(), Error: got.err})
	got.header, got.trailer = sent.metadata()
	return got
}

func encoded(reply any) ([]byte, error) {
	message, ok := reply.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "the response is not a message, but %T", reply)
	}
	raw, err := proto.Marshal(message)
	switch {
	case err != nil:
		return nil, status.Errorf(codes.Internal, "encode the response: %v", err)
	case len(raw) > MaxMessage:
		return nil, status.Errorf(codes.ResourceExhausted, "the response has %d bytes; the maximum is %d", len(raw), MaxMessage)
	default:
		return raw, nil
	}
}

func decoded(err error) error {
	if err != nil {
		return status.Errorf(codes.Internal, "decode the message: %v", err)
	}
	return nil
}

// wireContext has the deadline and the cancellation of a client's context, but not its values: a server gets from its
// client only what a connection would carry.
type wireContext struct{ context.Context }

func (wireContext) Value(any) any { return nil }

// AfterFunc lets package context derive a context without a goroutine.
func (w wireContext) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(w.Context, f) }

// directStream collects the metadata of a response. It is a grpc.ServerTransportStream.
type directStream struct {
	method string

	mu              sync.Mutex
	header, trailer metadata.MD
	sent            bool
}

// Method implements grpc.ServerTransportStream.
func (s *directStream) Method() string { return s.method }

// SetHeader implements grpc.ServerTransportStream.
func (s *directStream) SetHeader(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent {
		return status.Error(codes.Internal, "the header has been sent")
	}
	s.header = metadata.Join(s.header, md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream.
func (s *directStream) SendHeader(md metadata.MD) error {
	if err := s.SetHeader(md); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = true
	return nil
}

// SetTrailer implements grpc.ServerTransportStream.
func (s *directStream) SetTrailer(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trailer = metadata.Join(s.trailer, md)
	return nil
}

// metadata returns the collected metadata and ends the stream. Later changes, for example by a goroutine that outlives
// its handler, have no effect.
func (s *directStream) metadata() (header, trailer metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = true
	return s.header, s.trailer
}

// plainOptions reports whether a direct call supports the options.
func plainOptions(options []grpc.CallOption) bool {
	for _, o := range options {
		switch o := o.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.StaticMethodCallOption:
		case grpc.MaxRecvMsgSizeCallOption:
			if o.MaxRecvMsgSize != MaxMessage {
				return false
			}
		case grpc.MaxSendMsgSizeCallOption:
			if o.MaxSendMsgSize != MaxMessage {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// plainMetadata reports whether a connection would carry the metadata unchanged.
func plainMetadata(md metadata.MD) bool {
	size := 0
	for key, values := range md {
		if key == "" || strings.HasPrefix(key, "grpc-") || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			return false
		}
		for _, value := range values {
			size += len(key) + len(value)
			if !strings.HasSuffix(key, "-bin") && !printable(value) {
				return false
			}
		}
	}
	return size <= maxHeaders/2 // leaves room for what the encoding adds to each value
}

// printable reports whether all bytes are printable ASCII. Every call has a caller token of about a kilobyte, so
// printable does not decode runes.
func printable(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return true
}

// deliver stores the metadata of a response where the options of the call request it.
func deliver(options []grpc.CallOption, got outcome) {
	for _, o := range options {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = got.header
		case grpc.TrailerCallOption:
			*o.TrailerAddr = got.trailer
		}
	}
}

func begin(ctx context.Context, handlers []stats.Handler, name string, event *stats.Begin) context.Context {
	for _, h := range handlers {
		ctx = h.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: name, FailFast: true})
	}
	handle(ctx, handlers, event)
	return ctx
}

func handle(ctx context.Context, handlers []stats.Handler, event stats.RPCStats) {
	for _, h := range handlers {
		h.HandleRPC(ctx, event)
	}
}
