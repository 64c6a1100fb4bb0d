package httprelay

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

const (
	// maxFields is the maximum number of lines of a plain head.
	maxFields = 128
	// maxPlain is the maximum size of a plain head, in bytes.
	maxPlain = 16 << 10
	// chunked is the length of a body whose end its chunks show.
	chunked = -1
)

// Request is the plain head of a request.
type Request struct {
	Method string
	// Target is the path and query as the client sent them.
	Target string
	Host   string
	// Header contains all lines but Host, Content-Length and Connection.
	Header Header
	// Length is the length of the body. HasLength is true if the head states it.
	Length    int64
	HasLength bool
	// Close is true if the client wants the connection to end with the response.
	Close bool
}

// Response is the plain head of a response.
type Response struct {
	Status int
	// Header contains all lines but Content-Length, Transfer-Encoding and Connection.
	Header Header
	// Length is the length of the body, or -1 if it is sent in chunks.
	Length int64
	// Close is true if the server ends the connection with this response.
	Close bool
}

// framing collects the lines of a head that decide where the message ends.
type framing struct {
	length    int64
	hasLength bool
	chunked   bool
	close     bool
	host      string
	hosts     int
}

// ParseRequest parses a complete head, with its empty line. ok is false unless the head is plain: HTTP/1.1, an absolute
// path without escapes, a body of known length, and no header that concerns the connection itself but close and
// keep-alive. A plain head means the same to every parser. What is not plain may be valid or not: package http decides.
func ParseRequest(head []byte) (r *Request, ok bool) {
	lines, ok := plainLines(head)
	if !ok {
		return nil, false
	}
	first, lines, more := strings.Cut(lines, "\r\n")
	method, rest, ok := strings.Cut(first, " ")
	if !ok || !isToken(method) {
		return nil, false
	}
	target, ok := strings.CutSuffix(rest, " HTTP/1.1")
	if !ok || !plainTarget(target) {
		return nil, false
	}
	header, f, ok := parseFields(lines, more, holdsRequest)
	if !ok || f.hosts != 1 || !plainHost(f.host) || f.chunked {
		return nil, false
	}
	return &Request{Method: method, Target: target, Host: f.host, Header: header, Length: f.length, HasLength: f.hasLength, Close: f.close}, true
}

// ParseResponse parses a complete head, with its empty line. ok is false unless the head is plain: HTTP/1.1, a final status
// of a response that has a body, and either a Content-Length or chunks.
func ParseResponse(head []byte) (r Response, ok bool) {
	lines, ok := plainLines(head)
	if !ok {
		return r, false
	}
	first, lines, more := strings.Cut(lines, "\r\n")
	rest, ok := strings.CutPrefix(first, "HTTP/1.1 ")
	if !ok || len(rest) < 3 || len(rest) > 3 && rest[3] != ' ' || !isValue(rest) {
		return r, false
	}
	status, err := strconv.ParseUint(rest[:3], 10, 16)
	if err != nil || status < http.StatusOK || status >= 600 || status == http.StatusNoContent || status == http.StatusNotModified {
		return r, false
	}
	header, f, ok := parseFields(lines, more, holdsResponse)
	if !ok || f.chunked == f.hasLength {
		return r, false
	}
	if f.chunked {
		f.length = chunked
	}
	return Response{Status: int(status), Header: header, Length: f.length, Close: f.close}, true
}

// plainLines returns the lines of a head without the empty line.
func plainLines(head []byte) (string, bool) {
	if len(head) > maxPlain {
		return "", false
	}
	return strings.CutSuffix(string(head), "\r\n\r\n")
}

// holdsRequest reports whether a request with a header of this name is not plain.
func holdsRequest(name string) bool {
	switch name {
	case "Transfer-Encoding", "Expect", "Te", "Trailer", "Upgrade", "Http2-Settings", "Proxy-Connection":
		return true
	}
	return false
}

// holdsResponse reports whether a response with a header of this name is not plain.
func holdsResponse(name string) bool {
	switch name {
	case "Te", "Trailer", "Upgrade", "Http2-Settings", "Proxy-Connection":
		return true
	}
	return false
}

// parseFields parses the lines after the first one, if there are more. ok is false if a line is malformed or its name is
// one that holds reports.
func parseFields(lines string, more bool, holds func(string) bool) (h Header, f framing, ok bool) {
	h = make(Header, 0, min(strings.Count(lines, "\n")+1, maxFields))
	for line := ""; more; {
		line, lines, more = strings.Cut(lines, "\r\n")
		name, value, found := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !found || !isToken(name) || !isValue(value) || len(h) == maxFields {
			return nil, f, false
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		taken, ok := f.take(name, value)
		if !ok || !taken && holds(name) {
			return nil, f, false
		}
		if !taken {
			h = append(h, Field{name, value})
		}
	}
	return h, f, true
}

// take reads a line that decides where the message or the connection ends. ok is false if the message is not plain.
func (f *framing) take(name, value string) (taken, ok bool) {
	switch name {
	case "Content-Length":
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil || f.hasLength {
			return true, false
		}
		f.length, f.hasLength = int64(n), true
	case "Transfer-Encoding":
		if value != "chunked" || f.chunked {
			return true, false
		}
		f.chunked = true
	case "Host":
		f.host = value
		f.hosts++
	case "Connection":
		for token := range strings.SplitSeq(value, ",") {
			switch token = strings.Trim(token, " \t"); {
			case strings.EqualFold(token, "close"):
				f.close = true
			case !strings.EqualFold(token, "keep-alive"):
				return true, false
			}
		}
	default:
		return false, true
	}
	return true, true
}

// plainTarget reports whether a request target is an absolute path without escapes, with or without a query.
func plainTarget(target string) bool {
	if target == "" || target[0] != '/' {
		return false
	}
	path, query, _ := strings.Cut(target, "?")
	for i := range len(path) {
		if !inPath(path[i]) {
			return false
		}
	}
	for i := range len(query) {
		if c := query[i]; !inPath(c) && strings.IndexByte("%?!'()*", c) < 0 {
			return false
		}
	}
	return true
}

// inPath reports whether a path may contain a byte (RFC 3986, appendix A) that no parser changes: package url escapes some
// of the others.
func inPath(c byte) bool { return alphanumeric(c) || strings.IndexByte("-._~$&+,=:@/", c) >= 0 }

// plainHost reports whether a host consists of letters, digits, dots and hyphens, or is an IPv6 address, with or without a
// port.
func plainHost(host string) bool {
	for i := range len(host) {
		if c := host[i]; !alphanumeric(c) && strings.IndexByte("-.:[]", c) < 0 {
			return false
		}
	}
	return host != ""
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && strings.IndexByte("-!#$%&'*+.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isValue reports whether s contains no control character but tab.
func isValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
