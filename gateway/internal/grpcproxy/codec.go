package grpcproxy

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// frame is one undecoded message. It holds a reference to its buffers until it is forwarded or freed.
type frame struct{ data mem.BufferSlice }

// kept returns the message with its own reference to the buffers.
func (f *frame) kept() frame {
	f.data.Ref()
	return frame{f.data}
}

func (f *frame) free() { f.data.Free() }

// codec passes the bytes of messages through unchanged.
type codec struct{}

// Marshal passes the frame's reference to grpc, which frees it after sending.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("relay %T: not a frame", v)
	}
	return f.data, nil
}

// Unmarshal takes its own reference, so that the message stays valid after the call.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("relay %T: not a frame", v)
	}
	data.Ref()
	f.data = data
	return nil
}

// Name returns the suffix of the content type; the bytes are protobuf.
func (codec) Name() string { return "proto" }
