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

// lie is one way to be lied to: by the provider, or by whoever brings its answer.
type lie struct {
	want   fault.Kind
	tell   func(w *world) lies
	person object
	answer func(w *world, a *Answer)
}

func says(l lies) func(*world) lies { return func(*world) lies { return l } }

func claim(name string, value any) lie {
	return lie{want: fault.Unauthenticated, tell: says(lies{claims: set(name, value)})}
}

func without(name string) lie {
	return lie{want: fault.Unauthenticated, tell: says(lies{claims: drop(name)})}
}

func at(path string, h http.HandlerFunc) lie {
	return lie{want: fault.Dependency, tell: says(lies{at: map[string]http.HandlerFunc{path: h}})}
}

func document(name string, value any) lie {
	return lie{want: fault.Dependency, tell: says(lies{metadata: set(name, value)})}
}

func brings(f func(w *world, a *Answer)) lie { return lie{want: fault.Unauthenticated, answer: f} }

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

func claimLies(w *world) map[string]lie {
	return map[string]lie{
		"iss of another": claim("iss", "https://evil.example.com"), "no iss": without("iss"), "iss with a slash": claim("iss", w.liar.URL+"/"),
		"aud of another": claim("aud", "another"), "no aud": without("aud"), "aud of others too": claim("aud", []string{clientID, "another"}),
		"aud empty": claim("aud", []string{}), "azp of another": claim("azp", "another"), "azp of a wrong type": claim("azp", 7),
		"another nonce": claim("nonce", "another"), "no nonce": without("nonce"), "nonce of a wrong type": claim("nonce", []string{"x"}), "nonce empty": claim("nonce", ""),
		"expired": claim("exp", later(w.clock, -time.Minute)), "no exp": without("exp"), "exp is text": claim("exp", "tomorrow"),
		"iat ahead": claim("iat", later(w.clock, time.Hour)), "no iat": without("iat"), "nbf ahead": claim("nbf", later(w.clock, time.Hour)),
		"no sub": without("sub"), "sub empty": claim("sub", ""), "sub too long": claim("sub", strings.Repeat("x", 256)),
		"sub with a control character": claim("sub", "ann\x00"), "sub with a space": claim("sub", "sub ann"), "sub is a number": claim("sub", 7),
		// encoding/json takes these for the plain ones, and they come last.
		"sub in another spelling": claim("\u017fub", "sub-bob"), "iss in another spelling": claim("i\u017fs", "https://evil.example.com"),
		"name with a line end": claim("preferred_username", "ann\r\nadmin"), "name with a zero byte": claim("preferred_username", "admin\x00"),
		"name of a wrong type": claim("preferred_username", []string{"ann"}), "name too long": claim("preferred_username", strings.Repeat("x", 5000)),
		"email with a line end": claim("email", "ann@example.com\nBcc: x"), "email of a wrong type": claim("email", object{"a": 1}),
		"groups are a number": claim("groups", 7), "groups are an object": claim("groups", object{"admins": true}), "groups are true": claim("groups", true),
		"groups of numbers": claim("groups", []any{"admins", 7}), "groups of nothing": claim("groups", []any{nil}), "group with a line end": claim("groups", []string{"x\n"}),
		"too many groups": claim("groups", strings.Split(strings.Repeat("g,", 1001)+"g", ",")),
		"groups elsewhere": {want: fault.Unauthenticated, person: ann(object{
			"groups": nil, "_claim_names": object{"groups": "src"}, "_claim_sources": object{"src": object{"endpoint": "https://127.0.0.1:1/"}},
		})},
		"at_hash of another token": claim("at_hash", atHash("another")), "at_hash of a wrong type": claim("at_hash", 7), "at_hash cut": claim("at_hash", atHash("access")[:20]),
	}
}

