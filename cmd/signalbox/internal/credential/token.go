package credential

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// ErrToken reports a text that cannot be a token.
var ErrToken = errors.New("the token is empty, or has a space or a control character in it; was only a part of a file copied?")

// ParseToken returns a token without the space around it. The error, ErrToken, never contains the text.
func ParseToken(text string) (secret.String, error) {
	text = strings.TrimSpace(text)
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r > unicode.MaxASCII }) {
		return secret.String{}, ErrToken
	}
	return secret.New(text), nil
}

// Expiry returns when a token ends, if it is a JWT that states so, and otherwise the zero time. The signature is not
// verified, which only the server can do: the result is for people.
func Expiry(token secret.String) time.Time {
	parts := strings.Split(token.Reveal(), ".")
	const partsOfJWT = 3
	if len(parts) != partsOfJWT {
		return time.Time{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	const year9999 = 253402300799
	if json.Unmarshal(raw, &claims) != nil || claims.Exp <= 0 || claims.Exp > year9999 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0).UTC()
}
