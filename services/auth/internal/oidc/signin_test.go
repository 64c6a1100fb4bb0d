package oidc

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestSignIn_Finish_concurrent(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a, err := w.callback(ann())
	require.NoError(t, err)
	errs := make(chan error, 20)
	for range cap(errs) {
		go func() {
			_, _, err := w.Finish(t.Context(), a)
			errs <- err
		}()
	}
	entered := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			entered++
		} else {
			require.True(t, fault.HasCode(err, "bad_sign_in"), "%v", err)
		}
	}
	require.Equal(t, 1, entered)
	require.Equal(t, 1, w.count("session"))
}

func TestSignIn_Finish_otherBrowser(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a, err := w.callback(ann())
	require.NoError(t, err)
	stolen := a
	stolen.Binding = w.begun().Binding
	_, _, err = w.Finish(t.Context(), stolen)
	require.True(t, fault.HasCode(err, "bad_sign_in"))
	_, _, err = w.Finish(t.Context(), a)
	require.NoError(t, err, "the browser that began can still finish")
}

func TestSignIn_expiryAndSweep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after time.Duration
		ok    bool
	}{"just in time": {pendingTTL - time.Second, true}, "too late": {pendingTTL, false}} {
		w := newHarness(t)
		a, err := w.callback(ann())
		require.NoError(t, err)
		w.clock.Advance(tc.after)
		require.NoError(t, w.Sweep(t.Context()))
		_, _, err = w.Finish(t.Context(), a)
		require.Equal(t, tc.ok, err == nil, "%s: %v", name, err)
		w.clock.Advance(time.Second)
		require.NoError(t, w.Sweep(t.Context()))
		require.Zero(t, w.count("oidc_sign_in"))
	}
}

func TestSignIn_Begin_storesNoPlainSecrets(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	begun, err := w.Begin(t.Context(), "/device?user_code=WDJB-MJHT", "192.0.2.7")
	require.NoError(t, err)
	u, err := url.Parse(begun.URL)
	require.NoError(t, err)
	q := u.Query()
	require.Equal(t, publicURL+CallbackPath, q.Get("redirect_uri"))
	require.NotContains(t, begun.URL, begun.Binding.Reveal(), "the binding stays in the browser")
	row := w.text(`SELECT encode(state_hash, 'escape') || encode(binding_hash, 'escape') || encode(sealed_next, 'escape') FROM oidc_sign_in`)
	for _, plain := range []string{q.Get("state"), q.Get("nonce"), begun.Binding.Reveal(), "user_code", "WDJB"} {
		require.NotContains(t, row, plain)
	}
	values := map[string]bool{}
	for range 50 {
		again, err := w.Begin(t.Context(), "/", "192.0.2.7")
		require.NoError(t, err)
		q, err := url.Parse(again.URL)
		require.NoError(t, err)
		for _, name := range []string{"state", "nonce", "code_challenge"} {
			values[q.Query().Get(name)] = true
		}
		values[again.Binding.Reveal()] = true
	}
	require.Len(t, values, 200, "all values differ")
}

func TestLocalPath_rejectsOtherHosts(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{
		"/": "/", "/jobs/job_1?tab=logs#end": "/jobs/job_1?tab=logs#end", "": "/", "jobs": "/", "//evil.example.com": "/", "/\\evil.example.com": "/",
		"https://evil.example.com": "/", "javascript:alert(1)": "/", "/\t/evil.example.com": "/", "\\\\evil.example.com": "/", "/a\r\nSet-Cookie: x": "/",
		"///evil.example.com": "/", "/%2f/evil.example.com": "/%2f/evil.example.com", "?x": "/", "http:/jobs": "/", " /jobs": "/",
	} {
		require.Equal(t, want, localPath(next), "%q", next)
	}
}

func TestProvider_metadata_retry(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	var calls atomic.Int64
	away := func(rw http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		broken(rw, r)
	}
	const path = "/.well-known/openid-configuration"
	w.idp.overrides = overrides{at: map[string]http.HandlerFunc{path: away}}
	for range 3 {
		_, err := w.Begin(t.Context(), "/", "192.0.2.7")
		require.True(t, fault.HasCode(err, "oidc_provider"), "%v", err)
		require.True(t, fault.Is(err, fault.Dependency))
	}
	require.EqualValues(t, 1, calls.Load(), "later callers share the failure")
	require.Zero(t, w.count("oidc_sign_in"))
	w.clock.Advance(failurePause)
	_, err := w.Begin(t.Context(), "/", "192.0.2.7")
	require.Error(t, err)
	require.EqualValues(t, 2, calls.Load())
	w.clock.Advance(failurePause)
	w.idp.overrides = overrides{}
	w.mustSignIn(ann())
	w.idp.overrides = overrides{at: map[string]http.HandlerFunc{path: away}}
	w.clock.Advance(metadataTTL)
	w.mustSignIn(ann())
	require.EqualValues(t, 3, calls.Load(), "old metadata stays in use if it cannot be read again")
}

