package oidc

import (
	"crypto/ed25519"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// attack is one forged sign-in. setup returns overrides of the provider's responses. person contains the claims of the
// user, by default those of ann. forge changes the response that the browser delivers. want is the kind of the expected
// error.
type attack struct {
	want   fault.Kind
	setup  func(w *harness) overrides
	person object
	forge  func(w *harness, a *Callback)
}

func always(l overrides) func(*harness) overrides { return func(*harness) overrides { return l } }

func claim(name string, value any) attack {
	return attack{want: fault.Unauthenticated, setup: always(overrides{claims: set(name, value)})}
}

func without(name string) attack {
	return attack{want: fault.Unauthenticated, setup: always(overrides{claims: drop(name)})}
}

func at(path string, h http.HandlerFunc) attack {
	return attack{want: fault.Dependency, setup: always(overrides{at: map[string]http.HandlerFunc{path: h}})}
}

func document(name string, value any) attack {
	return attack{want: fault.Dependency, setup: always(overrides{metadata: set(name, value)})}
}

func forged(f func(w *harness, a *Callback)) attack {
	return attack{want: fault.Unauthenticated, forge: f}
}

func huge(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for range 1 << 10 {
		if _, err := w.Write([]byte(strings.Repeat(" ", 1<<10))); err != nil {
			return
		}
	}
}

func broken(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, confidence, http.StatusInternalServerError)
}
func page(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>" + confidence)) }
func away(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusTemporaryRedirect)
}

func onward(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/keys", http.StatusTemporaryRedirect)
}

func claimAttacks(w *harness) map[string]attack {
	return map[string]attack{
		"iss of another": claim("iss", "https://evil.example.com"), "no iss": without("iss"), "iss with a slash": claim("iss", w.idp.URL+"/"),
		"aud of another": claim("aud", "another"), "no aud": without("aud"), "aud with others": claim("aud", []string{clientID, "another"}),
		"aud empty": claim("aud", []string{}), "azp of another": claim("azp", "another"), "azp of a wrong type": claim("azp", 7),
		"another nonce": claim("nonce", "another"), "no nonce": without("nonce"), "nonce of a wrong type": claim("nonce", []string{"x"}), "nonce empty": claim("nonce", ""),
		"expired": claim("exp", later(w.clock, -time.Minute)), "no exp": without("exp"), "exp is text": claim("exp", "tomorrow"),
		"iat ahead": claim("iat", later(w.clock, time.Hour)), "no iat": without("iat"), "nbf ahead": claim("nbf", later(w.clock, time.Hour)),
		"no sub": without("sub"), "sub empty": claim("sub", ""), "sub too long": claim("sub", strings.Repeat("x", 256)),
		"sub with a control character": claim("sub", "ann\x00"), "sub with a space": claim("sub", "sub ann"), "sub is a number": claim("sub", 7),
		// encoding/json ignores case and would decode these claims into the fields of sub and iss. They come after the
		// genuine claims and would replace them.
		"sub in another spelling": claim("\u017fub", "sub-bob"), "iss in another spelling": claim("i\u017fs", "https://evil.example.com"),
		"name with a line end": claim("preferred_username", "ann\r\nadmin"), "name with a zero byte": claim("preferred_username", "admin\x00"),
		"name of a wrong type": claim("preferred_username", []string{"ann"}), "name too long": claim("preferred_username", strings.Repeat("x", 5000)),
		"email with a line end": claim("email", "ann@example.com\nBcc: x"), "email of a wrong type": claim("email", object{"a": 1}),
		"groups are a number": claim("groups", 7), "groups are an object": claim("groups", object{"admins": true}), "groups are true": claim("groups", true),
		"groups of numbers": claim("groups", []any{"admins", 7}), "groups of null": claim("groups", []any{nil}), "group with a line end": claim("groups", []string{"x\n"}),
		"too many groups": claim("groups", strings.Split(strings.Repeat("g,", 1001)+"g", ",")),
		"groups in a distributed claim": {want: fault.Unauthenticated, person: ann(object{
			"groups": nil, "_claim_names": object{"groups": "src"}, "_claim_sources": object{"src": object{"endpoint": "https://127.0.0.1:1/"}},
		})},
		"at_hash of another token": claim("at_hash", atHash("another")), "at_hash of a wrong type": claim("at_hash", 7), "at_hash truncated": claim("at_hash", atHash("access")[:20]),
	}
}

