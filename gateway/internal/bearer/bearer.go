// Package bearer turns the credential of a request into the caller identity that services trust. It
// looks at the one Authorization header only, refuses what cannot be an access token before anybody
// is asked, and asks auth once; the credential goes no further. Of a stream that stays open it tells when
// its caller is no longer the one that it was opened for.
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
)

const (
	maxCredential = 4096
	// callerLife is how long auth signs an identity for.
	callerLife = time.Minute
)

// CodeReach marks the end of a stream whose caller may reach other things than at its opening: it is to be
// opened again, so that the service decides anew.
const CodeReach = "reach_changed"

// Vouch is auth's word for a credential.
type Vouch interface {
	Authenticate(ctx context.Context, in *authpeerv1.AuthenticateRequest, opts ...grpc.CallOption) (*authpeerv1.AuthenticateResponse, error)
}

// Checker checks the credentials of requests.
type Checker struct {
	auth Vouch
	clk  clock.Clock
}

// NewChecker makes a checker that asks auth.
func NewChecker(auth Vouch, clk clock.Clock) *Checker { return &Checker{auth: auth, clk: clk} }

// User reads the access token of a request.
func User(h http.Header) (string, *fault.Error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", fault.New(fault.Unauthenticated, "", "Not authenticated")
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if len(values) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") || len(token) > maxCredential || !jwt(token) {
		return "", fault.New(fault.Unauthenticated, "token_invalid", "Could not validate credentials")
	}
	return token, nil
}

// jwt reports whether token has the shape of one: three parts of base64url. No opaque kind of ours has.
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

// Claim is what a request says of its caller.
type Claim struct {
	// Credential is empty for nobody in particular.
	Credential string
	// Client is the address that the request came from.
	Client string
	// InMaintenance says that the route answers in maintenance too. On every other one auth refuses everybody
	// then, with fault.CodeMaintenance.
	InMaintenance bool
}

// Caller has auth vouch for a caller and answers a context whose calls carry the signed identity.
func (c *Checker) Caller(ctx context.Context, claim Claim) (context.Context, error) {
	asked := c.clk.Now()
	out, err := c.auth.Authenticate(ctx, &authpeerv1.AuthenticateRequest{
		Credential: claim.Credential, ClientAddress: claim.Client, InMaintenance: claim.InMaintenance,
	})
	if err != nil {
		return ctx, err
	}
	return authn.WithToken(ctx, out.GetCallerToken(), asked.Add(callerLife)), nil
}

// Again answers the check of a stream that was opened with ctx, which Caller answered for this claim: it fails
// where auth refuses the caller, and with CodeReach where he may reach other things by now.
func (c *Checker) Again(ctx context.Context, claim Claim) func(context.Context) error {
	opened, read := c.reach(ctx)
	return func(ctx context.Context) error {
		ctx, err := c.Caller(ctx, claim)
		if err != nil {
			return err
		}
		if now, ok := c.reach(ctx); !ok || !read || now != opened {
			return fault.New(fault.Unavailable, CodeReach, "what the caller may reach has changed: open the stream again")
		}
		return nil
	}
}

func (c *Checker) reach(ctx context.Context) (authn.Reach, bool) {
	r, err := authn.ReachOf(authn.Token(ctx, c.clk.Now()))
	return r, err == nil
}
