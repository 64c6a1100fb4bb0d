package authn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Error codes of rejected tokens.
const (
	CodeTokenExpired = "token_expired"
	CodeTokenInvalid = "token_invalid"
)

const maxDepth = 8

// alphabet holds the characters allowed in a token. Base64 decoders skip line breaks. Without a check of the
// characters, the same token could be written in several ways, and a revocation or a cache entry would match only one
// of them.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

// Format describes one kind of signed token. Verify requires a token to match all fields.
type Format struct {
	Typ      string
	Issuer   string
	Audience string
	// Lifetime is how long a token from Sign is valid. It is also the longest lifetime that Verify accepts.
	Lifetime time.Duration
	// Leeway is the tolerated clock difference between two hosts. Verify caps it at 30 s.
	Leeway time.Duration
	// MaxBytes is the maximum length of a token.
	MaxBytes int
}

// Registered are the standard claims of a verified token, and the id of the key that signed it.
type Registered struct {
	KeyID   string
	Subject string
	ID      string
	Issued  time.Time
	Expires time.Time
}

type registered struct {
	Issuer   string           `json:"iss"`
	Subject  string           `json:"sub,omitempty"`
	Audience string           `json:"aud"`
	Expires  *jwt.NumericDate `json:"exp"`
	Issued   *jwt.NumericDate `json:"iat"`
	ID       string           `json:"jti"`
}

// Sign returns a token of this format for a subject. The jti must be unique. The parameter claims holds additional
// claims. It must encode to a JSON object and cannot override the standard claims.
func (f Format) Sign(key SigningKey, now time.Time, subject, jti string, claims any) (string, error) {
	if jti == "" {
		return "", errors.New("sign a token: jti is empty")
	}
	body, err := json.Marshal(registered{
		Issuer: f.Issuer, Subject: subject, Audience: f.Audience, ID: jti,
		Issued: jwt.NewNumericDate(now), Expires: jwt.NewNumericDate(now.Add(f.Lifetime)),
	})
	if err != nil {
		return "", fmt.Errorf("encode the claims: %w", err)
	}
	own, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encode the claims: %w", err)
	}
	merged := map[string]json.RawMessage{}
	for _, part := range [][]byte{own, body} {
		if err := json.Unmarshal(part, &merged); err != nil {
			return "", fmt.Errorf("the claims must be a JSON object: %w", err)
		}
	}
	all := jwt.MapClaims{}
	for name, value := range merged {
		all[name] = value
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, all)
	token.Header = map[string]any{"alg": "EdDSA", "typ": f.Typ, "kid": key.ID}
	text, err := token.SignedString(key.Private)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	if len(text) > f.MaxBytes {
		return "", fmt.Errorf("sign a token: %d bytes exceed the maximum of %d", len(text), f.MaxBytes)
	}
	return text, nil
}

// Verify checks a token and decodes its claims into the struct that the parameter claims points to. For a rejected
// token it returns an error of kind unauthenticated. If keys.Find fails, Verify returns its error.
func (f Format) Verify(ctx context.Context, keys KeySource, now time.Time, token string, claims any) (Registered, error) {
	var none Registered
	payload, kid, err := f.open(token)
	if err != nil {
		return none, refuse(err)
	}
	key, err := keys.Find(ctx, kid)
	if err != nil {
		return none, err
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithAudience(f.Audience), jwt.WithIssuer(f.Issuer), jwt.WithLeeway(min(f.Leeway, 30*time.Second)),
		jwt.WithTimeFunc(func() time.Time { return now }), jwt.WithStrictDecoding(),
	)
	std := &jwt.RegisteredClaims{}
	if _, err := parser.ParseWithClaims(token, std, func(*jwt.Token) (any, error) { return key, nil }); err != nil {
		return none, refuse(err)
	}
	switch {
	case std.ID == "":
		return none, refuse(errors.New("the claim jti is missing"))
	case std.IssuedAt == nil:
		return none, refuse(errors.New("the claim iat is missing"))
	case len(std.Audience) != 1:
		return none, refuse(errors.New("the token must have exactly one audience"))
	case std.ExpiresAt.Sub(std.IssuedAt.Time) > f.Lifetime:
		return none, refuse(errors.New("the lifetime exceeds the maximum of the format"))
	}
	if err := json.Unmarshal(payload, claims); err != nil {
		return none, refuse(fmt.Errorf("read the claims: %w", err))
	}
	return Registered{KeyID: kid, Subject: std.Subject, ID: std.ID, Issued: std.IssuedAt.UTC(), Expires: std.ExpiresAt.UTC()}, nil
}

// open does all checks that need no key. It returns the decoded claims and the id of the key.
func (f Format) open(token string) (payload []byte, kid string, err error) {
	if len(token) > f.MaxBytes {
		return nil, "", errors.New("the token exceeds the maximum size")
	}
	if strings.Trim(token, alphabet) != "" {
		return nil, "", errors.New("the token contains a character outside base64url")
	}
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return nil, "", errors.New("the token does not have three segments")
	}
	raw, err := decodeObject(parts[0])
	if err != nil {
		return nil, "", fmt.Errorf("parse the header: %w", err)
	}
	header := map[string]any{}
	if err := json.Unmarshal(raw, &header); err != nil {
		return nil, "", fmt.Errorf("parse the header: %w", err)
	}
	kid, _ = header["kid"].(string)
	if len(header) != 3 || header["alg"] != "EdDSA" || header["typ"] != f.Typ || kid == "" {
		return nil, "", errors.New("the header must have exactly alg EdDSA, the expected typ and a kid")
	}
	payload, err = decodeObject(parts[1])
	if err != nil {
		return nil, "", fmt.Errorf("parse the claims: %w", err)
	}
	return payload, kid, nil
}

func decodeObject(segment string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(segment)
	if err != nil {
		return nil, fmt.Errorf("not base64url: %w", err)
	}
	// encoding/json, which decodes the object later, uses the last of two equal names and accepts `SUB` for `sub`. Other
	// parsers may not, so names that differ only in case are duplicates.
	rules := canon.Rules{Depth: maxDepth, FoldNames: true}
	err = canon.Read(raw, rules, func(r *canon.Reader) error {
		return r.Object(func(string) error { return r.Skip() })
	})
	if err != nil {
		return nil, err
	}
	return raw, nil
}

func refuse(cause error) error {
	if errors.Is(cause, jwt.ErrTokenExpired) {
		return fault.New(fault.Unauthenticated, CodeTokenExpired, "the credential has expired").Wrap(cause)
	}
	return fault.New(fault.Unauthenticated, CodeTokenInvalid, "Could not validate credentials").Wrap(cause)
}
