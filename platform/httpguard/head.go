package httpguard

import (
	"bytes"
	"strconv"
	"strings"
)

// maxHead is the maximum size of a request's head, which is the request line and the headers. The servers of this
// project have a lower limit.
const maxHead = 128 << 10

// The reasons why a head is rejected.
const (
	reasonBareLF   = "a header line ends in LF without CR"
	reasonFolded   = "a header line begins with a space or a tab"
	reasonEmpty    = "the request begins with an empty line"
	reasonBoth     = "the request has both Content-Length and Transfer-Encoding"
	reasonOldChunk = "the request is HTTP/1.0 and has a Transfer-Encoding"
	reasonLength   = "Content-Length is not a number, or is repeated"
	reasonPreface  = "the HTTP/2 preface is not allowed in an HTTP/1.1 request"
	reasonSize     = "the request headers are too large"
)

// framing describes how a request's head announces the end of the body.
type framing struct {
	length  int64 // length of the body if it is not chunked
	chunked bool
	// opaque means that what follows cannot be read as HTTP/1 requests: the connection speaks HTTP/2, or net/http
	// responds with an error and closes the connection.
	opaque bool
}

// headEnd returns the length of the head at the beginning of b, including its empty line, or 0 if b does not contain
// the complete head. It checks the lines from the given offset on, and returns the offset for the next call. It returns
// a reason if a line does not end in CRLF or is folded, or if the first line is empty.
func headEnd(b []byte, from int) (end, checked int, reason string) {
	for {
		n := bytes.IndexByte(b[from:], '\n')
		if n < 0 {
			return 0, from, ""
		}
		line := b[from : from+n]
		switch {
		case n == 0 || line[n-1] != '\r':
			return 0, from, reasonBareLF
		case from == 0 && line[0] == '\r': // net/http skips a CR after some requests
			return 0, from, reasonEmpty
		case n == 1:
			return from + 2, from, ""
		case from > 0 && (line[0] == ' ' || line[0] == '\t'):
			return 0, from, reasonFolded
		}
		from += n + 1
	}
}

// parse returns the framing of a complete head, or the reason why the head is rejected. The parameter first is true for
// the first head of a connection. Everything else that may be wrong with a head is left to net/http.
func parse(head []byte, first bool) (f framing, reason string) {
	lines := strings.Split(strings.TrimSuffix(string(head), "\r\n\r\n"), "\r\n")
	var lengths, encodings []string
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.Trim(value, " \t"); {
		case strings.EqualFold(strings.Trim(name, " \t"), "Content-Length"):
			lengths = append(lengths, value)
		case strings.EqualFold(strings.Trim(name, " \t"), "Transfer-Encoding"):
			encodings = append(encodings, value)
		}
	}
	switch {
	case lines[0] == "PRI * HTTP/2.0" && first && len(lines) == 1: // net/http serves the preface with headers as HTTP/1
		return framing{opaque: true}, ""
	case lines[0] == "PRI * HTTP/2.0":
		return framing{}, reasonPreface
	case len(lengths) > 0 && len(encodings) > 0:
		return framing{}, reasonBoth
	case len(encodings) > 0 && !strings.HasSuffix(lines[0], " HTTP/1.1"):
		return framing{}, reasonOldChunk
	case len(encodings) == 1 && strings.EqualFold(encodings[0], "chunked"):
		return framing{chunked: true}, ""
	case len(encodings) > 0:
		return framing{opaque: true}, "" // net/http responds with 501
	case len(lengths) == 0:
		return framing{}, ""
	}
	length, err := strconv.ParseUint(lengths[0], 10, 63)
	if err != nil || len(lengths) > 1 {
		return framing{}, reasonLength
	}
	return framing{length: int64(length)}, ""
}
