package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The codes of the close frames that the relay sends itself.
const (
	codeGoing    = 1001
	codeProtocol = 1002
	codeTooBig   = 1009
	codeGateway  = 1014
)

// violation is the error of a frame that must not be relayed.
type violation struct {
	code uint16
	why  string
}

func (v *violation) Error() string { return v.why }

func wrong(format string, args ...any) error {
	return &violation{code: codeProtocol, why: fmt.Sprintf(format, args...)}
}

// rule checks the frames of one direction, in order.
type rule struct {
	// masked is true for frames of the caller, which must be masked. It is false for frames of the engine, which must
	// not be masked.
	masked bool
	// extended means that both sides agreed on an extension, which may use the reserved bits.
	extended bool
	// most is the maximum size of a message over all its frames, in bytes.
	most int64

	open bool // the last frame of the current message has not arrived
	size int64
	over bool // a close frame was relayed
}

// head checks the header of a frame.
func (r *rule) head(h *head) error {
	switch {
	case h.masked != r.masked:
		return wrong("frames of the client must be masked, and frames of the server must not be masked")
	case h.rsv != 0 && !r.extended:
		return wrong("reserved bits are set without an extension")
	case h.control():
		return r.control(h)
	case h.op > opBinary:
		return wrong("opcode %d is reserved", h.op)
	case (h.op == opContinuation) != r.open:
		return wrong("unexpected continuation frame, or a new message before the end of the last one")
	}
	if !r.open {
		r.size = 0
	}
	if r.open = !h.fin; h.length > r.most-r.size {
		return &violation{code: codeTooBig, why: fmt.Sprintf("a message is larger than %d bytes", r.most)}
	}
	r.size += h.length
	return nil
}

func (r *rule) control(h *head) error {
	switch {
	case h.op > opPong:
		return wrong("opcode %d is reserved", h.op)
	case !h.fin || h.length > maxControl:
		return wrong("a control frame is fragmented or larger than %d bytes", maxControl)
	case h.op == opClose && h.length == 1:
		return wrong("the code of a close frame is incomplete")
	}
	return nil
}

// closing checks the payload of a close frame, unless an extension may have changed it.
func (r *rule) closing(payload []byte) error {
	if len(payload) == 0 || r.extended {
		return nil
	}
	if !utf8.Valid(payload[2:]) {
		return &violation{code: codeProtocol, why: "the reason of a close frame is not valid UTF-8"}
	}
	switch code := binary.BigEndian.Uint16(payload); {
	case code >= 3000 && code <= 4999, code >= 1000 && code <= 1003, code >= 1007 && code <= 1014:
		return nil
	default:
		return wrong("close code %d is not allowed", code)
	}
}

// violated returns err as a violation, or nil if it is not one.
func violated(err error) *violation {
	if v, ok := errors.AsType[*violation](err); ok {
		return v
	}
	if errors.Is(err, errLength) {
		return &violation{code: codeProtocol, why: errLength.Error()}
	}
	return nil
}
