package session

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

type object = map[string]any

// tokenForger is an issuer that also signs forged tokens with the real key.
type tokenForger struct {
	*Access

	clock *clock.Fake
	key   authn.SigningKey
}

func newTokenForger(t *testing.T) *tokenForger {
	t.Helper()
	key, err := authn.NewSigningKey(rand.Reader)
	require.NoError(t, err)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	return &tokenForger{Access: NewAccess(singleKey{key}, 8*time.Hour, clk), clock: clk, key: key}
}

// singleKey implements keys with a single key.
type singleKey struct{ key authn.SigningKey }

func (o singleKey) Find(_ context.Context, kid string) (ed25519.PublicKey, error) {
	if kid != o.key.ID {
		return nil, badToken(errToken)
	}
	return o.key.Public().Key, nil
}

func (o singleKey) Latest(context.Context, pg.Querier) (authn.SigningKey, error) { return o.key, nil }

func (m *tokenForger) validToken(t *testing.T) string {
	t.Helper()
	token, err := m.issue(t.Context(), nil, live{sessionID: "ses_1", accountID: "usr_1", role: "operator", epoch: 3}, nil, "tok_1")
	require.NoError(t, err)
	return token.Reveal()
}

func (m *tokenForger) header() object {
	return object{"alg": "EdDSA", "typ": "at+jwt", "kid": m.key.ID}
}

func (m *tokenForger) claims() object {
	now := m.clock.Now().Unix()
	return object{
		"iss": "signalbox", "aud": "signalbox-api", "sub": "usr_1", "jti": "tok_1", "iat": now, "exp": now + 8*3600,
		"sid": "ses_1", "role": "operator", "epoch": 3,
	}
}

func segment(v any) string {
	raw, ok := v.(string)
	if !ok {
		b, _ := json.Marshal(v)
		raw = string(b)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(raw))
}

// signed returns a token with this header and these claims, signed with the real key.
func (m *tokenForger) signed(header, claims any) string {
	text := segment(header) + "." + segment(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(m.key.Private, []byte(text)))
}

// with returns a copy of the object with some fields changed. A nil value deletes the field.
func with(o object, changes object) object {
	out := maps.Clone(o)
	for k, v := range changes {
		if out[k] = v; v == nil {
			delete(out, k)
		}
	}
	return out
}

func (m *tokenForger) accepts(t *testing.T, token string) bool {
	t.Helper()
	_, _, err := m.verify(t.Context(), token, nil)
	if err != nil {
		require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	}
	return err == nil
}

func TestAccess_verify_ownToken(t *testing.T) {
	t.Parallel()
	m := newTokenForger(t)
	registered, c, err := m.verify(t.Context(), m.validToken(t), nil)
	require.NoError(t, err)
	require.Equal(t, "usr_1", registered.Subject)
	require.Equal(t, m.key.ID, registered.KeyID)
	require.Equal(t, claims{SessionID: "ses_1", Role: "operator", Epoch: 3}, c)
	require.True(t, m.accepts(t, m.signed(m.header(), m.claims())), "this token is valid; the other tests change one field of it")
}

func TestAccess_verify_forgedHeader(t *testing.T) {
	t.Parallel()
	m := newTokenForger(t)
	for name, change := range map[string]object{
		"alg none": {"alg": "none"}, "alg None": {"alg": "None"}, "alg empty": {"alg": ""}, "no alg": {"alg": nil},
		"alg HS256": {"alg": "HS256"}, "alg ES256": {"alg": "ES256"}, "alg in lower case": {"alg": "eddsa"}, "alg is a list": {"alg": []string{"EdDSA"}},
		"no kid": {"kid": nil}, "unknown kid": {"kid": "AAAAAAAAAAAAAAAA"}, "kid is a path": {"kid": "../../dev/null"},
		"kid is SQL": {"kid": "' OR 1=1 --"}, "kid is a number": {"kid": 1},
		"no typ": {"typ": nil}, "typ JWT": {"typ": "JWT"}, "typ of callers": {"typ": "svc-caller+jwt"}, "typ in upper case": {"typ": "AT+JWT"},
		"jku": {"jku": "https://example.net/keys"}, "jwk": {"jwk": object{"kty": "OKP"}}, "x5u": {"x5u": "https://example.net"},
		"crit": {"crit": []string{"exp"}}, "cty": {"cty": "JWT"}, "zip": {"zip": "DEF"},
	} {
		require.False(t, m.accepts(t, m.signed(with(m.header(), change), m.claims())), name)
	}
	twice := fmt.Sprintf(`{"alg":"EdDSA","typ":"at+jwt","kid":%q,"alg":"EdDSA"}`, m.key.ID)
	require.False(t, m.accepts(t, m.signed(twice, m.claims())), "a header with a duplicate name is rejected")
}

func TestAccess_verify_forgedClaims(t *testing.T) {
	t.Parallel()
	m := newTokenForger(t)
	now := m.clock.Now().Unix()
	for name, change := range map[string]object{
		"iss of the edge": {"iss": "signalbox-edge"}, "no iss": {"iss": nil}, "iss with a slash": {"iss": "signalbox/"},
		"aud of services": {"aud": "signalbox-services"}, "no aud": {"aud": nil}, "aud of MCP": {"aud": "signalbox-mcp"},
		"two audiences": {"aud": []string{"signalbox-api", "signalbox-mcp"}},
		"expired":       {"exp": now - 60}, "no exp": {"exp": nil}, "exp is text": {"exp": "tomorrow"}, "exp is zero": {"exp": 0},
		"exp far away": {"exp": now + 365*24*3600}, "no iat": {"iat": nil}, "iat ahead": {"iat": now + 3600, "exp": now + 7200},
		"nbf ahead": {"nbf": now + 3600}, "no jti": {"jti": nil}, "jti empty": {"jti": ""},
		"sid is a list": {"sid": []string{"ses_1"}}, "epoch is text": {"epoch": "3"},
	} {
		require.False(t, m.accepts(t, m.signed(m.header(), with(m.claims(), change))), name)
	}
	raw, err := json.Marshal(m.claims())
	require.NoError(t, err)
	for _, more := range []string{`"sub":"usr_2"`, `"SUB":"usr_2"`, `"Epoch":9`} {
		require.False(t, m.accepts(t, m.signed(m.header(), string(raw[:len(raw)-1])+","+more+"}")), more)
	}
	require.False(t, m.accepts(t, m.signed(m.header(), string(raw)+" {}")), "text after the claims is rejected")
	require.False(t, m.accepts(t, m.signed(m.header(), "[]")))
	require.False(t, m.accepts(t, m.signed(m.header(), "null")))
}