func signatureLies(w *world) map[string]lie {
	bad := func(l lies) lie { return lie{want: fault.Unauthenticated, tell: says(l)} }
	none := func(string) []byte { return nil }
	public, _ := w.liar.key.Public().(ed25519.PublicKey)
	foreign := func(text string) []byte { return ed25519.Sign(w.liar.other, []byte(text)) }
	shared := func(key []byte) lies {
		return lies{header: set("alg", "HS256"), sign: func(text string) []byte { return hs256(key, text) }}
	}
	two := func(o object) { o["keys"] = append(o["keys"].([]object), w.liar.jwk("two", w.liar.other)) }
	return map[string]lie{
		"alg none": bad(lies{header: set("alg", "none"), sign: none}), "alg None": bad(lies{header: set("alg", "None"), sign: none}),
		"no alg": bad(lies{header: drop("alg")}), "no signature": bad(lies{sign: none}), "alg ES256": bad(lies{header: set("alg", "ES256")}),
		"HS256 with the public key": bad(shared(public)), "HS256 with the client's secret": bad(shared([]byte(clientSecret))), "HS256 with nothing": bad(shared(nil)),
		"another key": bad(lies{sign: foreign}), "another key under no kid": bad(lies{sign: foreign, header: drop("kid")}),
		"kid of another key": bad(lies{header: set("kid", "two"), keys: two}), "another key under the kid": bad(lies{sign: foreign, keys: two}),
		"unknown kid": bad(lies{header: set("kid", "three")}), "no keys": bad(lies{keys: set("keys", []object{})}),
		"key in the header": bad(lies{sign: foreign, header: func(o object) { o["jwk"] = w.liar.jwk("one", w.liar.other) }}),
		"crit":              bad(lies{header: set("crit", []string{"exp"})}),
		"shared key published": bad(lies{
			header: func(o object) { o["alg"], o["kid"] = "HS256", "s" }, sign: func(text string) []byte { return hs256([]byte("key"), text) },
			keys: set("keys", []object{{"kty": "oct", "kid": "s", "alg": "HS256", "k": encode([]byte("key"))}}),
		}),
		"five parts, as JWE": bad(lies{raw: func(s string) any { return s + ".a.b" }}), "a part is gone": bad(lies{raw: func(s string) any { return s[:strings.LastIndexByte(s, '.')] }}),
		"claims are a list": bad(lies{raw: func(s string) any {
			text := segment(object{"alg": "EdDSA", "kid": "one"}) + "." + segment([]string{"sub"})
			return text + "." + encode(ed25519.Sign(w.liar.key, []byte(text)))
		}}),
	}
}

func endpointLies(w *world) map[string]lie {
	bad := func(want fault.Kind, l lies) lie { return lie{want: want, tell: says(l)} }
	fewer := ann(object{"groups": nil})
	info := func(want fault.Kind, l lies) lie { return lie{want: want, tell: says(l), person: fewer} }
	userinfo := func(h http.HandlerFunc) lie {
		return info(fault.Dependency, lies{at: map[string]http.HandlerFunc{"/userinfo": h}})
	}
	return map[string]lie{
		"no ID token": bad(fault.Dependency, lies{token: drop("id_token")}), "ID token is no text": bad(fault.Dependency, lies{token: set("id_token", object{})}),
		"ID token empty": bad(fault.Dependency, lies{token: set("id_token", "")}), "no access token": bad(fault.Dependency, lies{token: drop("access_token")}),
		"another token type": bad(fault.Dependency, lies{token: set("token_type", "mac")}), "another access token": bad(fault.Unauthenticated, lies{token: set("access_token", "another")}),
		"error with status 200":    bad(fault.Dependency, lies{token: set("error", "server_error")}),
		"token endpoint redirects": at("/token", away), "token endpoint redirects within": at("/token", onward), "token endpoint huge": at("/token", huge),
		"token endpoint broken": at("/token", broken), "token endpoint a page": at("/token", page), "token endpoint gone": at("/token", http.NotFound),
		"keys huge": at("/keys", huge), "keys broken": at("/keys", broken), "keys a page": at("/keys", page), "keys redirect": at("/keys", away),
		"metadata huge": at("/.well-known/openid-configuration", huge), "metadata broken": at("/.well-known/openid-configuration", broken),
		"metadata a page": at("/.well-known/openid-configuration", page), "metadata redirects": at("/.well-known/openid-configuration", away),
		"metadata of another issuer": document("issuer", "https://evil.example.com"), "metadata of no issuer": document("issuer", ""),
		"http token endpoint": document("token_endpoint", "http://127.0.0.1/token"), "http keys": document("jwks_uri", "http://127.0.0.1/keys"),
		"http authorization": document("authorization_endpoint", "http://127.0.0.1/authorize"), "http userinfo": document("userinfo_endpoint", "http://127.0.0.1/userinfo"),
		"script for an address": document("authorization_endpoint", "javascript:alert(1)"), "no token endpoint": document("token_endpoint", ""), "no keys named": document("jwks_uri", ""),
		"address with a user": document("token_endpoint", "https://a@127.0.0.1/token"), "endpoint of a wrong type": document("jwks_uri", 7),
		"token endpoint inside": bad(fault.Dependency, lies{metadata: set("token_endpoint", "https://169.254.169.254/token")}),
		"keys inside":           bad(fault.Dependency, lies{metadata: set("jwks_uri", "https://10.0.0.1/keys")}),
		"userinfo of another":   info(fault.Unauthenticated, lies{userinfo: set("sub", "sub-bob")}), "userinfo of nobody": info(fault.Unauthenticated, lies{userinfo: drop("sub")}),
		"groups of a wrong type in userinfo": info(fault.Unauthenticated, lies{userinfo: set("groups", 7)}),
		"userinfo broken":                    userinfo(broken), "userinfo a page": userinfo(page), "userinfo huge": userinfo(huge), "userinfo redirects": userinfo(away),
	}
}

