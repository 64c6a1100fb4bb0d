package logship

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// payload is the body of POST /api/ingest/logs.
type payload struct {
	RunID  string   `json:"run_id"`
	Chunks []string `json:"chunks"`
	EOF    bool     `json:"eof"`
}

// maxBody limits the size of a request body. maxRaw limits the bytes of the log file in one request.
const (
	maxBody = 256 << 10
	maxRaw  = 192 << 10
)

// cut returns how many bytes of the data to send in the next request, at most as many as a body can hold. The parameter
// final means that the file will not grow: the result is then the whole length, if it fits. Otherwise the bytes to send
// end at the last line break or, without a line break, after a complete character. The parameter patient means that
// the caller can wait for the rest of a line: the result is then 0 if the data is only a short incomplete line.
func cut(data []byte, final, patient bool) int {
	n := min(len(data), maxRaw)
	for n > 0 && len(encode("", data[:n])) > maxBody-idRoom {
		n /= 2
	}
	if n == len(data) && final {
		return n
	}
	if at := bytes.LastIndexByte(data[:n], '\n'); at >= 0 {
		return at + 1
	}
	if patient && n == len(data) && n < maxRaw/2 {
		return 0
	}
	return characters(data[:n])
}

// idRoom is the number of bytes of a body reserved for the run's id.
const idRoom = 256

// characters returns the length of the data without an incomplete character at the end.
func characters(data []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		at := len(data) - back
		if utf8.RuneStart(data[at]) {
			if !utf8.FullRune(data[at:]) {
				return at
			}
			break
		}
	}
	return len(data)
}

// encode returns the request body. Invalid UTF-8 becomes U+FFFD. NUL becomes U+2400, because the database
// cannot store NUL in text.
func encode(runID string, data []byte) []byte {
	text := strings.ReplaceAll(strings.ToValidUTF8(string(data), "\uFFFD"), "\x00", "\u2400")
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	// Encode cannot fail: payload has only strings, a slice and a bool.
	_ = e.Encode(payload{RunID: runID, Chunks: []string{text}})
	return body.Bytes()
}
