package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/device"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// Authority issues codes and tokens.
type Authority struct {
	Pool     *pgxpool.Pool
	Clients  *Clients
	Devices  devices
	Sessions *session.Sessions
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
	Rand     io.Reader
	// PublicURL returns the address at which browsers reach the installation.
	PublicURL func() string
}

func (a *Authority) issuer() string   { return Base(a.PublicURL()) }
func (a *Authority) resource() string { return Resource(a.PublicURL()) }

// AuthorizationRequest is an authorization request (RFC 6749 4.1.1) with the user's decision.
type AuthorizationRequest struct {
	ResponseType, ClientID, Redirect, Challenge, Method, Resource, Scope string
	// State is returned to the client; nil if the request has none.
	State   *string
	Approve bool
}

// Decide returns the client's redirect address with a code or an error, for the browser to go to. If the client is
// unknown, the redirect address is not registered or the user's session may not approve, Decide returns an error for
// the user instead.
func (a *Authority) Decide(ctx context.Context, c *authn.Caller, in AuthorizationRequest) (string, error) {
	client, err := a.Clients.find(ctx, in.ClientID)
	if errors.Is(err, errNoClient) {
		return "", refused(wordClient, "client_id is unknown")
	}
	if err != nil {
		return "", err
	}
	if !redirects(client.Redirects, in.Redirect) {
		return "", refused(wordRequest, "redirect_uri is not registered for this client")
	}
	fields := url.Values{"iss": {a.issuer()}}
	if in.State != nil {
		fields.Set("state", *in.State)
	}
	code, err := a.allow(ctx, c, client, in)
	if f := fault.From(err); err != nil && f.OAuth != "" {
		fields.Set("error", f.OAuth)
		fields.Set("error_description", f.Text())
		return withFields(in.Redirect, fields), nil
	}
	if err != nil {
		return "", err
	}
	fields.Set("code", code.Reveal())
	return withFields(in.Redirect, fields), nil
}

// allow creates the grant of an approved request and returns its code. If the user denied the request or the request is
// not valid, it returns an error for the client.
func (a *Authority) allow(ctx context.Context, c *authn.Caller, client Client, in AuthorizationRequest) (secret.String, error) {
	scope, err := a.acceptable(in)
	if err != nil {
		return secret.String{}, err
	}
	if !in.Approve {
		return secret.String{}, a.denied(ctx, client)
	}
	code, err := secret.Mint(a.Rand, secret.KindCode)
	if err != nil {
		return secret.String{}, fmt.Errorf("mint an authorization code: %w", err)
	}
	now := a.Clock.Now()
	g := grant{
		id: a.IDs.New(id.Grant), clientID: client.ID, accountID: c.Subject, epoch: c.Epoch, resource: in.Resource, scope: scope,
		redirect: in.Redirect, challenge: in.Challenge, createdAt: now, codeExpires: now.Add(CodeTTL),
	}
	return code, pg.InTx(ctx, a.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := device.MayApprove(ctx, tx, c); err != nil {
			return err
		}
		if err := insertGrant(ctx, tx, g, secret.Hash(code.Reveal())); err != nil {
			return err
		}
		return a.Audit.Record(ctx, tx, audit.Entry{
			Action: "oauth.approve", TargetKind: "oauth_grant", TargetID: g.id,
			After: map[string]string{"client_id": client.ID, "resource": g.resource, "scope": g.scope},
		})
	})
}

// acceptable returns the scope of a request, or an error if the request is not valid.
func (a *Authority) acceptable(in AuthorizationRequest) (string, error) {
	switch {
	case in.ResponseType != "code":
		return "", refused(wordResponseType, "response_type must be code")
	case in.Method != "S256" || !isChallenge(in.Challenge):
		return "", refused(wordRequest, "a code_challenge with the method S256 is required")
	case in.Resource != a.resource():
		return "", refused(wordTarget, "resource must be "+a.resource())
	}
	return scopes(in.Scope, Scopes())
}

// scopes returns the requested scopes, separated by spaces, in the order of the allowed scopes. If none is requested,
// it returns `read`.
func scopes(requested string, allowed []string) (string, error) {
	words := strings.Fields(requested)
	if len(words) == 0 {
		words = []string{scopeRead}
	}
	for _, w := range words {
		if !slices.Contains(allowed, w) {
			return "", refused(wordScope, "scope has an unknown value; allowed values are "+strings.Join(allowed, " "))
		}
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return !slices.Contains(words, s) }), " "), nil
}

// denied records that the user denied the request, and returns the error for the client.
func (a *Authority) denied(ctx context.Context, client Client) error {
	err := pg.InTx(ctx, a.Pool, func(ctx context.Context, tx pgx.Tx) error {
		return a.Audit.Record(ctx, tx, audit.Entry{Action: "oauth.deny", TargetKind: "oauth_client", TargetID: client.ID})
	})
	if err != nil {
		return err
	}
	return refused(wordDenied, "the user denied the request")
}

const (
	letters  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	verifies = letters + ".~"
)

// isChallenge reports whether s can be an S256 challenge: 32 bytes in base64url without padding.
func isChallenge(s string) bool { return len(s) == 43 && strings.Trim(s, letters) == "" }

// proves reports whether the challenge was computed from the verifier (RFC 7636 4.6).
func proves(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 || strings.Trim(verifier, verifies) != "" {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}
