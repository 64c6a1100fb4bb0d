package authn_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// signed is one kind of signed credential: a valid token and its verification.
type signed struct {
	token  string
	verify func(token string) error
}

// kinds returns one credential of each kind: an access token for the API, an access token for the MCP resource, which
// differs only in its audience, and a caller token, which the gateway sends to services.
func kinds(t *testing.T, b harness) map[string]signed {
	t.Helper()
	keys := authn.StaticKeys(b.clk, b.key.Public())
	out := map[string]signed{}
	for name, audience := range map[string]string{"access": "api", "mcp": "mcp"} {
		f := authn.Format{Typ: "at+jwt", Issuer: "https://box", Audience: audience, Lifetime: time.Hour, MaxBytes: 4096}
		token, err := f.Sign(b.key, b.clk.Now(), "usr_1", "j1", map[string]string{"role": "operator"})
		require.NoError(t, err)
		out[name] = signed{token, func(token string) error {
			_, err := f.Verify(t.Context(), keys, b.clk.Now(), token, &struct{}{})
			return err
		}}
	}
	caller, _, err := b.signer.Sign(operator())
	require.NoError(t, err)
	out["caller"] = signed{caller, func(token string) error {
		_, _, err := b.verifier.Verify(t.Context(), token)
		return err
	}}
	return out
}

// If a token could be written in several ways, revocation, caches and logs would match only one of them.
func TestVerify_rejectsInsertedBytes(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	for kind, c := range kinds(t, b) {
		require.NoError(t, c.verify(c.token), kind)
		for at := range len(c.token) + 1 {
			for _, extra := range []string{"\r", "\n", "\r\n", " ", "\t", "\x00", "=", "~", "\u00a0", "\ufeff"} {
				variant := c.token[:at] + extra + c.token[at:]
				err := c.verify(variant)
				require.True(t, fault.HasCode(err, authn.CodeTokenInvalid), "%s: %q at %d: %v", kind, extra, at, err)
			}
		}
	}
}

func TestVerify_rejectsOtherBase64Encodings(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	reencode := func(token string, segment int, to *base64.Encoding) string {
		parts := strings.Split(token, ".")
		raw, err := base64.RawURLEncoding.DecodeString(parts[segment])
		require.NoError(t, err)
		parts[segment] = to.EncodeToString(raw)
		return strings.Join(parts, ".")
	}
	for kind, c := range kinds(t, b) {
		for segment := range 3 {
			for name, variant := range map[string]string{
				"padded":     reencode(c.token, segment, base64.URLEncoding),
				"standard":   reencode(c.token, segment, base64.StdEncoding),
				"loose bits": looseBits(c.token, segment),
			} {
				if variant != c.token {
					require.True(t, fault.HasCode(c.verify(variant), authn.CodeTokenInvalid), "%s: segment %d %s", kind, segment, name)
				}
			}
		}
		require.NotEqual(t, c.token, looseBits(c.token, 2), "64 bytes leave four bits of the last character unused, so the variant differs")
	}
}

// looseBits sets an unused bit of a segment's last character, if that character has one.
func looseBits(token string, segment int) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	parts := strings.Split(token, ".")
	text := parts[segment]
	if len(text)%4 != 0 {
		last := strings.IndexByte(digits, text[len(text)-1])
		parts[segment] = text[:len(text)-1] + digits[last|1:last|1+1]
	}
	return strings.Join(parts, ".")
}

// The signatures (R, S) and (R, S + order of the group) satisfy the same equation. Only the first is accepted.
func TestVerify_rejectsMalleatedSignature(t *testing.T) {
	t.Parallel()
	order, ok := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	require.True(t, ok)
	b := newHarness(t)
	for kind, c := range kinds(t, b) {
		parts := strings.Split(c.token, ".")
		sig, err := base64.RawURLEncoding.DecodeString(parts[2])
		require.NoError(t, err)
		require.Len(t, sig, ed25519.SignatureSize)
		s := slices.Clone(sig[32:])
		slices.Reverse(s) // little endian on the wire
		moved := new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(make([]byte, 32))
		slices.Reverse(moved)
		parts[2] = base64.RawURLEncoding.EncodeToString(append(sig[:32:32], moved...))
		require.True(t, fault.HasCode(c.verify(strings.Join(parts, ".")), authn.CodeTokenInvalid), kind)
	}
}

func TestVerifier_clockLeeway(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	header := object(t, goodHeader(b.key), nil)
	now := b.clk.Now().Unix()
	for name, c := range map[string]struct {
		iat, exp, nbf int64
		ok            bool
		code          string
	}{
		"expired 29 s ago":      {now - 89, now - 29, now - 89, true, ""},
		"expired 31 s ago":      {now - 91, now - 31, now - 91, false, authn.CodeTokenExpired},
		"issued 29 s ahead":     {now + 29, now + 89, now, true, ""},
		"issued 31 s ahead":     {now + 31, now + 91, now, false, authn.CodeTokenInvalid},
		"valid from 29 s ahead": {now, now + 60, now + 29, true, ""},
		"valid from 31 s ahead": {now, now + 60, now + 31, false, authn.CodeTokenInvalid},
		"lifetime 1 s too long": {now - 1, now + 60, now, false, authn.CodeTokenInvalid},
		"maximum lifetime":      {now, now + 60, now, true, ""},
	} {
		claims := object(t, goodClaims(b.clk.Now()), map[string]any{"iat": c.iat, "exp": c.exp, "nbf": c.nbf})
		_, _, err := b.verifier.Verify(t.Context(), forge(t, b.key.Private, header, claims))
		require.Equal(t, c.ok, err == nil, "%s: %v", name, err)
		require.True(t, c.ok || fault.HasCode(err, c.code), "%s: %v", name, err)
	}
}

func TestFormat_Verify_leewayCappedAt30s(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	f := authn.Format{Typ: "at+jwt", Issuer: "i", Audience: "a", Lifetime: time.Minute, Leeway: time.Hour, MaxBytes: 4096}
	token, err := f.Sign(b.key, b.clk.Now(), "usr_1", "j", map[string]string{})
	require.NoError(t, err)
	keys := authn.StaticKeys(b.clk, b.key.Public())
	for after, ok := range map[time.Duration]bool{89 * time.Second: true, 91 * time.Second: false} {
		_, err := f.Verify(t.Context(), keys, b.clk.Now().Add(after), token, &struct{}{})
		require.Equal(t, ok, err == nil, after)
	}
}

func TestFormat_maxBytes(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	f := authn.Format{Typ: "at+jwt", Issuer: "i", Audience: "a", Lifetime: time.Minute, MaxBytes: 4096}
	token, err := f.Sign(b.key, b.clk.Now(), "usr_1", "j", map[string]string{"x": strings.Repeat("x", 100)})
	require.NoError(t, err)
	keys := authn.StaticKeys(b.clk, b.key.Public())
	for cap, ok := range map[int]bool{len(token): true, len(token) - 1: false} {
		f.MaxBytes = cap
		_, err := f.Verify(t.Context(), keys, b.clk.Now(), token, &struct{}{})
		require.Equal(t, ok, err == nil)
		_, err = f.Sign(b.key, b.clk.Now(), "usr_1", "j", map[string]string{"x": strings.Repeat("x", 100)})
		require.Equal(t, ok, err == nil, "Sign has the same limit as Verify")
	}
}
