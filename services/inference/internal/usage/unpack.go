package usage

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime/debug"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

const (
	// maxWindow is the largest window of brotli and zstd, in bytes: what a decompressor keeps in memory.
	maxWindow = 4 << 20
	// maxUnpacked is the size up to which a body is decompressed, in bytes. In addition, at most maxRatio bytes are
	// decompressed for each compressed byte, after the first freeUnpacked.
	maxUnpacked  = 64 << 20
	maxRatio     = 64
	freeUnpacked = 1 << 20
	unpackChunk  = 16 << 10
)

// encodingOf returns the Content-Encoding of a body in lower case, or "" if it has none.
func encodingOf(h httprelay.Header) string {
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ",")))
	if encoding == "identity" {
		return ""
	}
	return encoding
}

var (
	errClosed  = errors.New("the reading has ended")
	errUnknown = errors.New("unknown encoding, or too large a window")
)

// unpacker decompresses a body part by part. The decompressor runs as a coroutine, which rests until the next part
// arrives. It therefore needs no lock, and has ended when close returns.
type unpacker struct {
	encoding string
	to       func([]byte)
	defect   func(error)
	out      io.Reader // the decompressor; nil before the first part
	in       []byte    // the part that is not read yet
	packed   int64
	over     bool // no part follows
	next     func() (struct{}, bool)
	stop     func()
	yield    func(struct{}) bool
}

// take decompresses the next part.
func (u *unpacker) take(p []byte) {
	if u.over {
		return
	}
	if u.next == nil {
		u.next, u.stop = iter.Pull(u.run)
	}
	u.in, u.packed = p, u.packed+int64(len(p))
	if _, more := u.next(); !more {
		u.close()
	}
	u.in = nil
}

// close decompresses what is left at the end of the body.
func (u *unpacker) close() {
	if u.over = true; u.next == nil {
		return
	}
	u.next()
	u.stop()
	u.next = nil
}

// Read implements io.Reader for the decompressor. It waits for the next part of the body.
func (u *unpacker) Read(p []byte) (int, error) {
	for len(u.in) == 0 {
		if u.over {
			return 0, io.EOF
		}
		if !u.yield(struct{}{}) {
			return 0, errClosed
		}
	}
	n := copy(p, u.in)
	u.in = u.in[n:]
	return n, nil
}

// run decompresses the body until its end, an error or a limit.
func (u *unpacker) run(yield func(struct{}) bool) {
	u.yield = yield
	buf, unpacked := make([]byte, unpackChunk), int64(0)
	for more := true; more && unpacked < min(maxUnpacked, freeUnpacked+maxRatio*u.packed); {
		var n int
		n, more = u.decompress(buf)
		unpacked += int64(n)
		u.to(buf[:n])
	}
}

// decompress reads the next bytes of the decompressed body. It reports whether more may follow: not after an error or
// the end, and not after a panic of the decompressor, whose defect must not end the call.
func (u *unpacker) decompress(buf []byte) (n int, more bool) {
	defer func() {
		if v := recover(); v != nil {
			n, more = 0, false
			u.defect(fmt.Errorf("decompress a body with the encoding %q: panic: %v\n%s", u.encoding, v, debug.Stack()))
		}
	}()
	var err error
	if u.out == nil {
		if u.out, err = open(u.encoding, bufio.NewReader(u)); err != nil {
			return 0, false
		}
	}
	n, err = u.out.Read(buf)
	return n, err == nil
}

// open returns a decompressor for the encoding. It needs no closing: that of zstd has no goroutines with a concurrency
// of 1.
func open(encoding string, in *bufio.Reader) (io.Reader, error) {
	switch encoding {
	case "gzip", "x-gzip":
		return gzip.NewReader(in)
	case "deflate":
		if head, err := in.Peek(2); err != nil || head[0]&0xf == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			return zlib.NewReader(in)
		}
		return flate.NewReader(in), nil // some programs leave out the head of zlib
	case "br":
		if head, err := in.Peek(1); err != nil || brotliWindow(head[0]) > maxWindow {
			return nil, errUnknown
		}
		return brotli.NewReader(in), nil
	case "zstd":
		return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	}
	return nil, errUnknown
}

// brotliWindow returns the size of the window that the first byte of a brotli stream states (RFC 7932, section 9.1).
func brotliWindow(first byte) int {
	bits := 16
	switch middle, high := first>>1&7, first>>4&7; {
	case first&1 == 0:
	case middle != 0:
		bits = 17 + int(middle)
	case high == 1: // invalid, or a large window
		bits = 30
	case high != 0:
		bits = 8 + int(high)
	default:
		bits = 17
	}
	return 1 << bits
}
