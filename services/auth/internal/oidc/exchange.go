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
	// exchangeTime is for all calls of the provider that one sign-in makes.
	exchangeTime = 20 * time.Second
	// clockSkew is how far the provider's clock may run ahead of ours.
	clockSkew = time.Minute
)

// algorithms are the signatures that count, whatever the provider's metadata offers: no `none`, and nothing
// with a shared key.
func algorithms() []string {
	return []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
	}
}

// badAnswer is an answer that does not prove who somebody is: 401.
func badAnswer(cause error) error {
	return fault.New(fault.Unauthenticated, "oidc_refused", "The sign-in provider's answer was refused; begin again").Wrap(cause)
}

// exchange turns the code into the person's identity.
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
		return Identity{}, badProvider(errors.New("token endpoint: no ID token, or an access token of another type"), "answered without an ID token")
	}
	claims, err := p.verify(ctx, m, t, token.AccessToken, raw)
	if err != nil {
		return Identity{}, err
	}
	if err := p.complete(ctx, m, token, claims); err != nil {
		return Identity{}, err
	}
	who, err := claims.identity(p.settings.Issuer, p.settings.GroupsClaim)
	if err != nil {
		return Identity{}, badAnswer(err)
	}
	return who, nil
}

// tokenFault tells apart a code that does not hold from a provider that does not work. The answer's text stays
// out of the cause: some providers repeat the request in it.
func tokenFault(err error) error {
	var refused *oauth2.RetrieveError
	var call *url.Error
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == "invalid_grant":
		return badAnswer(errors.New("token endpoint: invalid_grant"))
	case errors.As(err, &refused):
		return badProvider(fmt.Errorf("token endpoint: status %d, error %q", refused.Response.StatusCode, word(refused.ErrorCode)), "refused to exchange the code")
	case errors.As(err, &call):
		return badProvider(call, "cannot be reached")
	default:
		return badProvider(errors.New("token endpoint: an answer that is none"), "gave an answer that cannot be read")
	}
}

// word is an error code of an RFC, and nothing for any other text.
func word(code string) string {
	if len(code) > 64 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return ""
	}
	return code
}

// watchedKeys remembers that the keys could not be read, which is the provider's failure and no lie.
type watchedKeys struct {
	oidc.KeySet

	away error
}

// VerifySignature implements oidc.KeySet.
func (w *watchedKeys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := w.KeySet.VerifySignature(ctx, jwt)
	if err != nil && strings.HasPrefix(err.Error(), "fetching keys") {
		w.away = errors.New("its keys cannot be read")
	}
	return payload, err
}

// verify checks the ID token by OpenID Connect Core 3.1.3.7, and stricter where that leaves a choice.
func (p *Provider) verify(ctx context.Context, m *metadata, t ticket, access, raw string) (claims, error) {
	keys := &watchedKeys{KeySet: m.keys}
	token, err := oidc.NewVerifier(p.settings.Issuer, keys, &oidc.Config{
		ClientID: p.settings.ClientID, SupportedSigningAlgs: algorithms(), Now: p.clock.Now,
	}).Verify(ctx, raw)
	if keys.away != nil {
		return nil, badProvider(keys.away, "does not answer with its keys")
	}
	if err != nil {
		return nil, badAnswer(fmt.Errorf("ID token: %.200s", err.Error()))
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return nil, badAnswer(errors.New("ID token: its claims are no object"))
	}
	now := p.clock.Now()
	switch {
	case token.Issuer != p.settings.Issuer: // go-oidc lets one provider leave its scheme away
		err = errors.New("ID token: another issuer")
	case !slices.Equal(token.Audience, []string{p.settings.ClientID}):
		err = errors.New("ID token: for others too")
	case c.has("azp") && c.text("azp") != p.settings.ClientID:
		err = errors.New("ID token: issued to another party")
	case c.text("sub") != token.Subject || c.text("iss") != token.Issuer:
		err = errors.New("ID token: a claim in two spellings")
	case !c.has("iat") || token.IssuedAt.After(now.Add(clockSkew)):
		err = errors.New("ID token: issued in the future")
	case subtle.ConstantTimeCompare([]byte(c.text("nonce")), []byte(t.nonce())) != 1:
		err = errors.New("ID token: another nonce")
	case c.has("at_hash"):
		if token.VerifyAccessToken(access) != nil {
			err = errors.New("ID token: of another access token")
		}
	}
	if err != nil {
		return nil, badAnswer(err)
	}
	return c, nil
}

// complete asks the userinfo endpoint for what the ID token leaves out of name and groups; what the ID token
// says counts.
func (p *Provider) complete(ctx context.Context, m *metadata, token *oauth2.Token, c claims) error {
	if m.provider.UserInfoEndpoint() == "" || c.has("preferred_username") && c.has(p.settings.GroupsClaim) {
		return nil
	}
	info, err := m.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return badProvider(errors.New("userinfo endpoint: no claims in the answer"), "does not tell who signed in")
	}
	var more claims
	if err := info.Claims(&more); err != nil {
		return badProvider(errors.New("userinfo endpoint: an answer that is none"), "does not tell who signed in")
	}
	if more.text("sub") == "" || more.text("sub") != c.text("sub") {
		return badAnswer(errors.New("userinfo endpoint: another subject"))
	}
	for _, name := range []string{"preferred_username", p.settings.GroupsClaim} {
		if !c.has(name) && more.has(name) {
			c[name] = more[name]
		}
	}
	// An address and whether it is verified are one statement.
	if !c.has("email") && more.has("email") {
		c["email"], c["email_verified"] = more["email"], more["email_verified"]
	}
	return nil
}

// claims are read by their exact names, which encoding/json alone would not do.
type claims map[string]json.RawMessage

// has says whether a claim is there and says something.
func (c claims) has(name string) bool { return len(c[name]) > 0 && string(c[name]) != "null" }

// text is a claim that is a text, and empty for any other.
func (c claims) text(name string) string {
	var s string
	if json.Unmarshal(c[name], &s) != nil {
		return ""
	}
	return s
}
