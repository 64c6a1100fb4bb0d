package project

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Holder is a service whose rows repeat the visibility of their projects.
type Holder struct {
	Name string
	// Client is nil where the service is not connected.
	Client commonpeerv1.OwnerPeerServiceClient
}

// Copies brings the visibilities of projects to the services that repeat them. What a service has not
// confirmed stands in project_visibility_change, written with the change itself: it is brought there by the
// call that made the change, by its repeat, or by Sweep. Services keep the newest version that they hear of,
// so that deliveries may be repeated and may overtake each other.
type Copies struct {
	Pool    *pgxpool.Pool
	Clock   clock.Clock
	Holders []Holder
}

const (
	// confirmWithin bounds the wait for one service, confirmAhead is what is left of the caller's time to
	// tell him who did not confirm.
	confirmWithin = 20 * time.Second
	confirmAhead  = time.Second
	// sweepLimit bounds a round of a service.
	sweepLimit = 500
)

// pending is a service that has not confirmed the present visibility of a project.
type pending struct {
	ProjectID  string
	Visibility string
	Version    int64
}

// begin notes, with the change, that every service must follow it.
func (c *Copies) begin(ctx context.Context, tx pgx.Tx, p Project) error {
	names := make([]string, 0, len(c.Holders))
	for _, h := range c.Holders {
		names = append(names, h.Name)
	}
	return beginCopies(ctx, tx, p, names)
}

// Finish brings the project's visibility to every service that has not confirmed it, to all at once, and
// answers once they have. The ones that did not are named; the change stands, and Sweep goes on.
func (c *Copies) Finish(ctx context.Context, projectID string) error {
	ctx, cancel := ahead(ctx)
	defer cancel()
	failed := make([]error, len(c.Holders))
	var wg sync.WaitGroup
	for i, h := range c.Holders {
		wg.Go(func() {
			open, err := openCopy(ctx, c.Pool, h.Name, projectID)
			if err == nil && open != nil {
				err = c.deliver(ctx, h, *open)
			}
			failed[i] = err
		})
	}
	wg.Wait()
	var names []string
	for i, err := range failed {
		if err != nil {
			names = append(names, c.Holders[i].Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "visibility_pending",
		"project %s is changed, but not yet what was made in it before: %s did not confirm it; this is done as soon as possible, and a repeat of the request waits for it",
		projectID, strings.Join(names, " and ")).Wrap(errors.Join(failed...))
}

// Sweep brings what is pending to its services, the longest untried first. A service that fails is left alone
// for this round.
func (c *Copies) Sweep(ctx context.Context) error {
	failed := make([]error, 0, len(c.Holders))
	for _, h := range c.Holders {
		open, err := openCopies(ctx, c.Pool, h.Name, sweepLimit)
		for _, p := range open {
			if err != nil {
				break
			}
			err = c.deliver(ctx, h, p)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (c *Copies) deliver(ctx context.Context, h Holder, p pending) error {
	if err := triedCopy(ctx, c.Pool, h.Name, p.ProjectID, c.Clock.Now()); err != nil {
		return err
	}
	if h.Client == nil {
		return fault.New(fault.Unavailable, "peer_missing", "the service %s is not connected", h.Name)
	}
	cctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	_, err := h.Client.SetProjectVisibility(cctx, &commonpeerv1.SetProjectVisibilityRequest{
		ProjectId: p.ProjectID, Visibility: p.Visibility, Version: p.Version,
	})
	if err != nil {
		return fault.New(fault.Unavailable, "visibility_pending", "%s did not confirm the visibility of project %s", h.Name, p.ProjectID).Wrap(err)
	}
	return endCopy(ctx, c.Pool, h.Name, p)
}

// ahead ends a little before ctx does.
func ahead(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-confirmAhead))
}
