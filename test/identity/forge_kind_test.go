package identity_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// strongerClaims returns the claims of a caller who wants more rights than the valid token gives.
func (f *forger) strongerClaims() object {
	return with(f.claims, pick(f,
		object{}, object{"role": "admin"}, object{"sub": fmt.Sprint("usr_", f.draw.Uint64())}, object{"exp": 4102444800},
		object{"sid": fmt.Sprint("ses_", f.draw.Uint64())}, object{"epoch": f.draw.IntN(100)}, object{"jti": fmt.Sprint(f.draw.Uint64())},
		object{"aud": []string{"signalbox-api", "signalbox-mcp"}}, object{"iss": "signalbox-edge"}, object{"exp": nil}, object{"nbf": 4102444800}))
}

func (f *forger) signature() string { return f.good[strings.LastIndexByte(f.good, '.')+1:] }

// unknownKey returns a random key that the installation does not know.
func (f *forger) unknownKey() ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(f.draw.Uint32())
	}
	return ed25519.NewKeyFromSeed(seed)
}

// signedWithUnknownKey returns a token that is signed with a key that the installation does not know.
func (f *forger) signedWithUnknownKey(header, claims any) string {
	text := segment(header) + "." + segment(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(f.unknownKey(), []byte(text)))
}

func (f *forger) unsigned() string {
	header := with(f.header, object{"alg": pick[any](f, "none", "None", "NONE", "nOnE", "", nil, []string{"none"}, 0)})
	return segment(header) + "." + segment(f.strongerClaims()) + "." + pick(f, "", f.signature(), "AA", segment(""))
}

func (f *forger) hmac() string {
	der, _ := x509.MarshalPKIXPublicKey(ed25519.PublicKey(f.public))
	keys := [][]byte{
		f.public, []byte(base64.RawURLEncoding.EncodeToString(f.public)), der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		[]byte(f.jwks), []byte(f.kid), nil, []byte("secret"), []byte("changeme"),
	}
	algorithms := map[string]func() hash.Hash{"HS256": sha256.New, "HS384": sha512.New384, "HS512": sha512.New}
	name := pick(f, "HS256", "HS384", "HS512")
	text := segment(with(f.header, object{"alg": pick(f, name, "EdDSA")})) + "." + segment(f.strongerClaims())
	mac := hmac.New(algorithms[name], pick(f, keys...))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (f *forger) strangersKey() string {
	return f.signedWithUnknownKey(with(f.header, pick(f, object{}, object{"kid": nil}, object{"kid": "AAAAAAAAAAAAAAAA"}, object{"typ": "JWT"},
		object{"typ": "svc-caller+jwt"}, object{"typ": nil}, object{"kid": strings.ToLower(f.kid)})), f.strongerClaims())
}

func (f *forger) otherAlgorithm() string {
	return f.signedWithUnknownKey(with(f.header, object{"alg": pick(f, "ES256", "RS256", "PS512", "ES256K", "Ed25519", "eddsa", "EDDSA", "ECDH-ES", "dir")}), f.strongerClaims())
}

// keyReferences returns a token whose header contains or links to a key of the forger.
func (f *forger) keyReferences() string {
	own := f.unknownKey()
	x := base64.RawURLEncoding.EncodeToString(own.Public().(ed25519.PublicKey))
	jwk := object{"kty": "OKP", "crv": "Ed25519", "x": x, "kid": f.kid}
	header := with(f.header, pick(f, object{"jwk": jwk}, object{"jku": "https://keys.example/jwks.json"}, object{"x5u": "file:///etc/passwd"},
		object{"x5c": []string{x}}, object{"crit": []string{"exp"}}, object{"crit": []string{"b64"}, "b64": false}, object{"zip": "DEF"}, object{"cty": "JWT"},
		object{"jku": "http://127.0.0.1:1/"}, object{"p2c": 1 << 30}))
	text := segment(header) + "." + segment(f.strongerClaims())
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(own, []byte(text)))
}

func (f *forger) kids() string {
	return f.signedWithUnknownKey(with(f.header, object{"kid": pick[any](f, "../../../../dev/null", "/proc/self/environ", "' OR 1=1 --",
		"x' UNION SELECT '\\x00'::bytea --", f.kid+"\x00", f.kid+" ", "%00", "", 0, nil, []string{f.kid}, object{"$ne": ""},
		strings.Repeat("k", 1+f.draw.IntN(2000)), fmt.Sprint(f.draw.Uint64()), "|id", "\u202e"+f.kid)}), f.strongerClaims())
}

