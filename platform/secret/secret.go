// Package secret holds what must not be seen: String, a text that prints as
// [redacted] wherever it is printed by accident; opaque tokens, of which only a
// SHA-256 is ever stored; and Keyring, which seals a value for one column of one
// row so that a copied or swapped row cannot be opened.
package secret

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
)

// Redacted is all that a String shows of itself.
const Redacted = "[redacted]"

// String is a secret text. Only Reveal gives it out. The text lies behind a
// pointer because fmt reads unexported fields without calling their methods and
// then shows an address.
type String struct{ text *string }

// New wraps a text.
func New(text string) String {
	if text == "" {
		return String{}
	}
	return String{text: &text}
}

// Reveal gives the text out; call it only where the secret is used.
func (s String) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether there is no text.
func (s String) IsZero() bool { return s.text == nil }

// Equal compares in a time that depends on the lengths only.
func (s String) Equal(o String) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(o.Reveal())) == 1
}

// String implements fmt.Stringer.
func (s String) String() string { return Redacted }

// GoString implements fmt.GoStringer.
func (s String) GoString() string { return Redacted }

// Format implements fmt.Formatter for every verb.
func (s String) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// LogValue implements slog.LogValuer.
func (s String) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalJSON implements json.Marshaler.
func (s String) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalText implements encoding.TextMarshaler.
func (s String) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It refuses the word that a
// String prints, so that a printed configuration cannot come back as a secret.
func (s *String) UnmarshalText(text []byte) error {
	if string(text) == Redacted {
		return errors.New("the secret reads " + Redacted + ": it was copied from a printed configuration")
	}
	*s = New(string(text))
	return nil
}
