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

// Holder is a service that copies the visibility of projects into its rows.
type Holder struct {
	Name string
	// Client is nil if the service is not connected.
	Client commonpeerv1.OwnerPeerServiceClient
}

// VisibilitySync sends the visibility of projects to the services that copy it. A change of visibility writes a row
// in project_visibility_change for each service, in the same transaction. The row is deleted when the service has
// confirmed the visibility: during the call that made the change, when the call is repeated, or during Sweep.
// Services ignore versions that are older than their own, so a visibility may be sent again and may arrive out of
// order.
type VisibilitySync struct {
	Pool    *pgxpool.Pool
	Clock   clock.Clock
	Holders []Holder
}

const (
	// confirmWithin limits the wait for one service. Finish stops waiting at the time confirmAhead before the caller's
	// deadline. This leaves time for the response, which names the services that did not confirm.
	confirmWithin = 20 * time.Second
	confirmAhead  = time.Second
	// sweepLimit is the maximum number of deliveries to a service in one sweep.
	sweepLimit = 500
)

// pending is a visibility that a service has not confirmed.
type pending struct {
	ProjectID  string
	Visibility string
	Version    int64
}

// begin records in tx, the transaction of the change, that every service must confirm the visibility.
func (c *VisibilitySync) begin(ctx context.Context, tx pgx.Tx, p Project) error {
	names := make([]string, 0, len(c.Holders))
	for _, h := range c.Holders {
		names = append(names, h.Name)
	}
	return beginCopies(ctx, tx, p, names)
}

// Finish sends the project's visibility, in parallel, to every service that has not confirmed it, and waits for all of
// them. If some did not confirm it, the error names them. The change remains in effect, and Sweep sends it again.
func (c *VisibilitySync) Finish(ctx context.Context, projectID string) error {
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
		"project %s has the new visibility, but %s did not apply it to existing items yet; the update is retried automatically; repeat the request to wait for it",
		projectID, strings.Join(names, " and ")).Wrap(errors.Join(failed...))
}

// Sweep sends pending visibilities to their services, those with the oldest attempt first. If an attempt fails, the
// other visibilities for that service wait for the next sweep.
func (c *VisibilitySync) Sweep(ctx context.Context) error {
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

func (c *VisibilitySync) deliver(ctx context.Context, h Holder, p pending) error {
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

// ahead returns a context that ends confirmAhead earlier than ctx.
func ahead(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-confirmAhead))
}
