// Package secret owns secret values: String, a text that always prints as [redacted]; opaque tokens, which are stored
// only as their SHA-256; and Keyring, which encrypts a value for one column of one row, so that a value that was
// copied to another row cannot be decrypted.
package secret

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
)

// Redacted is the printed form of every String.
const Redacted = "[redacted]"

// String is a secret text. Only Reveal returns the text. The text is behind a pointer, because fmt prints unexported
// fields without calling their methods, and prints only the address of a pointer.
type String struct{ text *string }

// New returns a String that holds text.
func New(text string) String {
	if text == "" {
		return String{}
	}
	return String{text: &text}
}

// Reveal returns the text. Call it only where the secret is used.
func (s String) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether the text is empty.
func (s String) IsZero() bool { return s.text == nil }

// Equal reports whether two texts are equal. Its duration depends only on their lengths.
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

// UnmarshalText implements encoding.TextUnmarshaler. It rejects the printed form of a String, so that a printed
// configuration cannot be loaded as a secret.
func (s *String) UnmarshalText(text []byte) error {
	if string(text) == Redacted {
		return errors.New("the secret is " + Redacted + "; it was copied from a printed configuration")
	}
	*s = New(string(text))
	return nil
}
