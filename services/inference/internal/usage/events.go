package usage

import "bytes"

// line is the kind of the current line of an event stream.
type line uint8

const (
	lineStart line = iota
	lineName       // the name of the field is not complete
	lineData
	lineEvent
	lineComment
	lineOther
)

// maxName is the number of bytes that are kept of the name of a field and of the name of an event.
const maxName = 8

// events reads an event stream (text/event-stream). Lines end with CRLF, LF or CR.
type events struct {
	json scanner
	line line
	name []byte // of the field, while the line is a lineName, or of the event, while it is a lineEvent
	// pending is true if the current event has a field. failed is true if its name is `error`.
	pending, failed bool
	cr              bool // the last byte was a CR, so an LF may follow
	lone            bool // the last line end was a CR without LF so far
	bare            bool // the line end before it was a CR without LF
	blind           bool // the model is known, so that most events need not be read
}

// take reads the next part.
func (e *events) take(p []byte) {
	nl := -1 // the position of the next LF
	for i := 0; i < len(p); {
		if e.cr {
			if e.cr = false; p[i] == '\n' {
				e.lone = false
				i++
				continue
			}
		}
		if nl < i {
			if nl = bytes.IndexByte(p[i:], '\n') + i; nl < i {
				nl = len(p)
			}
		}
		end := nl
		if n := bytes.IndexByte(p[i:nl], '\r'); n >= 0 {
			end = i + n
		}
		e.part(p, i, end)
		if end == len(p) {
			return
		}
		e.endLine()
		e.bare, e.lone, e.cr = e.lone, p[end] == '\r', p[end] == '\r'
		i = end + 1
	}
}

// part reads p[begin:end], which lies in one line. If end is not the end of p, it is the end of the line.
func (e *events) part(p []byte, begin, end int) {
	b := p[begin:end]
	if e.line == lineStart {
		if data, ok := bytes.CutPrefix(b, []byte("data:")); ok {
			e.line = lineData
			whole := !e.pending && e.json.fresh() && endsEvent(p[end:])
			if e.pending = true; whole && !e.wants(data) {
				return
			}
			b = data
		}
	}
	if e.line == lineStart || e.line == lineName {
		b = e.field(b)
	}
	switch e.line {
	case lineData:
		e.json.take(b)
	case lineEvent:
		e.name = append(e.name, b[:min(len(b), maxName-len(e.name))]...)
	case lineStart, lineName, lineComment, lineOther:
	}
}

// endsEvent reports whether p begins with the end of a line and an empty line.
func endsEvent(p []byte) bool {
	return bytes.HasPrefix(p, []byte("\n\n")) || bytes.HasPrefix(p, []byte("\r\n\r\n"))
}

// field reads the name of the field and returns what follows it.
func (e *events) field(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	e.line = lineName
	name, rest, complete := bytes.Cut(b, []byte(":"))
	e.name = append(e.name, name[:min(len(name), maxName-len(e.name))]...)
	if complete {
		e.named()
	}
	return rest
}

// named handles the complete name of a field.
func (e *events) named() {
	switch string(bytes.TrimPrefix(e.name, []byte("\ufeff"))) {
	case "":
		e.line = lineComment
	case "data":
		e.line, e.pending = lineData, true
	case "event":
		e.line, e.pending = lineEvent, true
	default:
		e.line, e.pending = lineOther, true
	}
	e.name = e.name[:0]
}

// endLine handles the end of a line.
func (e *events) endLine() {
	switch e.line {
	case lineStart:
		e.end()
	case lineName:
		e.named() // a field without a value
	case lineEvent:
		e.failed = string(bytes.TrimPrefix(e.name, []byte(" "))) == "error"
	case lineData:
		e.json.take([]byte{'\n'})
	case lineComment, lineOther:
	}
	e.line, e.name = lineStart, e.name[:0]
}

// end handles the end of an event.
func (e *events) end() {
	if !e.pending {
		return
	}
	f := &e.json.found
	f.failed = f.failed || e.failed
	e.blind = f.model != ""
	e.pending, e.failed = false, false
	e.json.start(e.json.root)
}

// atBorder reports whether another event may follow. After a CR, it returns false unless the stream ends its lines with
// CR alone, because an LF may follow.
func (e *events) atBorder() bool {
	return e.line == lineStart && !e.pending && (!e.cr || e.bare)
}

// wants reports whether the data of an event may contain something new. It searches for parts of names, because most
// events of a stream contain only a part of the text.
func (e *events) wants(data []byte) bool {
	if !e.blind {
		return true
	}
	for i, c := range data {
		switch c {
		case '_':
			if rest := data[i:]; bytes.HasPrefix(rest, []byte(`_tokens"`)) || hasReason(rest) {
				return true
			}
		case 'o':
			if i > 2 && data[i-1] == 'r' && data[i-2] == 'r' && data[i-3] == 'e' {
				return true // error
			}
		case '.':
			if bytes.HasPrefix(data[i:], []byte(`.failed"`)) {
				return true // response.failed
			}
		case '\\':
			if bytes.HasPrefix(data[i:], []byte(`\u00`)) {
				return true // an escape that may be in a name
			}
		}
	}
	return false
}

// hasReason reports whether data begins with the end of a finish_reason or stop_reason that is not null.
func hasReason(data []byte) bool {
	value, ok := bytes.CutPrefix(data, []byte(`_reason"`))
	value = bytes.TrimLeft(value, ": \t")
	return ok && len(value) > 0 && value[0] == '"'
}
