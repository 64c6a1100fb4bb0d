// Package ingesttoken owns the permissions of ingest tokens. It finds the attempt of a token, caches the result for a
// few seconds, and decides what the attempt may still report. Only hashes of tokens are stored.
package ingesttoken

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/artifact"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// Grant is the attempt that a token belongs to.
type Grant struct {
	Owner     run.Owner
	Attempt   int32
	Container bool
	Current   bool
	// Withhold is what a protected run may report. It is nil if the run is not protected.
	Withhold *report.Disclosure
	// ResumeStep is the step of the checkpoint with which the platform started the attempt, or nil.
	ResumeStep *int64
	// Keeping states which checkpoints of the run are kept. It is nil if all are.
	Keeping   *artifact.Keeping
	EndedAt   *time.Time
	ExpiresAt time.Time
}

// Fence returns an error if the attempt may report nothing new but lifecycle events: if it has ended, or if the run has
// ended. What it has reported before may be repeated.
func (g *Grant) Fence() error {
	if err := g.Replaced(); err != nil {
		return err
	}
	if g.EndedAt != nil {
		return groupcommit.Closed()
	}
	return nil
}

// Replaced returns an error if a newer attempt has replaced the attempt, or will.
func (g *Grant) Replaced() error {
	if g.Current {
		return nil
	}
	return fault.New(fault.Conflict, groupcommit.CodeReplaced, "attempt %d has ended or was replaced, and can no longer report", g.Attempt)
}

// Run returns an error if the token is not for the run.
func (g *Grant) Run(runID string) error {
	if runID != g.Owner.RunID {
		return fault.New(fault.Forbidden, "run_mismatch", "the token is for another run")
	}
	return nil
}

// Checker finds the grants of requests.
type Checker struct {
	cache *cache
	clock clock.Clock
}

// NewChecker returns a checker. The function resolve gets the hash of a token. It must fetch the grant from the jobs
// service, and store the run's row before it returns.
func NewChecker(clk clock.Clock, resolve func(ctx context.Context, hash []byte) (*Grant, error)) *Checker {
	return &Checker{cache: newCache(clk, resolve), clock: clk}
}

// HeaderToken is the header that can carry a token, as an alternative to Authorization.
const HeaderToken = "X-Service-Token"

// Check returns the grant of the token in a request's headers. It returns an Unauthenticated fault if the headers
// have no valid token. It returns all other errors of resolve unchanged.
func (c *Checker) Check(ctx context.Context, h http.Header) (*Grant, error) {
	token, err := credential(h)
	if err != nil {
		return nil, err
	}
	hash, ok := secret.Parse(secret.KindIngest, token)
	if other := secret.Credential(token); !ok && other != "" {
		return nil, unauthenticated("this route expects an ingest token, not " + other)
	}
	if !ok {
		return nil, unauthenticated("the credential is not an ingest token")
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

// credential reads the token from either header. If both headers are present, they must contain the same token.
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
			return "", unauthenticated("the Authorization header must hold a bearer token")
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
