package httprelay

import (
	"bytes"
	"strconv"
	"strings"
)

// maxLine is the maximum length of a line that states the size of a chunk, and of a line of the trailer. maxTrailer is the
// maximum length of the whole trailer.
const (
	maxLine    = 4 << 10
	maxTrailer = 8 << 10
)

// Chunks reads a body that is sent in chunks (RFC 9112, section 7.1), part by part. The zero value is before the first
// chunk. Every line must end in CRLF. Extensions of chunks are ignored.
type Chunks struct {
	line      []byte // the beginning of a line whose end has not arrived yet
	left      int64  // bytes of data that are left of the current chunk
	afterData bool   // the CRLF after the data of a chunk follows
	inTrailer bool
	trailer   []byte
}

// Next reads bytes at the beginning of b. It returns those that are data of the body, which are a part of b, and how many
// bytes of b it has read. It must be called again with the rest of b, unless the body has ended, which done reports. The
// result ok is false if the body is malformed.
func (c *Chunks) Next(b []byte) (data []byte, n int, done, ok bool) {
	for n < len(b) {
		if c.left > 0 {
			size := int(min(c.left, int64(len(b)-n)))
			c.left -= int64(size)
			c.afterData = c.left == 0
			return b[n : n+size], n + size, false, true
		}
		end := bytes.IndexByte(b[n:], '\n')
		if end < 0 {
			c.line = append(c.line, b[n:]...)
			return nil, len(b), false, len(c.line) <= maxLine
		}
		line := b[n : n+end+1]
		if len(c.line) > 0 {
			c.line = append(c.line, line...)
			line = c.line
		}
		n += end + 1
		done, ok = c.take(line)
		c.line = c.line[:0]
		if done || !ok {
			return nil, n, done, ok
		}
	}
	return nil, n, false, true
}

// take handles one line: the end of the data of a chunk, the size of a chunk, or a line of the trailer.
func (c *Chunks) take(line []byte) (done, ok bool) {
	text, ended := bytes.CutSuffix(line, []byte("\r\n"))
	if !ended || len(text) > maxLine {
		return false, false
	}
	switch {
	case c.afterData:
		c.afterData = false
		return false, len(text) == 0
	case c.inTrailer && len(text) == 0:
		return true, true
	case c.inTrailer:
		c.trailer = append(c.trailer, line...)
		return false, len(c.trailer) <= maxTrailer && text[0] != ' ' && text[0] != '\t'
	}
	size, _, _ := bytes.Cut(text, []byte(";"))
	length, err := strconv.ParseUint(string(bytes.TrimRight(size, " \t")), 16, 62)
	if err != nil {
		return false, false
	}
	c.left, c.inTrailer = int64(length), length == 0
	return false, true
}

// Trailer returns the trailer of a body that has ended. ok is false if it is malformed.
func (c *Chunks) Trailer() (h Header, ok bool) {
	if len(c.trailer) == 0 {
		return nil, true
	}
	h, f, ok := parseFields(strings.TrimSuffix(string(c.trailer), "\r\n"), true, func(string) bool { return false })
	return h, ok && !f.hasLength && !f.chunked && f.hosts == 0
}
