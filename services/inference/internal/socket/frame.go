package socket

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The opcodes of RFC 6455.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

const (
	// maxControl is the maximum size of the payload of a control frame, in bytes.
	maxControl = 125
	// maxHead is the maximum size of a frame's header, in bytes: 2, and 8 for the length, and 4 for the mask.
	maxHead = 14
)

// head is the parsed header of one frame. raw contains its bytes.
type head struct {
	fin    bool
	rsv    byte
	op     byte
	masked bool
	key    [4]byte
	length int64
	raw    []byte
}

func (h *head) control() bool { return h.op&0x8 != 0 }

// errLength means that a length is not encoded in the shortest way or does not fit into an int64.
var errLength = errors.New("the length of a frame is malformed")

// readHead reads the header of the next frame. It returns io.EOF if the connection ends between two frames.
func readHead(in *bufio.Reader) (*head, error) {
	h := &head{raw: make([]byte, 2, maxHead)}
	if n, err := io.ReadFull(in, h.raw); err != nil {
		if n == 0 {
			return nil, err
		}
		return nil, fmt.Errorf("read a frame: %w", err)
	}
	h.fin, h.rsv, h.op = h.raw[0]&0x80 != 0, h.raw[0]>>4&0x7, h.raw[0]&0xF
	h.masked, h.length = h.raw[1]&0x80 != 0, int64(h.raw[1]&0x7F)
	if err := h.readLength(in); err != nil {
		return nil, err
	}
	if !h.masked {
		return h, nil
	}
	key, err := h.more(in, len(h.key))
	copy(h.key[:], key)
	return h, err
}

func (h *head) readLength(in *bufio.Reader) error {
	least, size := int64(0), 0
	switch h.length {
	case 126:
		least, size = 126, 2
	case 127:
		least, size = 1<<16, 8
	default:
		return nil
	}
	digits, err := h.more(in, size)
	if err != nil {
		return err
	}
	var wide [8]byte
	copy(wide[8-size:], digits)
	length := binary.BigEndian.Uint64(wide[:])
	if length < uint64(least) || length>>63 != 0 {
		return errLength
	}
	h.length = int64(length)
	return nil
}

// more reads the next n bytes of the header.
func (h *head) more(in *bufio.Reader, n int) ([]byte, error) {
	at := len(h.raw)
	h.raw = h.raw[:at+n]
	if _, err := io.ReadFull(in, h.raw[at:]); err != nil {
		return nil, fmt.Errorf("read a frame: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return h.raw[at:], nil
}

// unmask returns the payload without its mask.
func (h *head) unmask(payload []byte) []byte {
	if !h.masked {
		return payload
	}
	out := make([]byte, len(payload))
	for i, b := range payload {
		out[i] = b ^ h.key[i%len(h.key)]
	}
	return out
}

// closeFrame returns a complete close frame. Frames to an engine must be masked, because the relay is the engine's
// client. The mask need not be secret, so it is all zeros.
func closeFrame(code uint16, why string, masked bool) []byte {
	payload := binary.BigEndian.AppendUint16(nil, code)
	payload = append(payload, why[:min(len(why), maxControl-2)]...)
	out := []byte{0x80 | opClose, byte(len(payload))}
	if masked {
		out[1] |= 0x80
		out = append(out, 0, 0, 0, 0)
	}
	return append(out, payload...)
}
