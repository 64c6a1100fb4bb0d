package device

import (
	"fmt"
	"io"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// letters is the alphabet of RFC 8628 6.1: without vowels a code spells no word, and no letter looks like a digit.
// Eight letters of twenty are 34.5 bits.
const (
	letters    = "BCDFGHJKLMNPQRSTVWXZ"
	userLength = 8
)

// drawUser generates a user code in its plain form, without a hyphen.
func drawUser(r io.Reader) (string, error) {
	const fair = 256 / len(letters) * len(letters)
	code := make([]byte, 0, userLength)
	for b := make([]byte, 1); len(code) < userLength; {
		if _, err := io.ReadFull(r, b); err != nil {
			return "", fmt.Errorf("generate a user code: %w", err)
		}
		// Bytes from fair on would make the first letters more likely.
		if int(b[0]) < fair {
			code = append(code, letters[int(b[0])%len(letters)])
		}
	}
	return string(code), nil
}

// plain returns a typed code in its plain form, and false if it cannot be a code.
func plain(typed string) (string, bool) {
	code := strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(typed))
	return code, len(code) == userLength && strings.Trim(code, letters) == ""
}

// shown formats a plain code as users read it.
func shown(code string) string { return code[:userLength/2] + "-" + code[userLength/2:] }

// userHash returns the stored form of a user code. An unsalted hash is enough: with a code found from a stolen row
// while it is valid, an attacker can only approve the device for their own account.
func userHash(plain string) []byte { return secret.Hash("user code " + plain) }
