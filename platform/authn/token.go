package authn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

const (
	callerTyp      = "svc-caller+jwt"
	callerIssuer   = "signalbox-edge"
	callerAudience = "signalbox-services"
	callerLifetime = time.Minute
	callerLeeway   = 30 * time.Second
	callerMaxBytes = 64 << 10
)

// CallerFormat is the format of caller tokens: 60 s, one audience for all services.
func CallerFormat() Format {
	return Format{
		Typ: callerTyp, Issuer: callerIssuer, Audience: callerAudience,
		Lifetime: callerLifetime, Leeway: callerLeeway, MaxBytes: callerMaxBytes,
	}
}

// Signer makes caller tokens; the edge has one.
type Signer struct {
	format Format
	clk    clock.Clock
	newID  func() string
	key    func() SigningKey
}

// NewSigner makes a signer. key gives the newest key at each call (nil for one that only does SignWith), newID
// a unique jti.
func NewSigner(clk clock.Clock, newID func() string, key func() SigningKey) *Signer {
	return &Signer{format: CallerFormat(), clk: clk, newID: newID, key: key}
}

// Sign makes the token of a caller, and when it stops to hold. Memberships past MaxProjects are cut
// and marked; a caller in more than MaxTeams teams is a fault of who made it.
func (s *Signer) Sign(c *Caller) (token string, expires time.Time, err error) {
	return s.SignWith(s.key(), c)
}

// SignWith is Sign with a key that the caller has fetched himself.
func (s *Signer) SignWith(key SigningKey, c *Caller) (token string, expires time.Time, err error) {
	if err := c.check(); err != nil {
		return "", time.Time{}, fmt.Errorf("sign a caller: %w", err)
	}
	if len(c.Teams) > MaxTeams || len(c.LeadOf) > len(c.Teams) {
		return "", time.Time{}, fmt.Errorf("sign a caller: %d teams, %d led: want %d at most, and the led ones among them",
			len(c.Teams), len(c.LeadOf), MaxTeams)
	}
	claims := *c
	if len(claims.Projects) > MaxProjects {
		claims.Projects, claims.ProjectsCut = claims.Projects[:MaxProjects], true
	}
	now := s.clk.Now().Truncate(time.Second)
	token, err = s.format.Sign(key, now, c.Subject, s.newID(), claims)
	if err != nil {
		return "", time.Time{}, err
	}
	return token, now.Add(s.format.Lifetime), nil
}

// Verifier checks caller tokens; each service has one.
type Verifier struct {
	format Format
	clk    clock.Clock
	keys   *Keys
}

// NewVerifier makes a verifier over the live keys.
func NewVerifier(clk clock.Clock, keys *Keys) *Verifier {
	return &Verifier{format: CallerFormat(), clk: clk, keys: keys}
}

// Verify is the caller of a token and when the token stops to hold.
func (v *Verifier) Verify(ctx context.Context, token string) (*Caller, time.Time, error) {
	c := &Caller{}
	std, err := v.format.Verify(ctx, v.keys, v.clk.Now(), token, c)
	if err != nil {
		return nil, time.Time{}, err
	}
	c.Subject = std.Subject
	if err := c.check(); err != nil {
		return nil, time.Time{}, refuse(err)
	}
	return c, std.Expires, nil
}

// check holds a caller to its kind. Agents and services prove themselves by certificate, so no
// token may claim to be one.
func (c *Caller) check() error {
	switch c.Kind {
	case KindNone:
		if c.Subject != "" || c.Role != "" || len(c.Projects)+len(c.Teams)+len(c.LeadOf) > 0 {
			return errors.New("a caller without a credential has no identity")
		}
		return nil
	case KindUser:
		if c.Subject == "" || (c.Role != RoleOperator && c.Role != RoleAdmin) {
			return errors.New("a user needs a subject and a role")
		}
		return nil
	case KindIngest:
		if c.RunID == "" || c.Role != "" {
			return errors.New("an ingest caller needs a run and has no role")
		}
		return nil
	case KindDeployment:
		if c.DeploymentID == "" || c.Role != "" {
			return errors.New("a deployment caller needs a deployment and has no role")
		}
		return nil
	case KindAgent, KindService:
		return errors.New("agents and services have certificates, not tokens")
	default:
		return errors.New("unknown kind of caller")
	}
}
