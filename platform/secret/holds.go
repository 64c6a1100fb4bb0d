package secret

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// Holds reports whether a text contains a credential of this product: a token, possibly cut off, or a JSON web token that
// a service has signed for a user or for another service. It also finds a credential in a word that is encoded as base64,
// as in `Basic` authentication. Unlike Mask, it finds a token in the middle of a word, and it does not find credentials of
// other products.
func Holds(s string) bool {
	return len(s) >= kindLength+1+ownLeast && (holdsToken(s) || holdsJWT(s) || holdsEncoded(s))
}

// holdsEncoded decodes each long word of a text as base64, or its URL-safe form, and looks for credentials in it.
func holdsEncoded(s string) bool {
	const alphabet, least = base62 + "+/-_", (kindLength + 1 + ownLeast) * 4 / 3
	for from := 0; len(s)-from >= least; {
		n := count(s[from:], alphabet)
		if n >= least {
			word := strings.ReplaceAll(strings.ReplaceAll(s[from:from+n], "-", "+"), "_", "/")
			// The end of a word without padding may be incomplete, so it is left out.
			plain, err := base64.RawStdEncoding.DecodeString(word[:n-n%4])
			if err == nil && (holdsToken(string(plain)) || holdsJWT(string(plain))) {
				return true
			}
		}
		from += n + 1
	}
	return false
}

func holdsToken(s string) bool {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '_')
		if i < 0 {
			return false
		}
		at := from + i
		if at >= kindLength && slices.Contains(kinds(), s[at-kindLength:at]) && count(s[at+1:], base62) >= ownLeast {
			return true
		}
		from = at + 1
	}
}

func holdsJWT(s string) bool {
	return slices.ContainsFunc(jwtParts(s), func(p part) bool { return signedHere(s[p.from:p.to]) })
}

// signedHere reports whether a JSON web token has the header of those that services sign.
func signedHere(token string) bool {
	head, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return false
	}
	var header struct {
		Alg string `json:"alg"`
		Typ string `json:"typ"`
	}
	if json.Unmarshal(raw, &header) != nil || header.Alg != "EdDSA" {
		return false
	}
	return header.Typ == TypAccess || header.Typ == TypCaller
}