func signatureAttacks(w *harness) map[string]attack {
	bad := func(l overrides) attack { return attack{want: fault.Unauthenticated, setup: always(l)} }
	none := func(string) []byte { return nil }
	public, _ := w.idp.key.Public().(ed25519.PublicKey)
	foreign := func(text string) []byte { return ed25519.Sign(w.idp.other, []byte(text)) }
	shared := func(key []byte) overrides {
		return overrides{header: set("alg", "HS256"), sign: func(text string) []byte { return hs256(key, text) }}
	}
	two := func(o object) { o["keys"] = append(o["keys"].([]object), w.idp.jwk("two", w.idp.other)) }
	return map[string]attack{
		"alg none": bad(overrides{header: set("alg", "none"), sign: none}), "alg None": bad(overrides{header: set("alg", "None"), sign: none}),
		"no alg": bad(overrides{header: drop("alg")}), "no signature": bad(overrides{sign: none}), "alg ES256": bad(overrides{header: set("alg", "ES256")}),
		"HS256 with the public key": bad(shared(public)), "HS256 with the client's secret": bad(shared([]byte(clientSecret))), "HS256 with an empty key": bad(shared(nil)),
		"another key": bad(overrides{sign: foreign}), "another key without a kid": bad(overrides{sign: foreign, header: drop("kid")}),
		"kid of another key": bad(overrides{header: set("kid", "two"), keys: two}), "another key under the kid": bad(overrides{sign: foreign, keys: two}),
		"unknown kid": bad(overrides{header: set("kid", "three")}), "no keys": bad(overrides{keys: set("keys", []object{})}),
		"key in the header": bad(overrides{sign: foreign, header: func(o object) { o["jwk"] = w.idp.jwk("one", w.idp.other) }}),
		"crit":              bad(overrides{header: set("crit", []string{"exp"})}),
		"shared key published": bad(overrides{
			header: func(o object) { o["alg"], o["kid"] = "HS256", "s" }, sign: func(text string) []byte { return hs256([]byte("key"), text) },
			keys: set("keys", []object{{"kty": "oct", "kid": "s", "alg": "HS256", "k": encode([]byte("key"))}}),
		}),
		"five parts, as JWE": bad(overrides{raw: func(s string) any { return s + ".a.b" }}), "a part is missing": bad(overrides{raw: func(s string) any { return s[:strings.LastIndexByte(s, '.')] }}),
		"claims are a list": bad(overrides{raw: func(s string) any {
			text := segment(object{"alg": "EdDSA", "kid": "one"}) + "." + segment([]string{"sub"})
			return text + "." + encode(ed25519.Sign(w.idp.key, []byte(text)))
		}}),
	}
}

func endpointAttacks(w *harness) map[string]attack {
	bad := func(want fault.Kind, l overrides) attack { return attack{want: want, setup: always(l)} }
	fewer := ann(object{"groups": nil})
	info := func(want fault.Kind, l overrides) attack { return attack{want: want, setup: always(l), person: fewer} }
	userinfo := func(h http.HandlerFunc) attack {
		return info(fault.Dependency, overrides{at: map[string]http.HandlerFunc{"/userinfo": h}})
	}
	return map[string]attack{
		"no ID token": bad(fault.Dependency, overrides{token: drop("id_token")}), "ID token is not text": bad(fault.Dependency, overrides{token: set("id_token", object{})}),
		"ID token empty": bad(fault.Dependency, overrides{token: set("id_token", "")}), "no access token": bad(fault.Dependency, overrides{token: drop("access_token")}),
		"another token type": bad(fault.Dependency, overrides{token: set("token_type", "mac")}), "another access token": bad(fault.Unauthenticated, overrides{token: set("access_token", "another")}),
		"error with status 200":    bad(fault.Dependency, overrides{token: set("error", "server_error")}),
		"token endpoint redirects": at("/token", away), "token endpoint redirects within the host": at("/token", onward), "token endpoint huge": at("/token", huge),
		"token endpoint broken": at("/token", broken), "token endpoint a page": at("/token", page), "token endpoint missing": at("/token", http.NotFound),
		"keys huge": at("/keys", huge), "keys broken": at("/keys", broken), "keys a page": at("/keys", page), "keys redirect": at("/keys", away),
		"metadata huge": at("/.well-known/openid-configuration", huge), "metadata broken": at("/.well-known/openid-configuration", broken),
		"metadata a page": at("/.well-known/openid-configuration", page), "metadata redirects": at("/.well-known/openid-configuration", away),
		"metadata of another issuer": document("issuer", "https://evil.example.com"), "metadata without an issuer": document("issuer", ""),
		"http token endpoint": document("token_endpoint", "http://127.0.0.1/token"), "http keys": document("jwks_uri", "http://127.0.0.1/keys"),
		"http authorization": document("authorization_endpoint", "http://127.0.0.1/authorize"), "http userinfo": document("userinfo_endpoint", "http://127.0.0.1/userinfo"),
		"javascript address": document("authorization_endpoint", "javascript:alert(1)"), "no token endpoint": document("token_endpoint", ""), "no jwks_uri": document("jwks_uri", ""),
		"address with a user": document("token_endpoint", "https://a@127.0.0.1/token"), "endpoint of a wrong type": document("jwks_uri", 7),
		"token endpoint on a link-local address": bad(fault.Dependency, overrides{metadata: set("token_endpoint", "https://169.254.169.254/token")}),
		"keys on a private address":              bad(fault.Dependency, overrides{metadata: set("jwks_uri", "https://10.0.0.1/keys")}),
		"userinfo of another":                    info(fault.Unauthenticated, overrides{userinfo: set("sub", "sub-bob")}), "userinfo without sub": info(fault.Unauthenticated, overrides{userinfo: drop("sub")}),
		"groups of a wrong type in userinfo": info(fault.Unauthenticated, overrides{userinfo: set("groups", 7)}),
		"userinfo broken":                    userinfo(broken), "userinfo a page": userinfo(page), "userinfo huge": userinfo(huge), "userinfo redirects": userinfo(away),
	}
}