func TestProvider_keyChange(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.mustSignIn(ann())
	_, next, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	w.idp.overrides = overrides{
		header: set("kid", "next"), keys: set("keys", []object{w.idp.jwk("next", next)}),
		sign: func(text string) []byte { return ed25519.Sign(next, []byte(text)) },
	}
	w.mustSignIn(ann())
	w.clock.Advance(metadataTTL)
	w.mustSignIn(ann())
	w.idp.overrides.header, w.idp.overrides.sign = nil, nil
	_, err = w.signIn(ann())
	require.True(t, fault.Is(err, fault.Unauthenticated), "a withdrawn key is no longer accepted")
}

func TestProvider_userinfo(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.idp.userinfo = func(o object) {
		o["preferred_username"], o["groups"], o["email"], o["email_verified"] = "carol", []string{"admins"}, "carol@example.com", true
	}
	tokens := w.mustSignIn(ann(object{"preferred_username": nil, "groups": nil, "email": nil, "email_verified": nil}))
	require.Equal(t, []string{"carol", "admin"}, []string{tokens.Username, tokens.Role})
	require.Equal(t, 1, w.count(`account WHERE email = 'carol@example.com'`))
	tokens = w.mustSignIn(bob(object{"sub": "sub-ann", "groups": []string{}, "email_verified": false}))
	require.Equal(t, "admin", tokens.Role, "the last admin keeps the role")
	w.idp.userinfo = set("sub", "sub-dan")
	tokens = w.mustSignIn(ann(object{"sub": "sub-dan", "groups": nil, "email": "dan@example.com", "email_verified": nil}))
	require.Equal(t, "operator", tokens.Role)
	require.Zero(t, w.count(`account WHERE email = 'dan@example.com'`), "an address counts only with the verification from the same source")
}

func TestProvider_clientSecretPost(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	form := make(chan url.Values, 1)
	w.idp.overrides = overrides{
		metadata: set("token_endpoint_auth_methods_supported", []string{"client_secret_post"}),
		at: map[string]http.HandlerFunc{"/token": func(rw http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			form <- r.PostForm
			broken(rw, r)
		}},
	}
	_, err := w.signIn(ann())
	require.True(t, fault.Is(err, fault.Dependency))
	got := <-form
	require.Equal(t, clientSecret, got.Get("client_secret"))
	require.Len(t, got.Get("code_verifier"), 43)
}

// From the next sign-in on, a secret that an admin sets replaces the secret in the settings. If the new secret cannot
// be read, the sign-in fails.
func TestProvider_ClientSecret(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	var now secret.String
	var broken error
	w.Provider.ClientSecret = func(context.Context) (secret.String, error) { return now, broken }
	_, err := w.signIn(ann())
	require.NoError(t, err, "if an admin has set no secret, the secret from the settings is used")
	now = secret.New("a wrong one")
	_, err = w.signIn(ann())
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	now = secret.New(clientSecret)
	_, err = w.signIn(ann())
	require.NoError(t, err)
	broken = secret.ErrOpen
	_, err = w.signIn(ann())
	require.ErrorIs(t, err, secret.ErrOpen)
}

func TestProvider_errorsOmitSecrets(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	w.idp.overrides = overrides{at: map[string]http.HandlerFunc{"/token": func(rw http.ResponseWriter, r *http.Request) {
		refuse(rw, http.StatusUnauthorized, object{"error": "invalid_client", "error_description": confidence + r.FormValue("code_verifier")})
	}}}
	a, err := w.callback(ann())
	require.NoError(t, err)
	_, _, err = w.Finish(t.Context(), a)
	require.ErrorContains(t, err, `status 401, error "invalid_client"`, "the cause contains what an admin needs to find the fault")
	for _, plain := range []string{confidence, a.Code.Reveal(), a.State.Reveal(), a.Binding.Reveal(), clientSecret} {
		require.NotContains(t, err.Error(), plain)
	}
	var f *fault.Error
	require.True(t, errors.As(err, &f))
	require.False(t, strings.Contains(f.Text(), "401"), "the text for the user does not contain the cause")
}
