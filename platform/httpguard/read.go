package httpguard

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"

	"github.com/signalbox-dev/signalbox/platform/enginepath"
	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// malformed replaces a rejected head. net/http responds to it with 400 and closes the connection.
const malformed = "-\r\n\r\n"

// headSize is how much of a head is read at once. net/http reads the beginning of a connection in small pieces, to see
// whether the client speaks HTTP/2. It also reads a single byte while a handler runs, to see whether the client has
// left; that read may last long and needs no buffer.
const headSize = 4 << 10

// checkedReader reads the requests of a connection. It delivers a head only when the head is complete and has been
// checked. It finds the end of each body, so that it knows where the next head begins.
type checkedReader struct {
	held []byte // bytes that were read but not delivered
	// unscanned is true if held was read without looking for what may be delivered.
	unscanned bool
	ready     int   // number of bytes of held that may be delivered
	checked   int   // number of bytes of the current head whose lines have been checked
	heads     int   // 0 before the first head, then 1
	left      int64 // bytes left of the current body, if it has a length
	chunked   *httprelay.Chunks
	opaque    bool // all further bytes are delivered unchecked
	broken    bool // the current body is malformed

	// sending reports whether the client is still sending: the end of the current body has not arrived, or the end of
	// the request is unknown because it is malformed.
	sending  atomic.Bool
	reason   atomic.Pointer[string] // why a head was rejected
	engine   atomic.Bool            // the last head is that of a request to an engine
	replaced bool                   // malformed has been delivered instead of the head
}

// read reads from a connection. handedOver is true if the connection was hijacked; all further bytes are then delivered
// unchecked.
func (r *checkedReader) read(from net.Conn, p []byte, handedOver bool) (int, error) {
	for len(p) > 0 {
		if handedOver || r.opaque {
			r.ready = len(r.held)
		}
		if r.unscanned {
			r.unscanned = false
			r.ready = r.scan(r.held)
			r.held = r.held[:r.kept(r.ready, len(r.held))]
			continue
		}
		switch {
		case r.ready > 0:
			n := copy(p, r.held[:r.ready])
			r.held, r.ready = r.held[n:], r.ready-n
			if len(r.held) == 0 {
				r.held = nil
			}
			return n, nil
		case handedOver || r.opaque:
			return from.Read(p) //nolint:wrapcheck // net/http inspects it
		case r.broken, r.replaced:
			return 0, io.ErrUnexpectedEOF
		case r.reason.Load() != nil:
			r.held, r.ready, r.replaced = []byte(malformed), len(malformed), true
			continue
		}
		buf := p
		if small := len(p) < headSize && r.left == 0 && r.chunked == nil; small && (len(p) > 1 || len(r.held) > 0) {
			buf = make([]byte, headSize)
		}
		n, err := from.Read(buf)
		if len(r.held) == 0 && len(buf) == len(p) {
			used := r.scan(p[:n])
			r.held = append(r.held, p[used:r.kept(used, n)]...)
			if used > 0 {
				return used, nil // an error is returned by the next read
			}
		} else {
			r.held = append(r.held, buf[:n]...)
			r.ready = r.scan(r.held)
			r.held = r.held[:r.kept(r.ready, len(r.held))]
		}
		if errors.Is(err, io.EOF) && len(r.held) > 0 && !r.broken {
			r.opaque = true // net/http rejects the incomplete head
			continue
		}
		if err != nil && r.ready == 0 && r.reason.Load() == nil {
			return 0, err //nolint:wrapcheck // net/http inspects it
		}
	}
	return 0, nil
}

// between reports whether the next byte is that of a head, and no part of this head has been delivered.
func (r *checkedReader) between() bool {
	return r.ready == 0 && r.left == 0 && r.chunked == nil && !r.opaque && !r.broken && !r.replaced && r.reason.Load() == nil
}

// grow makes room for more bytes in held.
func (r *checkedReader) grow() {
	if len(r.held) == cap(r.held) {
		r.held = slices.Grow(r.held, headSize)
	}
}

// keep replaces what is held by the given bytes, which may be a part of it.
func (r *checkedReader) keep(rest, more []byte) {
	if len(more) > 0 || len(rest) == 0 && cap(r.held) > headSize {
		r.held = slices.Concat(rest, more) // an idle connection holds no large buffer
	} else {
		r.held = append(r.held[:0], rest...)
	}
	r.checked, r.unscanned = 0, len(r.held) > 0
}

// kept returns how many of the n bytes read are kept. The parameter used is how many may be delivered. Bytes after a
// malformed request are dropped.
func (r *checkedReader) kept(used, n int) int {
	if r.broken || r.reason.Load() != nil {
		return used
	}
	return n
}

// scan returns how many bytes at the beginning of b may be delivered: everything but an incomplete head. b begins with the
// first byte that scan did not count in its last call.
func (r *checkedReader) scan(b []byte) (used int) {
	defer func() {
		r.sending.Store(!r.opaque && (r.left > 0 || r.chunked != nil || r.broken || r.reason.Load() != nil))
	}()
	for used < len(b) && !r.broken && r.reason.Load() == nil {
		rest := b[used:]
		switch {
		case r.opaque:
			return len(b)
		case r.chunked != nil:
			n, done, ok := advance(r.chunked, rest)
			if used += n; done {
				r.chunked = nil
			}
			r.broken = !ok
		case r.left > 0:
			n := min(r.left, int64(len(rest)))
			r.left -= n
			used += int(n)
		default:
			n := r.head(rest)
			if n == 0 {
				return used
			}
			used += n
		}
	}
	return used
}

// forEngine reports whether a head, which may be incomplete, is that of a request to an engine.
func forEngine(head []byte) bool {
	_, target, _ := bytes.Cut(head[:min(len(head), headSize)], []byte(" "))
	if end := bytes.IndexAny(target, " ?\r\n"); end >= 0 {
		target = target[:end]
	}
	return enginepath.ForEngine(string(target))
}

// head returns the length of the head at the beginning of b, or 0 if it is incomplete or rejected.
func (r *checkedReader) head(b []byte) int {
	end, checked, reason := headEnd(b, r.checked)
	r.checked = checked
	r.engine.Store(forEngine(b))
	if len(b)-end > maxHead && end == 0 || end > maxHead {
		reason = reasonSize
	}
	var f framing
	if reason == "" && end > 0 {
		f, reason = parse(b[:end], r.heads == 0)
	}
	if reason != "" {
		r.reason.Store(&reason)
		return 0
	}
	if end == 0 {
		return 0
	}
	r.checked, r.heads, r.left, r.opaque = 0, 1, f.length, f.opaque
	if f.chunked {
		r.chunked = &httprelay.Chunks{}
	}
	return end
}

// pass takes further bytes of a request that nothing reads any longer, and reports whether the request has ended.
func (r *checkedReader) pass(b []byte) (ended bool) {
	r.scan(b)
	return !r.sending.Load()
}