func callbackAttacks(*harness) map[string]attack {
	zeros := secret.New(encode(make([]byte, ticketBytes)))
	provider := func(word string) attack { return forged(func(_ *harness, a *Callback) { a.Error = word }) }
	failed := provider("server_error")
	failed.want = fault.Dependency
	return map[string]attack{
		"another state": forged(func(_ *harness, a *Callback) { a.State = zeros }), "no state": forged(func(_ *harness, a *Callback) { a.State = secret.New("") }),
		"malformed state":            forged(func(_ *harness, a *Callback) { a.State = secret.New("' OR 1=1 --\x00") }),
		"state with a line end":      forged(func(_ *harness, a *Callback) { a.State = secret.New(a.State.Reveal() + "\n") }),
		"another browser":            forged(func(_ *harness, a *Callback) { a.Binding = zeros }),
		"no binding":                 forged(func(_ *harness, a *Callback) { a.Binding = secret.String{} }),
		"state as binding":           forged(func(_ *harness, a *Callback) { a.Binding = a.State }),
		"binding of another sign-in": forged(func(w *harness, a *Callback) { a.Binding = w.begun().Binding }),
		"response of another issuer": forged(func(_ *harness, a *Callback) { a.Issuer = "https://evil.example.com" }),
		"response without an issuer": forged(func(_ *harness, a *Callback) { a.Issuer = "" }),
		"unknown code":               forged(func(_ *harness, a *Callback) { a.Code = secret.New("guess") }),
		"no code":                    forged(func(_ *harness, a *Callback) { a.Code = secret.String{} }),
		"code of another sign-in":    forged(func(w *harness, a *Callback) { a.Code = w.begun().Code }),
		"too late":                   forged(func(w *harness, _ *Callback) { w.clock.Advance(pendingTTL) }),
		"denied":                     provider("access_denied"),
		"denied with a script":       provider("<script>"),
		"the provider has failed":    failed,
	}
}

// begun returns the response of another sign-in at the same provider.
func (w *harness) begun() Callback {
	w.t.Helper()
	a, err := w.callback(ann())
	require.NoError(w.t, err)
	return a
}

func TestSignIn_rejectsForgedResponses(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	tried := 0
	for group, list := range map[string]func(*harness) map[string]attack{
		"claims": claimAttacks, "signature": signatureAttacks, "endpoints": endpointAttacks, "callback": callbackAttacks,
	} {
		for name, l := range list(w) {
			tried++
			err := w.attempt(l)
			require.Error(t, err, "the attack must fail: %s: %s", group, name)
			require.Equal(t, l.want, fault.From(err).Kind, "%s: %s: %v", group, name, err)
			require.NotContains(t, err.Error(), confidence, name)
			require.NotContains(t, err.Error(), clientSecret, name)
			require.Zero(t, w.count("session"), name)
			require.Zero(t, w.count("refresh_token"), name)
			require.Zero(t, w.count("oidc_identity"), name)
			require.Equal(t, 1, w.count("account"), name)
		}
	}
	t.Logf("tried %d attacks", tried)
	require.NoError(t, w.attempt(attack{}), "without an attack the sign-in succeeds")
	require.Equal(t, 1, w.count("session"))
}

// attempt runs a sign-in with the attack and returns its error.
func (w *harness) attempt(l attack) error {
	w.idp.overrides = overrides{}
	if l.setup != nil {
		w.idp.overrides = l.setup(w)
	}
	w.fresh()
	person := l.person
	if person == nil {
		person = ann()
	}
	a, err := w.callback(person)
	if err != nil {
		return err
	}
	if l.forge != nil {
		l.forge(w, &a)
	}
	_, _, err = w.Finish(w.t.Context(), a)
	return err
}
