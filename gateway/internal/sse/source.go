package sse

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// source reads the RPC's stream in a goroutine, which ends with the RPC or the stream's context. drain waits for the
// goroutine.
type source struct {
	events chan event    // closed at the end
	opened chan struct{} // closed when the service has sent its header
	err    error         // why events was closed; io.EOF for a clean end
}

func (s *Stream) open(ctx context.Context, in proto.Message) (*source, error) {
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, s.method)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(in); err != nil {
		return nil, fmt.Errorf("send the request of %s: %w", s.method, err)
	}
	if err := stream.CloseSend(); err != nil {
		return nil, fmt.Errorf("send the request of %s: %w", s.method, err)
	}
	src := &source{events: make(chan event, Backlog), opened: make(chan struct{})}
	go func() {
		defer close(src.events)
		src.err = s.pump(ctx, stream, src)
	}()
	return src, nil
}

func (s *Stream) pump(ctx context.Context, stream grpc.ClientStream, src *source) error {
	// If there is neither a header nor an error, the RPC has ended, and the next read returns its error or io.EOF.
	if md, err := stream.Header(); err == nil && md != nil {
		close(src.opened)
	}
	for {
		m := s.out.New()
		if err := stream.RecvMsg(m.Interface()); err != nil {
			return err
		}
		e, err := s.form.event(s.codec, m)
		if err != nil {
			return err
		}
		select {
		case src.events <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// more adds the events that are already waiting, so that they are written together.
func (src *source) more(out *sink) {
	for out.room() {
		select {
		case e, ok := <-src.events:
			if !ok {
				return
			}
			out.add(e)
		default:
			return
		}
	}
}

// drain waits for the goroutine, whose context has ended.
func (src *source) drain() {
	for range src.events {
	}
}
