package oidc

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	// exchangeTime limits the time to exchange a code for the user's identity.
	exchangeTime = 20 * time.Second
	// clockSkew is how far the provider's clock may run ahead of the clock of this service.
	clockSkew = time.Minute
)

// algorithms returns the accepted signature algorithms, whatever the provider's metadata offers. They contain neither
// `none` nor algorithms with a shared key.
func algorithms() []string {
	return []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
	}
}

// badResponse returns the error, 401, for a response that does not prove the identity of the user.
func badResponse(cause error) error {
	return fault.New(fault.Unauthenticated, "oidc_refused", "the sign-in provider's response is not valid; start again").Wrap(cause)
}

// exchange exchanges the code for the user's identity.
func (p *Provider) exchange(ctx context.Context, t ticket, code, redirect string) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	m, err := p.metadata(ctx)
	if err != nil {
		return Identity{}, err
	}
	config, err := p.withSecret(ctx, m, redirect)
	if err != nil {
		return Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(t.verifier()))
	if err != nil {
		return Identity{}, tokenFault(err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok || raw == "" || token.Type() != "Bearer" {
		return Identity{}, badProvider(errors.New("token endpoint: no ID token, or the access token is not a bearer token"), "returned no ID token")
	}
	claims, err := p.verify(ctx, m, t, token.AccessToken, raw)
	if err != nil {
		return Identity{}, err
	}
	if err := p.complete(ctx, m, token, claims); err != nil {
		return Identity{}, err
	}
	ident, err := claims.identity(p.settings.Issuer, p.settings.GroupsClaim)
	if err != nil {
		return Identity{}, badResponse(err)
	}
	return ident, nil
}

// tokenFault distinguishes an invalid code from a failure of the provider. The cause does not contain the text of the
// response, because some providers repeat the request in it, and the request contains secrets.
func tokenFault(err error) error {
	var refused *oauth2.RetrieveError
	var call *url.Error
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == "invalid_grant":
		return badResponse(errors.New("token endpoint: invalid_grant"))
	case errors.As(err, &refused):
		return badProvider(fmt.Errorf("token endpoint: status %d, error %q", refused.Response.StatusCode, word(refused.ErrorCode)), "refused to exchange the code")
	case errors.As(err, &call):
		return badProvider(call, "cannot be reached")
	default:
		return badProvider(errors.New("token endpoint: invalid response"), "returned an invalid response")
	}
}

// word returns the given code if it looks like an error code of an RFC, and an empty string otherwise.
func word(code string) string {
	if len(code) > 64 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return code
}

// watchedKeys records that the provider's keys could not be read. This is a failure of the provider and does not mean
// that the token is invalid.
type watchedKeys struct {
	oidc.KeySet

	failure error
}

// VerifySignature implements oidc.KeySet.
func (w *watchedKeys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := w.KeySet.VerifySignature(ctx, jwt)
	if err != nil && strings.HasPrefix(err.Error(), "fetching keys") {
		w.failure = errors.New("the keys cannot be read")
	}
	return payload, err
}

// verify checks the ID token as OpenID Connect Core 3.1.3.7 requires. If that section leaves a choice, verify is
// strict.
func (p *Provider) verify(ctx context.Context, m *metadata, t ticket, access, raw string) (claims, error) {
	keys := &watchedKeys{KeySet: m.keys}
	token, err := oidc.NewVerifier(p.settings.Issuer, keys, &oidc.Config{
		ClientID: p.settings.ClientID, SupportedSigningAlgs: algorithms(), Now: p.clock.Now,
	}).Verify(ctx, raw)
	if keys.failure != nil {
		return nil, badProvider(keys.failure, "does not return its keys")
	}
	if err != nil {
		return nil, badResponse(fmt.Errorf("ID token: %.200s", err.Error()))
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return nil, badResponse(errors.New("ID token: the claims are not an object"))
	}
	now := p.clock.Now()
	switch {
	case token.Issuer != p.settings.Issuer: // for one provider, go-oidc also accepts the issuer without its scheme
		err = errors.New("ID token: wrong issuer")
	case !slices.Equal(token.Audience, []string{p.settings.ClientID}):
		err = errors.New("ID token: wrong audience")
	case c.has("azp") && c.text("azp") != p.settings.ClientID:
		err = errors.New("ID token: wrong azp")
	case c.text("sub") != token.Subject || c.text("iss") != token.Issuer:
		err = errors.New("ID token: a claim occurs twice, under names that differ only in case")
	case !c.has("iat") || token.IssuedAt.After(now.Add(clockSkew)):
		err = errors.New("ID token: iat is missing or in the future")
	case subtle.ConstantTimeCompare([]byte(c.text("nonce")), []byte(t.nonce())) != 1:
		err = errors.New("ID token: wrong nonce")
	case c.has("at_hash"):
		if token.VerifyAccessToken(access) != nil {
			err = errors.New("ID token: at_hash does not match the access token")
		}
	}
	if err != nil {
		return nil, badResponse(err)
	}
	return c, nil
}

// complete adds claims from the userinfo endpoint if the ID token has no username or no groups. Claims of the ID
// token take precedence.
func (p *Provider) complete(ctx context.Context, m *metadata, token *oauth2.Token, c claims) error {
	if m.provider.UserInfoEndpoint() == "" || c.has("preferred_username") && c.has(p.settings.GroupsClaim) {
		return nil
	}
	info, err := m.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return badProvider(errors.New("userinfo endpoint: no claims in the response"), "does not return the claims of the user")
	}
	var more claims
	if err := info.Claims(&more); err != nil {
		return badProvider(errors.New("userinfo endpoint: invalid response"), "does not return the claims of the user")
	}
	if more.text("sub") == "" || more.text("sub") != c.text("sub") {
		return badResponse(errors.New("userinfo endpoint: wrong subject"))
	}
	for _, name := range []string{"preferred_username", p.settings.GroupsClaim} {
		if !c.has(name) && more.has(name) {
			c[name] = more[name]
		}
	}
	// Use an address only with the email_verified of the same source.
	if !c.has("email") && more.has("email") {
		c["email"], c["email_verified"] = more["email"], more["email_verified"]
	}
	return nil
}

// claims maps the exact names of claims to their values. Decoding into a struct would ignore case.
type claims map[string]json.RawMessage

// has reports whether a claim is present and not null.
func (c claims) has(name string) bool { return len(c[name]) > 0 && string(c[name]) != "null" }

// text returns a claim if it is a string, and an empty string otherwise.
func (c claims) text(name string) string {
	var s string
	if json.Unmarshal(c[name], &s) != nil {
		return ""
	}
	return s
}
