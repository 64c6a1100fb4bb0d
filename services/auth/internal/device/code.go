package device

import (
	"fmt"
	"io"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// letters are RFC 8628's: without vowels a code spells no word, and no letter looks like a digit. Eight of
// twenty are 34.5 bits.
const (
	letters    = "BCDFGHJKLMNPQRSTVWXZ"
	userLength = 8
)

// drawUser draws a user code in its plain form.
func drawUser(r io.Reader) (string, error) {
	const fair = 256 / len(letters) * len(letters)
	code := make([]byte, 0, userLength)
	for b := make([]byte, 1); len(code) < userLength; {
		if _, err := io.ReadFull(r, b); err != nil {
			return "", fmt.Errorf("draw a user code: %w", err)
		}
		// A byte at the end of the range would make the first letters likelier.
		if int(b[0]) < fair {
			code = append(code, letters[int(b[0])%len(letters)])
		}
	}
	return string(code), nil
}

// plain is what a person typed as it was drawn; false for what no code can be.
func plain(typed string) (string, bool) {
	code := strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(typed))
	return code, len(code) == userLength && strings.Trim(code, letters) == ""
}

// shown is a plain code as people read it.
func shown(code string) string { return code[:userLength/2] + "-" + code[userLength/2:] }

// userHash is what is stored of a user code. Whoever could try all codes against a stolen row within their
// minutes would win nothing: a user code alone lets one only approve a device for oneself.
func userHash(plain string) []byte { return secret.Hash("user code " + plain) }