func TestAccess_verify_forgedKey(t *testing.T) {
	t.Parallel()
	m := newTokenForger(t)
	body := segment(with(m.header(), object{"alg": "HS256"})) + "." + segment(m.claims())
	for name, key := range map[string][]byte{"public key": m.key.Public().Key, "empty key": nil, "kid": []byte(m.key.ID)} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(body))
		require.False(t, m.accepts(t, body+"."+base64.RawURLEncoding.EncodeToString(mac.Sum(nil))), "a token signed with HS256 and the "+name+" is rejected")
	}
	body = segment(m.header()) + "." + segment(m.claims())
	mac := hmac.New(sha256.New, m.key.Public().Key)
	mac.Write([]byte(body))
	require.False(t, m.accepts(t, body+"."+base64.RawURLEncoding.EncodeToString(mac.Sum(nil))))
	other := newTokenForger(t)
	require.False(t, m.accepts(t, other.signed(m.header(), m.claims())), "a signature of another key with the same kid is rejected")
	require.False(t, m.accepts(t, other.signed(other.header(), m.claims())), "a token of another installation is rejected")
}

func TestAccess_verify_malformedToken(t *testing.T) {
	t.Parallel()
	m := newTokenForger(t)
	good := m.validToken(t)
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"empty": "", "dots": "..", "a million dots": strings.Repeat(".", 1<<20), "two parts": parts[0] + "." + parts[1],
		"no signature": parts[0] + "." + parts[1] + ".", "five parts, as JWE": good + ".a.b", "four parts": good + ".a",
		"padding": good + "=", "space": " " + good, "line end": good + "\n", "bearer": "Bearer " + good,
		"standard base64": strings.NewReplacer("-", "+", "_", "/").Replace(parts[0]) + "." + parts[1] + "." + parts[2] + "+",
		"too large":       m.signed(m.header(), with(m.claims(), object{"pad": strings.Repeat("x", 4096)})),
		"deep":            m.signed(m.header(), with(m.claims(), object{"x": json.RawMessage(strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50))})),
	} {
		require.False(t, m.accepts(t, token), name)
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[2])
	require.NoError(t, err)
	require.Len(t, raw, ed25519.SignatureSize)
	loose := parts[2][:len(parts[2])-1] + string(nextOf(parts[2][len(parts[2])-1]))
	require.False(t, m.accepts(t, parts[0]+"."+parts[1]+"."+loose), "unused bits of the last character must be zero")
}

// nextOf returns another character that decodes to the same bytes if it is the last one of a token.
func nextOf(c byte) byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return alphabet[strings.IndexByte(alphabet, c)^1]
}

func TestAccess_verify_thousandForgeries(t *testing.T) {
	t.Parallel()
	m := newTokenForger(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed of the random forgeries is %d", seed)
	draw := mathrand.New(mathrand.NewPCG(seed, 1))
	good := []byte(m.validToken(t))
	accepted := 0
	for n := range 1000 {
		forged := append([]byte(nil), good...)
		switch n % 4 {
		case 0: // one character is replaced
			at := draw.IntN(len(forged))
			for forged[at] == good[at] {
				forged[at] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."[draw.IntN(65)]
			}
		case 1: // some characters are missing
			at := draw.IntN(len(forged) - 1)
			forged = append(forged[:at], forged[at+1+draw.IntN(len(forged)-at-1):]...)
		case 2: // other claims under the old signature
			parts := strings.Split(string(good), ".")
			change := object{[]string{"sub", "sid", "role", "jti"}[draw.IntN(4)]: fmt.Sprintf("admin%d", draw.Int())}
			forged = []byte(parts[0] + "." + segment(with(m.claims(), change)) + "." + parts[2])
		default: // a random signature
			at := strings.LastIndexByte(string(good), '.')
			sig := make([]byte, ed25519.SignatureSize)
			for i := range sig {
				sig[i] = byte(draw.Uint32())
			}
			forged = []byte(string(good[:at+1]) + base64.RawURLEncoding.EncodeToString(sig))
		}
		if m.accepts(t, string(forged)) {
			accepted++
			t.Logf("this forged token was accepted: %s", forged)
		}
	}
	require.Zero(t, accepted)
	require.True(t, m.accepts(t, string(good)))
}

func TestAccess_verify_times(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after time.Duration
		want  bool
	}{
		"at issue": {0, true}, "clock slightly behind": {-9 * time.Second, true}, "clock far behind": {-11 * time.Second, false},
		"a second before the end": {8*time.Hour - time.Second, true}, "within the leeway": {8*time.Hour + 9*time.Second, true},
		"past the leeway": {8*time.Hour + 11*time.Second, false},
	} {
		m := newTokenForger(t)
		token := m.validToken(t)
		m.clock.Advance(tc.after)
		require.Equal(t, tc.want, m.accepts(t, token), name)
	}
}
