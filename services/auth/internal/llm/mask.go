package llm

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	// MaxText is the maximum number of bytes of a response body that are shown.
	MaxText = 2 << 10
	// maxSample is the maximum number of characters of the model's text that are shown.
	maxSample = 200
	// maxRead is the maximum number of bytes of a text that are searched for the key. The rest is dropped.
	maxRead = 16 << 10
	// minPart is the minimum length of a part of the key that is masked. A shorter spelling is masked only as a
	// whole.
	minPart = 6
)

// mask removes a key from texts. Each of its spellings is the key in one encoding.
type mask struct{ spellings []string }

// newMask returns a mask for the spellings in which an upstream may return the key: plain, URL-encoded, in hex, and
// in base64 at any offset.
func newMask(key secret.String) mask {
	plain := key.Reveal()
	m := mask{spellings: []string{plain, url.QueryEscape(plain), url.PathEscape(plain), hex.EncodeToString([]byte(plain))}}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for offset := range 3 {
			text := enc.EncodeToString(append(make([]byte, offset), plain...))
			// The first characters also encode bytes before the key, and the last one encodes bytes after it.
			first, last := []int{0, 2, 3}[offset], len(text)
			if (offset+len(plain))%3 != 0 {
				last--
			}
			if last-first >= minPart {
				m.spellings = append(m.spellings, text[first:last])
			}
		}
	}
	for i, s := range m.spellings {
		m.spellings[i] = strings.ToLower(s)
	}
	return m
}

// text prepares a text of the upstream for display. It removes the key and all characters that are not printable,
// replaces each run of white space with one space, and cuts the text to the given number of bytes.
func (m mask) text(s string, limit int) string {
	s = unescaped(strings.ToValidUTF8(s[:min(len(s), maxRead)], "\uFFFD"))
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1 // this includes invisible characters, which could split the key
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(m.without(s)), " ")
	if len(s) > limit {
		cut := limit
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return s
}

// unescaped replaces escape sequences of ASCII characters, such as \u0041, with the characters, because even a text
// that is not JSON may contain the key in this form.
func unescaped(s string) string {
	before, rest, found := strings.Cut(s, `\u`)
	if !found {
		return s
	}
	var b strings.Builder
	for b.WriteString(before); found; b.WriteString(before) {
		n, err := strconv.ParseUint(rest[:min(4, len(rest))], 16, 8)
		if err == nil && len(rest) >= 4 && n < utf8.RuneSelf {
			b.WriteByte(byte(n))
			rest = rest[4:]
		} else {
			b.WriteString(`\u`)
		}
		before, rest, found = strings.Cut(rest, `\u`)
	}
	return b.String()
}

// words returns the text of a response body. JSON is decoded and encoded again, so that no escape sequence hides the
// key.
func (m mask) words(body []byte) string {
	var value any
	if json.Unmarshal(body, &value) == nil {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(value) == nil {
			return m.text(b.String(), MaxText)
		}
	}
	return m.text(string(body), MaxText)
}

// without replaces every part of a spelling of the key with secret.Redacted.
func (m mask) without(s string) string {
	low := asciiLower(s)
	var b strings.Builder
	for i := 0; i < len(s); {
		n := m.part(low[i:])
		if n == 0 {
			b.WriteByte(s[i])
			i++
			continue
		}
		b.WriteString(secret.Redacted)
		i += n
	}
	return b.String()
}

// part returns how many bytes at the beginning of s are part of a spelling of the key.
func (m mask) part(s string) int {
	longest := 0
	for _, spelling := range m.spellings {
		least := min(minPart, len(spelling))
		if len(s) < least || !strings.Contains(spelling, s[:least]) {
			continue
		}
		n := least
		for n < len(s) && n < len(spelling) && strings.Contains(spelling, s[:n+1]) {
			n++
		}
		longest = max(longest, n)
	}
	return longest
}

// asciiLower converts only ASCII letters to lower case, so that every byte keeps its position.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// prefix returns the beginning of a text, at most limit characters.
func prefix(s string, limit int) string {
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit])
	}
	return s
}
