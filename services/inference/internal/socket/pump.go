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

// Count is what passed in one direction.
type Count struct{ Frames, Bytes int64 }

// pump passes the frames of one direction on.
type pump struct {
	in   *bufio.Reader
	out  net.Conn
	rule rule
	// alive notes that something passed.
	alive func()
	// deadline is until when a write may take.
	deadline func() time.Time
	// stopped is set when the session shall end; deadlines are not set anew then.
	stopped *atomic.Bool

	// closing says that a close frame is passed on, or was.
	closing atomic.Bool

	count Count
	// within says that a part of a frame was passed on, so that nothing else may be written.
	within bool
	buf    []byte
}

// errWrite is a side that takes nothing any more; other errors are of the side that is read.
var errWrite = errors.New("write")

// errStopped ends a pump that was asked to.
var errStopped = errors.New("stopped")

// run passes frames on until one is the close frame (nil), the side that is read ends or errs, or a frame is
// none.
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

// frame passes one frame on as it comes; a control frame only whole, for its payload is judged.
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
	// The head goes out with the first bytes of the payload, which mostly are there.
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

// some reads what is there of a payload of which so much is left.
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

// cut is an end within a frame.
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
	// After the deadline, so that the end of the session cannot slip in between.
	if p.stopped.Load() {
		return errStopped
	}
	if _, err := p.out.Write(b); err != nil {
		p.within = true // some of it may have gone
		return fmt.Errorf("%w: %w", errWrite, err)
	}
	return nil
}
