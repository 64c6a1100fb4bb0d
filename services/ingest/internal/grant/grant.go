// Package grant owns what an ingest token opens: it finds the attempt behind a token, remembers the answer
// for a moment, and judges what the attempt may still report. Only hashes of tokens are kept.
package grant

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// Grant is the attempt that a token belongs to.
type Grant struct {
	Owner     run.Owner
	Attempt   int32
	Container bool
	Current   bool
	Withhold  bool // the run reads a protected dataset: its samples' texts are not kept
	EndedAt   *time.Time
	ExpiresAt time.Time
}

// grace is how long after the end of a run its last attempt may still deliver.
const grace = 15 * time.Minute

// May says whether the attempt may still report anything but its lifecycle.
func (g *Grant) May(now time.Time) error {
	if !g.Current {
		return fault.New(fault.Conflict, "attempt_replaced", "attempt %d was replaced: its reports are not taken any more", g.Attempt)
	}
	if g.EndedAt != nil && now.Sub(*g.EndedAt) > grace {
		return fault.New(fault.Conflict, "run_closed", "the run ended more than 15 minutes ago: it takes no more reports")
	}
	return nil
}

// Run says whether a request may name the run.
func (g *Grant) Run(runID string) error {
	if runID != g.Owner.RunID {
		return fault.New(fault.Forbidden, "run_mismatch", "the token is for another run")
	}
	return nil
}

// Checker finds grants.
type Checker struct {
	cache *cache
	clock clock.Clock
}

// NewChecker makes a checker. resolve asks jobs, and keeps the run's row before it answers.
func NewChecker(clk clock.Clock, resolve func(ctx context.Context, hash []byte) (*Grant, error)) *Checker {
	return &Checker{cache: newCache(clk, resolve), clock: clk}
}

// HeaderToken is the header that carries a token beside Authorization.
const HeaderToken = "X-Service-Token"

// Check answers the grant of a request's token.
func (c *Checker) Check(ctx context.Context, h http.Header) (*Grant, error) {
	token, err := credential(h)
	if err != nil {
		return nil, err
	}
	hash, ok := secret.Parse(secret.KindIngest, token)
	if !ok {
		return nil, unauthenticated("the credential is no ingest token")
	}
	g, err := c.cache.get(ctx, [32]byte(hash))
	if err != nil {
		return nil, err
	}
	if !g.ExpiresAt.IsZero() && !c.clock.Now().Before(g.ExpiresAt) {
		return nil, unauthenticated("the ingest token has expired")
	}
	return g, nil
}

// credential reads the token from either header; two that differ are none.
func credential(h http.Header) (string, error) {
	own, bearer := h.Values(HeaderToken), h.Values("Authorization")
	if len(own) > 1 || len(bearer) > 1 {
		return "", unauthenticated("a credential was given more than once")
	}
	var found []string
	if len(own) == 1 {
		found = append(found, strings.TrimSpace(own[0]))
	}
	if len(bearer) == 1 {
		scheme, token, _ := strings.Cut(bearer[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", unauthenticated("want a bearer token")
		}
		found = append(found, strings.TrimSpace(token))
	}
	switch {
	case len(found) == 0:
		return "", unauthenticated("Not authenticated")
	case len(found) == 2 && found[0] != found[1]:
		return "", unauthenticated("two different credentials were given")
	}
	return found[0], nil
}

func unauthenticated(msg string) error {
	return fault.New(fault.Unauthenticated, "ingest_token", "%s", msg)
}
