package httpguard

import (
	"bytes"
	"strconv"
)

// maxLine is the maximum length of a chunk-size line or a trailer line. maxTrailer is the maximum length of the whole
// trailer.
const (
	maxLine    = 4 << 10
	maxTrailer = 8 << 10
)

// chunks finds the end of a chunked body.
type chunks struct {
	line    []byte // the beginning of a line whose end has not arrived yet
	left    int64  // bytes of the current chunk, including the CRLF after its data
	trailer int    // bytes of the trailer; negative before the last chunk
}

func newChunks() *chunks { return &chunks{trailer: -1} }

// advance consumes the bytes of the body at the beginning of b and returns their number. The result done is true at the
// end of the body. The result ok is false if the body is malformed.
func (c *chunks) advance(b []byte) (n int, done, ok bool) {
	for n < len(b) {
		if c.left > 0 {
			data := min(c.left, int64(len(b)-n))
			c.left -= data
			n += int(data)
			continue
		}
		end := bytes.IndexByte(b[n:], '\n')
		if end < 0 {
			c.line = append(c.line, b[n:]...)
			return len(b), false, len(c.line) <= maxLine
		}
		line := b[n : n+end+1]
		if len(c.line) > 0 {
			c.line = append(c.line, line...)
			line = c.line
		}
		n, c.line = n+end+1, nil
		if done, ok = c.take(line); done || !ok {
			return n, done, ok
		}
	}
	return n, false, true
}

// take handles one line: the size of a chunk, or a line of the trailer.
func (c *chunks) take(line []byte) (done, ok bool) {
	text, ended := bytes.CutSuffix(line, []byte("\r\n"))
	if !ended || len(text) > maxLine {
		return false, false
	}
	if c.trailer >= 0 {
		c.trailer += len(line)
		return len(text) == 0, c.trailer <= maxTrailer && (len(text) == 0 || text[0] != ' ' && text[0] != '\t')
	}
	size, _, _ := bytes.Cut(text, []byte(";"))
	length, err := strconv.ParseUint(string(bytes.TrimRight(size, " \t")), 16, 62)
	if err != nil {
		return false, false
	}
	if length == 0 {
		c.trailer = 0
		return false, true
	}
	c.left = int64(length) + 2 // net/http checks that these two bytes are CRLF
	return false, true
}
