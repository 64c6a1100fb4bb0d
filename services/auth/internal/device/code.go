package device

import (
	"fmt"
	"io"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// letters is an alphabet that RFC 8628 6.1 suggests. It has no vowels, so that codes do not form words, and no digits,
// which could be taken for letters. A code of eight letters has 34.5 bits of entropy.
const (
	letters    = "BCDFGHJKLMNPQRSTVWXZ"
	userLength = 8
)

// drawUser generates a user code in its plain form, which has no hyphen.
func drawUser(r io.Reader) (string, error) {
	const fair = 256 / len(letters) * len(letters)
	code := make([]byte, 0, userLength)
	for b := make([]byte, 1); len(code) < userLength; {
		if _, err := io.ReadFull(r, b); err != nil {
			return "", fmt.Errorf("generate a user code: %w", err)
		}
		// Skip the few largest values of a byte: they would make the first letters more likely.
		if int(b[0]) < fair {
			code = append(code, letters[int(b[0])%len(letters)])
		}
	}
	return string(code), nil
}

// plain converts a typed code to its plain form. It returns false if the result cannot be a code.
func plain(typed string) (string, bool) {
	code := strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(typed))
	return code, len(code) == userLength && strings.Trim(code, letters) == ""
}

// shown returns a plain code as users read it, with a hyphen in the middle.
func shown(code string) string { return code[:userLength/2] + "-" + code[userLength/2:] }

// userHash returns the hash under which a user code is stored. It needs no salt: with a code guessed from a stolen
// hash, an attacker can only sign the device in to the attacker's own account.
func userHash(plain string) []byte { return secret.Hash("user code " + plain) }
