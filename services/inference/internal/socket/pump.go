package socket

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

const chunk = 16 << 10

// Count is the number of frames and bytes relayed in one direction.
type Count struct{ Frames, Bytes int64 }

// pump relays the frames of one direction.
type pump struct {
	in   *bufio.Reader
	out  net.Conn
	rule rule
	// alive is called whenever bytes arrive.
	alive func()
	// deadline returns the deadline of the next write.
	deadline func() time.Time
	// stopped is set when the session must end. After that, no write may start.
	stopped *atomic.Bool

	// closing is set when a close frame is about to be relayed.
	closing atomic.Bool

	count Count
	// within is true while a frame is partly relayed. Nothing else may be written then.
	within bool
	buf    []byte
}

// errWrite means that writing to the receiver failed. All other errors of a pump, except errStopped, come from the
// sender.
var errWrite = errors.New("write a frame")

// errStopped is the error of a pump whose session was stopped.
var errStopped = errors.New("stopped")

// run relays frames. It returns nil after a close frame, and an error if reading or writing fails or a frame
// violates the protocol.
func (p *pump) run() error {
	p.buf = make([]byte, chunk)
	for !p.rule.over {
		h, err := readHead(p.in)
		if err != nil {
			return err
		}
		if err := p.rule.head(h); err != nil {
			return err
		}
		p.alive()
		if err := p.frame(h); err != nil {
			return err
		}
		p.rule.over = h.op == opClose
		p.count.Frames++
		p.count.Bytes += int64(len(h.raw)) + h.length
	}
	return nil
}

// frame relays one frame as it arrives. A control frame is read completely first, because the payload of a close frame
// is checked.
func (p *pump) frame(h *head) error {
	if h.control() {
		whole := slices.Concat(h.raw, make([]byte, h.length))
		payload := whole[len(h.raw):]
		if _, err := io.ReadFull(p.in, payload); err != nil {
			return cut(err)
		}
		if h.op == opClose {
			if err := p.rule.closing(h.unmask(payload)); err != nil {
				return err
			}
			p.closing.Store(true)
		}
		return p.write(whole)
	}
	// Send the header together with the first bytes of the payload, which usually have arrived too.
	first := copy(p.buf, h.raw)
	n, err := p.some(p.buf[first:], h.length)
	if err != nil {
		return err
	}
	p.within = true
	if err := p.write(p.buf[:first+n]); err != nil {
		return err
	}
	for left := h.length - int64(n); left > 0; left -= int64(n) {
		if n, err = p.some(p.buf, left); err != nil {
			return err
		}
		if err := p.write(p.buf[:n]); err != nil {
			return err
		}
	}
	p.within = false
	return nil
}

// some reads the part of a payload that has arrived. It reads at most the given rest of the payload.
func (p *pump) some(buf []byte, left int64) (int, error) {
	if left == 0 {
		return 0, nil
	}
	n, err := p.in.Read(buf[:min(int64(len(buf)), left)])
	if n > 0 {
		p.alive()
		return n, nil
	}
	return 0, cut(err)
}

// cut wraps an error that occurred in the middle of a frame; io.EOF becomes io.ErrUnexpectedEOF.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read a frame: %w", err)
}

func (p *pump) write(b []byte) error {
	if err := p.out.SetWriteDeadline(p.deadline()); err != nil {
		return fmt.Errorf("%w: %w", errWrite, err)
	}
	// Check this after setting the deadline: if the session has ended, the new deadline has just overwritten the
	// expired one.
	if p.stopped.Load() {
		return errStopped
	}
	if _, err := p.out.Write(b); err != nil {
		p.within = true // a part may have been written
		return fmt.Errorf("%w: %w", errWrite, err)
	}
	return nil
}
