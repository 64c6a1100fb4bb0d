package ship

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

// maxBody bounds a request; maxRaw the bytes of the file that go into one.
const (
	maxBody = 256 << 10
	maxRaw  = 192 << 10
)

// cut says how many of the bytes make up the next request: whole lines where
// there are any, never half a character, never more than a body holds. final
// tells that the file will not grow, patient that an unended line may wait.
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

// idRoom is what the run's id may take of a body.
const idRoom = 256

// characters cuts off a character that has only begun.
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

// encode makes the body; bytes that are no text become U+FFFD, and NUL, which
// no database text holds, its picture U+2400.
func encode(runID string, data []byte) []byte {
	text := strings.ReplaceAll(strings.ToValidUTF8(string(data), "\uFFFD"), "\x00", "\u2400")
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	// Strings, a slice and a bool always encode.
	_ = e.Encode(payload{RunID: runID, Chunks: []string{text}})
	return body.Bytes()
}
