package grpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// NewStream implements grpc.ClientConnInterface. The relay of gRPC clients sends one frame and receives one.
func (s *Search) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &searchStream{ctx: ctx, search: s, method: method}, nil
}

// searchStream is one call of Search by the relay. The call is made when the response is received.
type searchStream struct {
	ctx    context.Context //nolint:containedctx // a grpc.ClientStream returns the context of its call
	search *Search
	method string
	in     *searchv1.SearchRequest
}

// SendMsg implements grpc.ClientStream. Like grpc, it frees the frame.
func (c *searchStream) SendMsg(m any) error {
	f, ok := m.(*frame)
	if !ok {
		return fmt.Errorf("relay %T: not a frame", m)
	}
	defer f.free()
	c.in = &searchv1.SearchRequest{}
	if err := proto.Unmarshal(f.data.Materialize(), c.in); err != nil {
		return fault.New(fault.Refused, "", "the request message is malformed")
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (c *searchStream) RecvMsg(m any) error {
	f, ok := m.(*frame)
	if !ok {
		return fmt.Errorf("relay %T: not a frame", m)
	}
	if c.in == nil {
		return io.EOF
	}
	out := &searchv1.SearchResponse{}
	err := c.search.Invoke(c.ctx, c.method, c.in, out)
	c.in = nil
	if err != nil {
		return err
	}
	raw, err := proto.Marshal(out)
	if err != nil {
		return fmt.Errorf("encode the results of a search: %w", err)
	}
	f.data = mem.BufferSlice{mem.SliceBuffer(raw)}
	return nil
}

// Header implements grpc.ClientStream.
func (*searchStream) Header() (metadata.MD, error) { return nil, errors.New("a search has no header") }

// Trailer implements grpc.ClientStream.
func (*searchStream) Trailer() metadata.MD { return nil }

// CloseSend implements grpc.ClientStream.
func (*searchStream) CloseSend() error { return nil }

// Context implements grpc.ClientStream.
func (c *searchStream) Context() context.Context { return c.ctx }