func (f *forger) twice() string {
	claims, _ := json.Marshal(f.claims)
	header, _ := json.Marshal(f.header)
	more := pick(f, `"sub":"usr_2"`, `"SUB":"usr_2"`, `"role":"admin"`, `"Exp":4102444800`, `"exp":4102444800`, `"\u0073ub":"usr_2"`)
	head := pick(f, string(header), strings.TrimSuffix(string(header), "}")+`,"alg":"none"}`, strings.TrimSuffix(string(header), "}")+`,"kid":"x"}`)
	body := strings.TrimSuffix(string(claims), "}") + "," + more + pick(f, "}", "} {}", "}\n", "}//")
	if f.draw.IntN(2) == 0 {
		return f.signedWithUnknownKey(head, body)
	}
	return segment(head) + "." + segment(body) + "." + f.signature()
}

func (f *forger) encrypted() string {
	header := object{"alg": pick(f, "dir", "RSA-OAEP", "ECDH-ES", "PBES2-HS256+A128KW"), "enc": "A256GCM", "kid": f.kid, "typ": f.header["typ"]}
	blob := func() string { return segment(fmt.Sprint(f.draw.Uint64(), f.draw.Uint64())) }
	return pick(f,
		segment(header)+"."+blob()+"."+blob()+"."+blob()+"."+blob(), segment(header)+".."+blob()+"."+blob()+"."+blob(),
		segment(f.header)+"."+segment(f.good)+"."+f.signature(), f.good+"."+f.good, f.good+".a.b")
}

// dots returns a token of many empty parts, sometimes a megabyte of them.
func (f *forger) dots() string {
	n := 1 + f.draw.IntN(5000)
	if f.draw.IntN(50) == 0 {
		n = 1 << 20
	}
	return strings.Repeat(pick(f, ".", ".", "a.", "..A"), n)
}

func (f *forger) otherClaims() string {
	parts := strings.Split(f.good, ".")
	claims := with(f.strongerClaims(), object{"n": f.draw.Uint64()})
	return parts[0] + "." + segment(claims) + "." + parts[2]
}

func (f *forger) flipped() string {
	b := []byte(f.good)
	for range 1 + f.draw.IntN(3) {
		at := f.draw.IntN(len(b))
		b[at] = alphabet[f.draw.IntN(len(alphabet))]
	}
	return string(b)
}

func (f *forger) cut() string {
	at := f.draw.IntN(len(f.good))
	n := 1 + f.draw.IntN(len(f.good)-at)
	return pick(f, f.good[:at]+f.good[at+n:], f.good[:at]+f.good[at:at+n]+f.good[at:], f.good[at:]+f.good[:at])
}

// reencoded returns the valid token in another encoding that a lax decoder would decode to the same token.
func (f *forger) reencoded() string {
	parts := strings.Split(f.good, ".")
	i := f.draw.IntN(3)
	last := len(parts[i]) - 1
	loose := parts[i][:last] + string(alphabet[strings.IndexByte(alphabet, parts[i][last])^1])
	text := func(part string) string { return strings.Join(replaced(parts, i, part), ".") }
	raw, _ := base64.RawURLEncoding.DecodeString(parts[i])
	return pick(f, text(parts[i]+"="), text(parts[i]+"=="), text(loose), text(parts[i]+"A"), text(strings.ToUpper(parts[i])),
		text(parts[i]+" "+fmt.Sprint(f.draw.IntN(9))), text("%"+parts[i]), text(base64.StdEncoding.EncodeToString(append(raw, byte(f.draw.Uint32())))),
		"Bearer "+f.good, f.good+","+f.good, f.good+"\t"+fmt.Sprint(f.draw.IntN(99)), `"`+f.good+`"`, strings.ReplaceAll(f.good, ".", "%2e"))
}

func replaced(parts []string, i int, part string) []string {
	out := append([]string{}, parts...)
	out[i] = part
	return out
}

func (f *forger) randomSignature() string {
	sig := make([]byte, pick(f, 64, 64, 64, 0, 1, 63, 65, 128))
	if f.draw.IntN(3) > 0 {
		for i := range sig {
			sig[i] = byte(f.draw.Uint32())
		}
	}
	claims := f.strongerClaims()
	if f.draw.IntN(2) == 0 {
		claims = f.claims
	}
	return segment(f.header) + "." + segment(claims) + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// opaque returns an opaque token that was never issued, either alone or joined to parts of the forged JWT.
func (f *forger) opaque() string {
	token, err := secret.Mint(crand.Reader, pick(f, secret.KindIngest, secret.KindDeployment, secret.KindRefresh, secret.KindFleetJoin, secret.KindShare, secret.KindDevice))
	if err != nil {
		panic(err)
	}
	return pick(f, token.Reveal(), token.Reveal()+"."+segment(f.claims)+"."+f.signature(), segment(f.header)+"."+token.Reveal()+"."+f.signature())
}

// mixed returns a forgery of another kind with one letter changed.
func (f *forger) mixed() string {
	b := []byte(pick(f, f.unsigned, f.hmac, f.strangersKey, f.keyReferences, f.kids, f.twice)())
	b[f.draw.IntN(len(b))] = alphabet[f.draw.IntN(len(alphabet))]
	return string(b)
}
