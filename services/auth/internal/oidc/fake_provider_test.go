package oidc

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

type object = map[string]any

// confidence is a text that the provider includes in its error responses. It must not appear in any error of this
// package.
const confidence = "provider-said-hunter2"

// fakeProvider is an OpenID provider. Tests can override every part of its responses. Without overrides it is
// correct: it checks the client's secret, PKCE, and that a code is used once.
type fakeProvider struct {
	*httptest.Server

	t     *testing.T
	clock *clock.Fake
	key   ed25519.PrivateKey
	other ed25519.PrivateKey

	mu    sync.Mutex
	codes map[string]granted
	last  any // the subject of the access token
	overrides
}

// overrides change parts of responses before they are sent; nil fields change nothing.
type overrides struct {
	metadata, claims, header, keys, token, userinfo func(object)
	// sign returns the signature of the ID token. raw returns the ID token that replaces the given one.
	sign func(input string) []byte
	raw  func(token string) any
	// at replaces the handler of a path.
	at map[string]http.HandlerFunc
}

// granted is the sign-in for which a code was issued.
type granted struct {
	person           object
	nonce, challenge string
}

const (
	clientID     = "signalbox"
	clientSecret = "the client's secret of the tests"
)

func newFakeProvider(t *testing.T, clk *clock.Fake) *fakeProvider {
	t.Helper()
	l := &fakeProvider{t: t, clock: clk, codes: map[string]granted{}}
	var err error
	_, l.key, err = ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	_, l.other, err = ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	l.Server = httptest.NewUnstartedServer(l)
	l.Config.ErrorLog = log.New(io.Discard, "", 0)
	l.StartTLS()
	t.Cleanup(l.Close)
	return l
}

// ServeHTTP implements http.Handler.
func (l *fakeProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own := l.at[r.URL.Path]; own != nil {
		own(w, r)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		respond(w, l.apply(l.metadata, object{
			"issuer": l.URL, "authorization_endpoint": l.URL + "/authorize", "token_endpoint": l.URL + "/token",
			"jwks_uri": l.URL + "/keys", "userinfo_endpoint": l.URL + "/userinfo",
			"id_token_signing_alg_values_supported":          []string{"EdDSA", "HS256", "none"},
			"authorization_response_iss_parameter_supported": true,
		}))
	case "/keys":
		respond(w, l.apply(l.keys, object{"keys": []object{l.jwk("one", l.key)}}))
	case "/token":
		l.exchange(w, r)
	case "/userinfo":
		if r.Header.Get("Authorization") != "Bearer access" {
			http.Error(w, confidence, http.StatusUnauthorized)
			return
		}
		respond(w, l.apply(l.userinfo, object{"sub": l.last}))
	default:
		http.NotFound(w, r)
	}
}

func (l *fakeProvider) apply(override func(object), body object) object {
	if override != nil {
		override(body)
	}
	return body
}

func (l *fakeProvider) jwk(kid string, key ed25519.PrivateKey) object {
	return object{"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": kid, "x": encode(key.Public().(ed25519.PublicKey))}
}

// grant returns the code that the provider issues when a user signs in.
func (l *fakeProvider) grant(person object, nonce, challenge string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	code := rand.Text()
	l.codes[code] = granted{person: person, nonce: nonce, challenge: challenge}
	return code
}

func (l *fakeProvider) exchange(w http.ResponseWriter, r *http.Request) {
	user, pass, _ := r.BasicAuth()
	code := r.FormValue("code")
	g, ok := l.codes[code]
	delete(l.codes, code)
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	switch {
	case user != clientID || pass != "the+client%27s+secret+of+the+tests":
		refuse(w, http.StatusUnauthorized, object{"error": "invalid_client", "error_description": confidence + pass})
	case !ok, encode(sum[:]) != g.challenge, r.FormValue("redirect_uri") != publicURL+CallbackPath:
		refuse(w, http.StatusBadRequest, object{"error": "invalid_grant", "error_description": confidence + code})
	default:
		l.last = g.person["sub"]
		respond(w, l.apply(l.token, object{"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": l.idToken(g)}))
	}
}

func (l *fakeProvider) idToken(g granted) any {
	now := l.clock.Now().Unix()
	claims := object{"iss": l.URL, "aud": clientID, "iat": now, "exp": now + 300, "nonce": g.nonce, "at_hash": atHash("access")}
	maps.Copy(claims, g.person)
	text := segment(l.apply(l.header, object{"alg": "EdDSA", "kid": "one"})) + "." + segment(l.apply(l.claims, claims))
	sig := ed25519.Sign(l.key, []byte(text))
	if l.sign != nil {
		sig = l.sign(text)
	}
	token := text + "." + encode(sig)
	if l.raw != nil {
		return l.raw(token)
	}
	return token
}

func atHash(access string) string {
	sum := sha512.Sum512([]byte(access))
	return encode(sum[:32])
}

func hs256(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func segment(v any) string {
	b, _ := json.Marshal(v)
	return base64.RawURLEncoding.EncodeToString(b)
}

func respond(w http.ResponseWriter, v any) { refuse(w, http.StatusOK, v) }

func refuse(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// set and drop return overrides that set or delete one name.
func set(name string, value any) func(object) { return func(o object) { o[name] = value } }

func drop(name string) func(object) { return func(o object) { delete(o, name) } }

func later(clk *clock.Fake, d time.Duration) int64 { return clk.Now().Add(d).Unix() }
