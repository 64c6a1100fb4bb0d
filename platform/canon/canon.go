// Package canon reads JSON strictly and writes it in the canonical form of RFC 8785, so that equal documents have equal
// bytes and equal digests. It returns an error for a document without a canonical form: one with duplicate member names,
// text that is not valid Unicode, numbers outside the range of a double, or integers that a double cannot represent.
// Rounding such integers would give different documents the same digest. Fractions are rounded to the nearest double.
package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
	var w writer
	if err := Read(raw, Rules{Depth: maxDepth}, w.value); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoForm, err)
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

type writer struct{ out []byte }

func (w *writer) value(r *Reader) error {
	token, err := r.Next()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return w.object(r)
		}
		return w.array(r)
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

func (w *writer) array(r *Reader) error {
	w.out = append(w.out, '[')
	first := true
	err := r.Items(func() error {
		if !first {
			w.out = append(w.out, ',')
		}
		first = false
		return w.value(r)
	})
	w.out = append(w.out, ']')
	return err
}

type member struct {
	name  string
	order []uint16 // RFC 8785 sorts by UTF-16 code units, which differs from UTF-8 order
	value []byte
}

func (w *writer) object(r *Reader) error {
	before := w.out
	var members []member
	err := r.Members(func(name string) error {
		w.out = nil
		err := w.value(r)
		members = append(members, member{name, utf16.Encode([]rune(name)), w.out})
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(members, func(a, b member) int { return slices.Compare(a.order, b.order) })
	w.out = before
	w.out = append(w.out, '{')
	for i, m := range members {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = append(appendString(w.out, m.name), ':')
		w.out = append(w.out, m.value...)
	}
	w.out = append(w.out, '}')
	return nil
}

// appendNumber formats a number as ECMAScript formats a double.
func appendNumber(out []byte, text string) ([]byte, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %.40s is out of range", text)
	}
	if f == 0 {
		return append(out, '0'), nil
	}
	if !strings.ContainsAny(text, ".eE") && !holds(f, text) {
		return nil, fmt.Errorf("the integer %.40s cannot be represented as a double", text)
	}
	if size := math.Abs(f); size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64), nil
	}
	short := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(short, "e")
	return append(out, mantissa+"e"+exponent[:1]+strings.TrimLeft(exponent[1:], "0")...), nil
}

// holds reports whether the integer in the text is exactly f, or whether the text is the one that this package writes
// for f. The second case ensures that the canonical form of a canonical form is unchanged.
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
