package wire

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// frame is one message, unread. It holds a reference to its buffers until it is sent on or freed.
type frame struct{ data mem.BufferSlice }

// kept is the message with a reference of its own.
func (f *frame) kept() frame {
	f.data.Ref()
	return frame{f.data}
}

func (f *frame) free() { f.data.Free() }

// codec passes messages on as the bytes they came as.
type codec struct{}

// Marshal hands the frame's reference to grpc, which frees it once sent.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("relay %T: no frame", v)
	}
	return f.data, nil
}

// Unmarshal keeps the message past the call, with a reference of its own.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("relay %T: no frame", v)
	}
	data.Ref()
	f.data = data
	return nil
}

// Name is the content type's suffix; the bytes are protobuf.
func (codec) Name() string { return "proto" }
