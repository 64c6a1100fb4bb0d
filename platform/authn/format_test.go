package authn_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// forge returns a token with this header and these claims, signed with the key, so that only the rule under test can
// reject it.
func forge(t *testing.T, key ed25519.PrivateKey, header, claims string) string {
	t.Helper()
	text := segment(header) + "." + segment(claims)
	sig, err := key.Sign(rand.Reader, []byte(text), crypto.Hash(0))
	require.NoError(t, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func object(t *testing.T, base, change map[string]any) string {
	t.Helper()
	m := maps.Clone(base)
	for k, v := range change {
		if v == nil {
			delete(m, k)
			continue
		}
		m[k] = v
	}
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	return string(raw)
}

func goodHeader(key authn.SigningKey) map[string]any {
	return map[string]any{"alg": "EdDSA", "typ": "svc-caller+jwt", "kid": key.ID}
}

func goodClaims(now time.Time) map[string]any {
	return map[string]any{
		"iss": "signalbox-edge", "aud": "signalbox-services", "sub": "usr_1", "jti": "j1",
		"iat": now.Unix(), "exp": now.Unix() + 60, "kind": "user", "role": "operator",
	}
}

func (b harness) refuses(t *testing.T, token, why string) {
	t.Helper()
	_, _, err := b.verifier.Verify(t.Context(), token)
	require.Error(t, err, why)
	require.True(t, fault.Is(err, fault.Unauthenticated), why)
	require.Contains(t, []string{authn.CodeTokenInvalid, authn.CodeTokenExpired}, fault.From(err).Code, why)
}

func TestVerifier_headerMustBeExact(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	claims := object(t, goodClaims(b.clk.Now()), nil)
	_, _, err := b.verifier.Verify(t.Context(), forge(t, b.key.Private, object(t, goodHeader(b.key), nil), claims))
	require.NoError(t, err, "an unmodified header must be accepted")

	for name, change := range map[string]map[string]any{
		"alg none": {"alg": "none"}, "alg None": {"alg": "None"}, "alg HS256": {"alg": "HS256"}, "alg list": {"alg": []string{"EdDSA"}},
		"no alg": {"alg": nil}, "typ of an access token": {"typ": "at+jwt"}, "typ JWT": {"typ": "JWT"}, "typ case": {"typ": "SVC-caller+jwt"},
		"no typ": {"typ": nil}, "no kid": {"kid": nil}, "kid number": {"kid": 1}, "kid path": {"kid": "../../dev/null"},
		"kid sql": {"kid": "' OR 1=1 --"}, "kid unknown": {"kid": "other"},
		"jku": {"jku": "https://evil.example/keys"}, "jwk": {"jwk": map[string]string{"kty": "OKP"}}, "x5u": {"x5u": "https://evil.example"},
		"x5c": {"x5c": []string{"a"}}, "crit": {"crit": []string{"exp"}}, "b64": {"b64": false}, "cty": {"cty": "JWT"},
	} {
		b.refuses(t, forge(t, b.key.Private, object(t, goodHeader(b.key), change), claims), name)
	}
}

func TestVerifier_claimsMustBeComplete(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	now := b.clk.Now()
	header := object(t, goodHeader(b.key), nil)
	for name, change := range map[string]map[string]any{
		"no exp": {"exp": nil}, "exp passed": {"exp": now.Unix() - 31, "iat": now.Unix() - 60}, "exp text": {"exp": "soon"},
		"lifetime too long": {"exp": now.Unix() + 61}, "iat ahead": {"iat": now.Unix() + 3600, "exp": now.Unix() + 3660},
		"no iat": {"iat": nil}, "no jti": {"jti": nil}, "no aud": {"aud": nil}, "other aud": {"aud": "other"},
		"two aud": {"aud": []string{"signalbox-services", "other"}}, "no iss": {"iss": nil}, "other iss": {"iss": "evil"},
		"not yet": {"nbf": now.Unix() + 3600}, "no kind": {"kind": nil}, "kind agent": {"kind": "agent"}, "no role": {"role": nil},
		"no sub": {"sub": nil}, "kind not a string": {"kind": 7}, "role unknown": {"role": "root"},
	} {
		b.refuses(t, forge(t, b.key.Private, header, object(t, goodClaims(now), change)), name)
	}
}

func TestVerifier_duplicateNames(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	header := object(t, goodHeader(b.key), nil)
	claims := object(t, goodClaims(b.clk.Now()), nil)
	open := strings.TrimSuffix(claims, "}")
	for name, text := range map[string]string{
		"same name":    open + `,"sub":"usr_2"}`,
		"case variant": open + `,"SUB":"usr_2"}`,
		"nested":       open + `,"x":[{"a":1,"A":2}]}`,
		"escaped":      open + `,"s\u0075b":"usr_2"}`,
		"two objects":  claims + claims,
		"a list":       "[" + claims + "]",
		"deep":         open + `,"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}",
		"deep objects": open + `,"x":` + strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50) + "}",
		"truncated":    open,
		"empty":        "",
	} {
		b.refuses(t, forge(t, b.key.Private, header, text), name)
	}
	twice := strings.TrimSuffix(header, "}") + `,"kid":"other"}`
	b.refuses(t, forge(t, b.key.Private, twice, claims), "kid twice")
}

func TestVerifier_signatureAndSegments(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	other, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	header, claims := object(t, goodHeader(b.key), nil), object(t, goodClaims(b.clk.Now()), nil)
	good := forge(t, b.key.Private, header, claims)
	parts := strings.Split(good, ".")

	public := b.key.Public().Key
	mac := hmac.New(sha256.New, public)
	hs := segment(object(t, goodHeader(b.key), map[string]any{"alg": "HS256"})) + "." + parts[1]
	mac.Write([]byte(hs))

	for name, token := range map[string]string{
		"other key, same id":       forge(t, other.Private, header, claims),
		"hmac with the public key": hs + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)),
		"no signature":             parts[0] + "." + parts[1] + ".",
		"two segments":             parts[0] + "." + parts[1],
		"five segments (JWE)":      good + ".a.b",
		"padding":                  good + "=",
		"white space":              good + " ",
		"empty":                    "",
		"dots":                     "..",
		"claims of other user":     parts[0] + "." + segment(object(t, goodClaims(b.clk.Now()), map[string]any{"sub": "usr_2"})) + "." + parts[2],
		"trailing bits":            good[:len(good)-1] + "B",
	} {
		b.refuses(t, token, name)
	}
}

func TestVerifier_flippedCharacter(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	token, _, err := b.signer.Sign(operator())
	require.NoError(t, err)
	for i := range len(token) {
		flipped := []byte(token)
		flipped[i] ^= 1
		b.refuses(t, string(flipped), fmt.Sprintf("character %d", i))
	}
}

func TestVerifier_sizeLimit(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	header := object(t, goodHeader(b.key), nil)
	for size, ok := range map[int]bool{30 << 10: true, 60 << 10: false} {
		claims := object(t, goodClaims(b.clk.Now()), map[string]any{"name": strings.Repeat("x", size)})
		_, _, err := b.verifier.Verify(t.Context(), forge(t, b.key.Private, header, claims))
		require.Equal(t, ok, err == nil, size)
	}
}

func TestFormat_Verify_tokenOfOtherFormat(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	access := authn.Format{Typ: "at+jwt", Issuer: "https://box", Audience: "api", Lifetime: time.Hour, Leeway: time.Minute, MaxBytes: 4096}
	claims := struct {
		Role string `json:"role"`
		Sub  string `json:"sub"`
	}{"admin", "usr_evil"}
	token, err := access.Sign(b.key, b.clk.Now(), "usr_1", "j1", claims)
	require.NoError(t, err)
	b.refuses(t, token, "an access token is not a caller token")

	keys := authn.StaticKeys(b.clk, b.key.Public())
	got := claims
	std, err := access.Verify(t.Context(), keys, b.clk.Now(), token, &got)
	require.NoError(t, err)
	require.Equal(t, "usr_1", std.Subject, "a format's own claims cannot replace the standard ones")
	require.Equal(t, "j1", std.ID)

	caller, _, err := b.signer.Sign(operator())
	require.NoError(t, err)
	_, err = access.Verify(t.Context(), keys, b.clk.Now(), caller, &got)
	require.True(t, fault.Is(err, fault.Unauthenticated))

	later := clock.NewFake(b.clk.Now().Add(time.Hour + 31*time.Second))
	_, err = access.Verify(t.Context(), keys, later.Now(), token, &got)
	require.True(t, fault.HasCode(err, authn.CodeTokenExpired), "leeway is capped at 30 s")
}

func TestFormat_Sign_invalidInput(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	f := authn.CallerFormat()
	_, err := f.Sign(b.key, b.clk.Now(), "s", "", struct{}{})
	require.ErrorContains(t, err, "jti")
	_, err = f.Sign(b.key, b.clk.Now(), "s", "j", []int{1})
	require.ErrorContains(t, err, "object")
	_, err = f.Sign(b.key, b.clk.Now(), "s", "j", func() {})
	require.Error(t, err)
}

func FuzzVerify(f *testing.F) {
	f.Add("a.b.c")
	f.Add(segment(`{"alg":"EdDSA","typ":"svc-caller+jwt","kid":"k"}`) + "." + segment(`{}`) + ".")
	clk := clock.NewFake(time.Unix(1, 0))
	v := authn.NewVerifier(clk, authn.StaticKeys(clk))
	f.Fuzz(func(t *testing.T, token string) {
		_, _, err := v.Verify(t.Context(), token)
		require.True(t, fault.Is(err, fault.Unauthenticated))
	})
}
