package authn

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	callerIssuer   = "signalbox-edge"
	callerAudience = "signalbox-services"
	callerLifetime = time.Minute
	callerLeeway   = 30 * time.Second
	callerMaxBytes = 64 << 10
)

// CallerFormat returns the format of caller tokens. They are valid for 60 s and have one audience for all services.
func CallerFormat() Format {
	return Format{
		Typ: secret.TypCaller, Issuer: callerIssuer, Audience: callerAudience,
		Lifetime: callerLifetime, Leeway: callerLeeway, MaxBytes: callerMaxBytes,
	}
}

// Signer signs caller tokens. Only the auth service has the private keys.
type Signer struct {
	format Format
	clk    clock.Clock
	newID  func() string
	key    func() SigningKey
}

// NewSigner returns a Signer. The function key returns the newest signing key; it may be nil if only SignWith is used.
// The function newID returns a unique jti.
func NewSigner(clk clock.Clock, newID func() string, key func() SigningKey) *Signer {
	return &Signer{format: CallerFormat(), clk: clk, newID: newID, key: key}
}

// Sign returns the token of a caller and its expiry. If the caller has more than MaxProjects memberships, Sign drops
// the rest and sets ProjectsCut in the token. It returns an error if the caller has more than MaxTeams teams.
func (s *Signer) Sign(c *Caller) (token string, expires time.Time, err error) {
	return s.SignWith(s.key(), c)
}

// SignWith is like Sign, but uses the given key.
func (s *Signer) SignWith(key SigningKey, c *Caller) (token string, expires time.Time, err error) {
	if err := c.check(); err != nil {
		return "", time.Time{}, fmt.Errorf("sign a caller token: %w", err)
	}
	if len(c.Teams) > MaxTeams || len(c.LeadOf) > len(c.Teams) {
		return "", time.Time{}, fmt.Errorf("sign a caller token: the caller has %d teams and leads %d; it may have at most %d teams and lead only these",
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

// maxVerified is the maximum number of tokens that a Verifier remembers, and maxRemembered the maximum length of one.
const (
	maxVerified   = 2048
	maxRemembered = 4 << 10
)

// Verifier verifies caller tokens. Each service has one. It remembers tokens whose signature it has verified, because
// gateways use a token for many requests. It checks at each use that the token has not expired and its key is still
// valid.
type Verifier struct {
	format Format
	clk    clock.Clock
	keys   *Keys

	mu       sync.Mutex
	verified map[string]verified
}

// verified is the content of a verified token, and the time at which the token's signature was verified.
type verified struct {
	caller      *Caller
	keyID       string
	at, expires time.Time
}

// NewVerifier returns a Verifier that accepts signatures of the valid keys.
func NewVerifier(clk clock.Clock, keys *Keys) *Verifier {
	return &Verifier{format: CallerFormat(), clk: clk, keys: keys, verified: map[string]verified{}}
}

// Verify checks a token and returns its caller and its expiry. The caller must not be modified.
func (v *Verifier) Verify(ctx context.Context, token string) (*Caller, time.Time, error) {
	now := v.clk.Now()
	if known, ok := v.known(token, now); ok {
		if _, err := v.keys.Find(ctx, known.keyID); err == nil {
			return known.caller, known.expires, nil
		}
	}
	c := &Caller{}
	std, err := v.format.Verify(ctx, v.keys, now, token, c)
	if err != nil {
		return nil, time.Time{}, err
	}
	c.Subject = std.Subject
	if err := c.check(); err != nil {
		return nil, time.Time{}, refuse(err)
	}
	v.remember(token, verified{caller: c, keyID: std.KeyID, at: now, expires: std.Expires})
	return c, std.Expires, nil
}

// known returns a token that was verified before and has not expired.
func (v *Verifier) known(token string, now time.Time) (verified, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.verified[token]
	return known, ok && !now.Before(known.at) && now.Before(known.expires)
}

// remember stores a verified token. A full map is emptied, which costs little, because no token lives longer than a
// minute.
func (v *Verifier) remember(token string, known verified) {
	if len(token) > maxRemembered {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.verified) >= maxVerified {
		clear(v.verified)
	}
	v.verified[token] = known
}

// check validates the fields required by the caller's kind. Agents and services authenticate with certificates, so no
// token may contain these kinds.
func (c *Caller) check() error {
	switch c.Kind {
	case KindNone:
		if c.Subject != "" || c.Role != "" || len(c.Projects)+len(c.Teams)+len(c.LeadOf) > 0 {
			return errors.New("a caller without a credential must not have a subject, a role, projects or teams")
		}
		return nil
	case KindUser:
		if c.Subject == "" || (c.Role != RoleOperator && c.Role != RoleAdmin) {
			return errors.New("a user must have a subject and the role operator or admin")
		}
		return nil
	case KindIngest:
		if c.RunID == "" || c.Role != "" {
			return errors.New("an ingest caller must have a run and must not have a role")
		}
		return nil
	case KindDeployment:
		if c.DeploymentID == "" || c.Role != "" {
			return errors.New("a deployment caller must have a deployment and must not have a role")
		}
		return nil
	case KindAgent, KindService:
		return errors.New("agents and services authenticate with certificates, not tokens")
	default:
		return errors.New("unknown kind of caller")
	}
}
