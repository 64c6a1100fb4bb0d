// Package canon writes JSON in the canonical form of RFC 8785, so that equal documents have equal bytes and equal
// digests. It returns an error for a document without a canonical form: one with duplicate member names, text that is
// not valid Unicode, or numbers that a double cannot represent. Rounding such numbers would give different documents
// the same digest.
package canon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrNoForm is the error for a document without a canonical form.
var ErrNoForm = errors.New("the document has no canonical JSON form")

const maxDepth = 1000

// JSON returns the canonical form of one JSON document.
func JSON(raw []byte) ([]byte, error) {
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("%w: not UTF-8", ErrNoForm)
	}
	if !json.Valid(raw) {
		return nil, fmt.Errorf("%w: not JSON", ErrNoForm)
	}
	if err := checkSurrogates(raw); err != nil {
		return nil, err
	}
	w := writer{in: json.NewDecoder(bytes.NewReader(raw))}
	w.in.UseNumber()
	if err := w.value(0); err != nil {
		return nil, err
	}
	return w.out, nil
}

// Digest returns the SHA-256 of the canonical form as "sha256:<hex>".
func Digest(raw []byte) (string, error) {
	form, err := JSON(raw)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(form)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

type writer struct {
	in  *json.Decoder
	out []byte
}

func (w *writer) value(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: nested deeper than %d", ErrNoForm, maxDepth)
	}
	token, err := w.in.Token()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoForm, err)
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return w.object(depth)
		}
		return w.array(depth)
	case string:
		w.out = appendString(w.out, v)
	case json.Number:
		w.out, err = appendNumber(w.out, string(v))
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	default:
		w.out = append(w.out, "null"...)
	}
	return err
}

func (w *writer) array(depth int) error {
	w.out = append(w.out, '[')
	for i := 0; w.in.More(); i++ {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(depth + 1); err != nil {
			return err
		}
	}
	return w.end(']')
}

type member struct {
	name  string
	order []uint16 // RFC 8785 sorts by UTF-16 code units, which differs from UTF-8 order
	value []byte
}

func (w *writer) object(depth int) error {
	before := w.out
	var members []member
	for w.in.More() {
		token, err := w.in.Token()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoForm, err)
		}
		name, _ := token.(string)
		w.out = nil
		if err := w.value(depth + 1); err != nil {
			return err
		}
		members = append(members, member{name, utf16.Encode([]rune(name)), w.out})
	}
	slices.SortFunc(members, func(a, b member) int { return slices.Compare(a.order, b.order) })
	w.out = before
	w.out = append(w.out, '{')
	for i, m := range members {
		if i > 0 {
			if m.name == members[i-1].name {
				return fmt.Errorf("%w: duplicate member %q", ErrNoForm, m.name)
			}
			w.out = append(w.out, ',')
		}
		w.out = append(appendString(w.out, m.name), ':')
		w.out = append(w.out, m.value...)
	}
	return w.end('}')
}

func (w *writer) end(closing byte) error {
	if _, err := w.in.Token(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", ErrNoForm, err)
	}
	w.out = append(w.out, closing)
	return nil
}

// appendNumber formats a number as ECMAScript formats a double.
func appendNumber(out []byte, text string) ([]byte, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: the number %.40s is out of range", ErrNoForm, text)
	}
	if f == 0 {
		return append(out, '0'), nil
	}
	if !strings.ContainsAny(text, ".eE") && !holds(f, text) {
		return nil, fmt.Errorf("%w: the integer %.40s cannot be represented as a double", ErrNoForm, text)
	}
	if size := math.Abs(f); size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64), nil
	}
	short := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(short, "e")
	return append(out, mantissa+"e"+exponent[:1]+strings.TrimLeft(exponent[1:], "0")...), nil
}

// holds reports whether the integer in text is exactly f, or whether this package formats f as text. The second case
// ensures that the canonical form of a canonical form is unchanged.
func holds(f float64, text string) bool {
	return strconv.FormatFloat(f, 'f', 0, 64) == text || strconv.FormatFloat(f, 'f', -1, 64) == text
}

func appendString(out []byte, s string) []byte {
	out = append(out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c >= 0x20:
			out = append(out, c)
		case strings.IndexByte("\b\t\n\f\r", c) >= 0:
			out = append(out, '\\', "btn\x00fr"[c-'\b'])
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
	}
	return append(out, '"')
}

// checkSurrogates rejects unpaired surrogates, which encoding/json would silently replace
// with U+FFFD. raw is valid JSON, so every backslash is inside a string.
func checkSurrogates(raw []byte) error {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		first := unit(raw, i-1)
		i += 4
		if !utf16.IsSurrogate(first) {
			continue
		}
		if utf16.DecodeRune(first, unit(raw, i+1)) == utf8.RuneError {
			return fmt.Errorf("%w: unpaired surrogate", ErrNoForm)
		}
		i += 6
	}
	return nil
}

// unit decodes the \uXXXX escape at an offset. It returns -1 if the text there is not such an escape.
func unit(raw []byte, at int) rune {
	if at+6 > len(raw) || raw[at] != '\\' || raw[at+1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[at+2:at+6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
