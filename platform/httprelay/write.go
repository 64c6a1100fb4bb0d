package httprelay

import (
	"net/http"
	"strconv"
)

// AppendRequest appends the head of a request. A negative length announces chunks. A Content-Length of 0 is left out for
// methods whose requests usually have no body.
func AppendRequest(b []byte, method, target, host string, h Header, length int64, hasBody bool) []byte {
	b = append(b, method...)
	b = append(b, ' ')
	b = append(b, target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, "\r\n"...)
	switch {
	case length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case hasBody, method == http.MethodPost, method == http.MethodPut, method == http.MethodPatch:
		b = appendLength(b, length)
	}
	return append(AppendFields(b, h), "\r\n"...)
}

// AppendStatus appends the first line of a response.
func AppendStatus(b []byte, status int) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	if text := http.StatusText(status); text != "" {
		b = append(b, text...)
	} else {
		b = append(b, "status code "...)
		b = strconv.AppendInt(b, int64(status), 10)
	}
	return append(b, "\r\n"...)
}

// AppendFields appends the lines of a header. It leaves out lines that would end early, so that no value adds a line.
func AppendFields(b []byte, h Header) []byte {
	for i := range h {
		if f := &h[i]; isValue(f.Value) && isToken(f.Name) {
			b = append(b, f.Name...)
			b = append(b, ": "...)
			b = append(b, f.Value...)
			b = append(b, "\r\n"...)
		}
	}
	return b
}

// AppendFraming appends the line that announces the length of a body, or its chunks if the length is negative.
func AppendFraming(b []byte, length int64) []byte {
	if length < 0 {
		return append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	return appendLength(b, length)
}

func appendLength(b []byte, length int64) []byte {
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, length, 10)
	return append(b, "\r\n"...)
}

// AppendChunk appends p as one chunk. It appends nothing for an empty p, which would end the body.
func AppendChunk(b, p []byte) []byte {
	if len(p) == 0 {
		return b
	}
	b = strconv.AppendUint(b, uint64(len(p)), 16)
	b = append(b, "\r\n"...)
	b = append(b, p...)
	return append(b, "\r\n"...)
}

// AppendLastChunk appends the end of a body that is sent in chunks, with its trailer.
func AppendLastChunk(b []byte, trailer Header) []byte {
	b = append(b, "0\r\n"...)
	return append(AppendFields(b, trailer), "\r\n"...)
}
