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
	// MaxText is the most bytes of the upstream's words that are told.
	MaxText = 2 << 10
	// maxSample is the most characters of the model's answer that are told.
	maxSample = 200
	// maxRead is how much of a text is looked at, the key's spellings in it included.
	maxRead = 16 << 10
	// minPart is the shortest part of a spelling of the key that is masked, where the spelling is longer.
	minPart = 6
)

// mask takes a key out of texts.
type mask struct{ spellings []string }

// newMask knows how a key may come back: as it is, in an address, in hex, and inside of base64 at any offset.
func newMask(key secret.String) mask {
	plain := key.Reveal()
	m := mask{spellings: []string{plain, url.QueryEscape(plain), url.PathEscape(plain), hex.EncodeToString([]byte(plain))}}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for offset := range 3 {
			text := enc.EncodeToString(append(make([]byte, offset), plain...))
			// The first characters carry what stands in front, the last one what comes behind.
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

// text is a text of the upstream's, fit to be told: without the key, without control characters, and short.
func (m mask) text(s string, limit int) string {
	s = unescaped(strings.ToValidUTF8(s[:min(len(s), maxRead)], "\uFFFD"))
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1 // also what shows nothing and would part the key
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

// unescaped spells \u0041 as A: a text that is no JSON may hold the key so.
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

// words are the upstream's words in a body: JSON is spelled anew, so that no escape hides the key.
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

// without puts the masking word in the place of every part of the key, however it is spelled.
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

// part is how many bytes at the beginning of s are part of a spelling of the key.
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

// asciiLower keeps every byte at its place.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// begin is how a text begins, in characters.
func begin(s string, limit int) string {
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit])
	}
	return s
}