func answerLies(*world) map[string]lie {
	zeros := secret.New(encode(make([]byte, ticketBytes)))
	provider := func(word string) lie { return brings(func(_ *world, a *Answer) { a.Error = word }) }
	failed := provider("server_error")
	failed.want = fault.Dependency
	return map[string]lie{
		"another state": brings(func(_ *world, a *Answer) { a.State = zeros }), "no state": brings(func(_ *world, a *Answer) { a.State = secret.New("") }),
		"state of no form":        brings(func(_ *world, a *Answer) { a.State = secret.New("' OR 1=1 --\x00") }),
		"state with a line end":   brings(func(_ *world, a *Answer) { a.State = secret.New(a.State.Reveal() + "\n") }),
		"another browser":         brings(func(_ *world, a *Answer) { a.Binding = zeros }),
		"no binding":              brings(func(_ *world, a *Answer) { a.Binding = secret.String{} }),
		"state as binding":        brings(func(_ *world, a *Answer) { a.Binding = a.State }),
		"a victim's other try":    brings(func(w *world, a *Answer) { a.Binding = w.begun().Binding }),
		"answer of another":       brings(func(_ *world, a *Answer) { a.Issuer = "https://evil.example.com" }),
		"answer of nobody":        brings(func(_ *world, a *Answer) { a.Issuer = "" }),
		"code of nobody":          brings(func(_ *world, a *Answer) { a.Code = secret.New("guess") }),
		"no code":                 brings(func(_ *world, a *Answer) { a.Code = secret.String{} }),
		"code of another try":     brings(func(w *world, a *Answer) { a.Code = w.begun().Code }),
		"too late":                brings(func(w *world, _ *Answer) { w.clock.Advance(pendingTTL) }),
		"denied":                  provider("access_denied"),
		"denied with a script":    provider("<script>"),
		"the provider has failed": failed,
	}
}

// begun is another sign-in at the same provider.
func (w *world) begun() Answer {
	w.t.Helper()
	a, err := w.answer(ann())
	require.NoError(w.t, err)
	return a
}

func TestNobodyIsLetInByALie(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	told := 0
	for group, list := range map[string]func(*world) map[string]lie{
		"claims": claimLies, "signature": signatureLies, "endpoints": endpointLies, "answer": answerLies,
	} {
		for name, l := range list(w) {
			told++
			err := w.hear(l)
			require.Error(t, err, "%s: %s", group, name)
			require.Equal(t, l.want, fault.From(err).Kind, "%s: %s: %v", group, name, err)
			require.NotContains(t, err.Error(), confidence, name)
			require.NotContains(t, err.Error(), clientSecret, name)
			require.Zero(t, w.count("session"), name)
			require.Zero(t, w.count("refresh_token"), name)
			require.Zero(t, w.count("oidc_identity"), name)
			require.Equal(t, 1, w.count("account"), name)
		}
	}
	t.Logf("%d lies", told)
	require.NoError(t, w.hear(lie{}), "what the lies change one thing of")
	require.Equal(t, 1, w.count("session"))
}

// hear signs ann in by a provider, or a browser, that lies.
func (w *world) hear(l lie) error {
	w.liar.lies = lies{}
	if l.tell != nil {
		w.liar.lies = l.tell(w)
	}
	w.fresh()
	person := l.person
	if person == nil {
		person = ann()
	}
	a, err := w.answer(person)
	if err != nil {
		return err
	}
	if l.answer != nil {
		l.answer(w, &a)
	}
	_, _, err = w.Finish(w.t.Context(), a)
	return err
}
