package usage

import (
	"bytes"
	"mime"
	"slices"
	"strings"
)

const (
	// maxPartHeader is the maximum size of the headers of a part, in bytes. What follows larger ones is not read.
	maxPartHeader = 4 << 10
	// maxBoundary is the maximum length of a boundary (RFC 2046).
	maxBoundary = 70
)

// form reads the fields `model` and `stream` of a form of the type multipart/form-data.
type form struct {
	delimiter []byte // CR LF -- boundary
	tail      []byte // the end of what was read, which may be the beginning of a delimiter
	header    []byte // the headers of the part, as far as they were read
	inHeader  bool
	over      bool
	field     string
	value     []byte
	wanted    Wanted
}

// newForm returns nil if the content type is not that of a form.
func newForm(contentType string) *form {
	if len(contentType) < len("multipart/") || !strings.EqualFold(contentType[:len("multipart/")], "multipart/") {
		return nil
	}
	_, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	if err != nil || boundary == "" || len(boundary) > maxBoundary {
		return &form{over: true}
	}
	// The first delimiter may be at the beginning of the body, without a line before it.
	return &form{delimiter: []byte("\r\n--" + boundary), tail: []byte("\r\n")}
}

// take reads the next part of the body.
func (f *form) take(p []byte) {
	for len(p) > 0 && !f.over {
		if f.inHeader {
			p = f.head(p)
		} else {
			p = f.content(p)
		}
	}
}

// content reads up to the next delimiter and returns the rest.
func (f *form) content(p []byte) []byte {
	// A delimiter that began in an earlier part ends within the first bytes of this one.
	if len(f.tail) > 0 {
		both := slices.Concat(f.tail, p[:min(len(p), len(f.delimiter))])
		if n := bytes.Index(both, f.delimiter); n >= 0 {
			rest := p[n+len(f.delimiter)-len(f.tail):]
			f.keep(both[:n])
			f.endPart()
			return rest
		}
		if len(p) < len(f.delimiter) { // all of p is in both
			f.hold(both)
			return nil
		}
		f.keep(f.tail)
		f.tail = f.tail[:0]
	}
	n := bytes.Index(p, f.delimiter)
	if n < 0 {
		f.hold(p)
		return nil
	}
	f.keep(p[:n])
	f.endPart()
	return p[n+len(f.delimiter):]
}

// hold keeps the last bytes, which may be the beginning of a delimiter.
func (f *form) hold(p []byte) {
	n := max(0, len(p)-len(f.delimiter)+1)
	f.keep(p[:n])
	f.tail = append(f.tail[:0], p[n:]...)
}

// keep adds to the value of the field.
func (f *form) keep(p []byte) {
	if f.field != "" {
		f.value = append(f.value, p[:min(len(p), maxKept-len(f.value))]...)
	}
}

func (f *form) endPart() {
	switch f.field {
	case "model":
		f.wanted.Model = string(f.value)
	case "stream":
		f.wanted.Stream = strings.EqualFold(string(f.value), "true") || string(f.value) == "1"
	}
	f.tail, f.header, f.value, f.inHeader, f.field = f.tail[:0], f.header[:0], f.value[:0], true, ""
}

// head reads the headers of a part and returns what follows them.
func (f *form) head(p []byte) []byte {
	before := len(f.header)
	f.header = append(f.header, p[:min(len(p), maxPartHeader-before)]...)
	if bytes.HasPrefix(f.header, []byte("--")) { // the last delimiter
		f.over = true
		return nil
	}
	n := bytes.Index(f.header, []byte("\r\n\r\n"))
	if n < 0 {
		f.over = len(f.header) == maxPartHeader
		return nil
	}
	f.inHeader, f.field = false, fieldOf(f.header[:n])
	return p[n+len("\r\n\r\n")-before:]
}

// fieldOf returns the name of the field whose part has the headers, or "" if it is a file or not read.
func fieldOf(headers []byte) string {
	for header := range strings.SplitSeq(string(headers), "\r\n") {
		name, value, ok := strings.Cut(header, ":")
		if !ok || !strings.EqualFold(strings.TrimSpace(name), "Content-Disposition") {
			continue
		}
		_, params, err := mime.ParseMediaType(value)
		if _, file := params["filename"]; err != nil || file {
			return ""
		}
		if field := params["name"]; field == "model" || field == "stream" {
			return field
		}
		return ""
	}
	return ""
}
