// Package bearer turns the credential of a request into the caller identity that services trust. It accepts only a
// single Authorization header. It rejects a value that cannot be an access token, and has auth check any other value.
// The credential is sent to no other service. While a stream is open, the package repeatedly checks whether the
// caller's access has changed.
//
// It caches identities under a lease that auth grants: auth acknowledges a logout, a demotion or the beginning of
// maintenance only after each gateway has dropped its cache, or its lease has expired. Refusals are never cached, so
// the first request after maintenance is served.
package bearer

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	maxCredential = 4096
	// callerLife is how long a signed identity is valid.
	callerLife = time.Minute
)

// CodeAccessChanged is the code of the error that ends a stream because the caller's access has changed. The client
// then opens the stream again, and the service decides by the new access.
const CodeAccessChanged = "reach_changed"

// Authenticator is the part of auth that checks credentials.
type Authenticator interface {
	Authenticate(ctx context.Context, in *authpeerv1.AuthenticateRequest, opts ...grpc.CallOption) (*authpeerv1.AuthenticateResponse, error)
}

// Checker checks the credentials of requests.
type Checker struct {
	auth  Authenticator
	clk   clock.Clock
	cache cache
}

// NewChecker returns a checker that calls auth. The function mono is a monotonic clock, by which the checker measures
// its lease. Without a Watcher, the checker has no lease and checks each credential.
func NewChecker(auth Authenticator, clk clock.Clock, mono func() time.Duration) *Checker {
	return &Checker{auth: auth, clk: clk, cache: cache{mono: mono, kept: make(map[claimKey]identity)}}
}

// User returns the access token of a request. It returns a fault if the Authorization header is missing, repeated, or
// not a bearer token in the form of a JWT.
func User(h http.Header) (string, *fault.Error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", fault.New(fault.Unauthenticated, "", "Not authenticated")
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	other := secret.Credential(token)
	if ok && strings.EqualFold(scheme, "Bearer") && len(values) == 1 && other != "" && secret.Kind(token) != "" {
		return "", fault.New(fault.Unauthenticated, "token_invalid", "this route expects an access token, not %s", other)
	}
	if len(values) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || len(token) > maxCredential || !jwt(token) {
		return "", fault.New(fault.Unauthenticated, "token_invalid", "Could not validate credentials")
	}
	return token, nil
}

// jwt reports whether the token looks like a JWT: three parts of base64url. None of Signalbox's opaque tokens
// looks like that.
func jwt(token string) bool {
	parts := strings.Split(token, ".")
	for _, part := range parts {
		if part == "" || strings.ContainsFunc(part, notBase64URL) {
			return false
		}
	}
	return len(parts) == 3
}

func notBase64URL(r rune) bool {
	return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// Claim is what auth needs to identify the caller of a request.
type Claim struct {
	// Credential is the access token; empty for an anonymous caller.
	Credential string
	// Client is the address that the request came from. It may be empty if no service gets the identity.
	Client string
	// InMaintenance reports whether the route stays open during maintenance. If it is false, auth refuses every caller
	// with fault.CodeMaintenance during maintenance.
	InMaintenance bool
}

// Caller has auth check the claim and returns a context whose calls carry the signed identity. While the lease is
// valid, Caller may reuse a response of auth that is up to keepFor old.
func (c *Checker) Caller(ctx context.Context, claim Claim) (context.Context, error) {
	key, sent := keyOf(claim), c.clk.Now()
	i, generation, ok := c.cache.find(key, sent)
	if ok {
		return authn.WithToken(ctx, i.token, i.sent.Add(callerLife)), nil
	}
	out, err := c.auth.Authenticate(ctx, &authpeerv1.AuthenticateRequest{
		Credential: claim.Credential, ClientAddress: claim.Client, InMaintenance: claim.InMaintenance,
	})
	if err != nil {
		return ctx, err
	}
	i = identity{token: out.GetCallerToken(), sent: sent}
	if out.GetValidUntil() != nil {
		i.until = out.GetValidUntil().AsTime()
	}
	c.cache.keep(key, generation, i)
	return authn.WithToken(ctx, i.token, sent.Add(callerLife)), nil
}

// Recheck returns a function that checks the caller of an open stream again; ctx is what Caller returned for claim. The
// function returns an error if auth refuses the caller, and one with CodeAccessChanged if the access has changed.
func (c *Checker) Recheck(ctx context.Context, claim Claim) func(context.Context) error {
	opened, read := c.reach(ctx)
	return func(ctx context.Context) error {
		ctx, err := c.Caller(ctx, claim)
		if err != nil {
			return err
		}
		if now, ok := c.reach(ctx); !ok || !read || now != opened {
			return fault.New(fault.Unavailable, CodeAccessChanged, "the caller's access has changed; open the stream again")
		}
		return nil
	}
}

func (c *Checker) reach(ctx context.Context) (authn.Reach, bool) {
	r, err := authn.RightsDigestOf(authn.Token(ctx, c.clk.Now()))
	return r, err == nil
}
