// Package snapshot sends each replica of inference the state that it serves, and the time until which it may serve that
// state. A replica receives the complete state when it connects, and afterwards only what has changed. Both are sent in
// messages of bounded size and read from the database in pages, so that neither the number of deployments nor that of
// tokens has a limit. A renewed lease is never sent before the state that was current when the lease was granted.
//
// The pages of a complete state are not read in one transaction: a row that changes meanwhile may be sent in its old or
// its new state. Its change has a later epoch, so the row is sent again with the changes that follow the pages, before
// the replica uses any of the pages.
package snapshot

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deploytoken"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// pageRows is the maximum number of rows that one statement reads.
const pageRows = 500

// reader reads the served state from the database.
type reader struct {
	pool      *pgxpool.Pool
	store     *deployment.Store
	revisions *revision.Store
	tokens    deploytoken.Store
}

// all sends every deployment and every live token.
func (r *reader) all(ctx context.Context, to *outbox) error {
	err := pages(func(after string) (last string, n int, err error) {
		found, err := r.deployments(ctx, func(ctx context.Context, tx pgx.Tx) ([]*deployment.Deployment, error) {
			return r.store.After(ctx, tx, after, pageRows)
		})
		for _, d := range found {
			if err := to.deployment(d); err != nil {
				return "", 0, err
			}
			last = d.GetId()
		}
		return last, len(found), err
	})
	if err != nil {
		return err
	}
	return pages(func(after string) (last string, n int, err error) {
		found, err := r.tokens.Live(ctx, r.pool, after, pageRows)
		for _, t := range found {
			if err := to.token(t); err != nil {
				return "", 0, err
			}
			last = t.ID
		}
		return last, len(found), err
	})
}

// pages calls page with the last id of the previous page until a page has fewer than pageRows rows.
func pages(page func(after string) (last string, n int, err error)) error {
	after, n := "", pageRows
	for n == pageRows {
		var err error
		if after, n, err = page(after); err != nil {
			return err
		}
	}
	return nil
}

// changed sends the current state of the given rows, which have changed.
func (r *reader) changed(ctx context.Context, c epoch.Changes, to *outbox) error {
	for ids := range slices.Chunk(c.Deployments, pageRows) {
		if err := r.changedDeployments(ctx, ids, to); err != nil {
			return err
		}
	}
	for ids := range slices.Chunk(c.Tokens, pageRows) {
		found, err := r.tokens.ByIDs(ctx, r.pool, ids)
		if err != nil {
			return err
		}
		for _, t := range found {
			if err := to.token(t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) changedDeployments(ctx context.Context, ids []string, to *outbox) error {
	found, err := r.deployments(ctx, func(ctx context.Context, tx pgx.Tx) ([]*deployment.Deployment, error) {
		return r.store.ByIDs(ctx, tx, ids)
	})
	if err != nil {
		return err
	}
	kept := make(map[string]bool, len(found))
	for _, d := range found {
		kept[d.GetId()] = true
		if err := to.deployment(d); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if kept[id] {
			continue
		}
		if err := to.deleted(id); err != nil {
			return err
		}
	}
	return nil
}

// deployments reads deployments and their promoted revisions in one consistent view of the database.
func (r *reader) deployments(
	ctx context.Context, read func(ctx context.Context, tx pgx.Tx) ([]*deployment.Deployment, error),
) (out []*registrypeerv1.ServedDeployment, err error) {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTxWith(ctx, r.pool, opts, func(ctx context.Context, tx pgx.Tx) error {
		out = nil
		found, err := read(ctx, tx)
		if err != nil {
			return err
		}
		var promoted []string
		for _, d := range found {
			if d.PromotedID != nil {
				promoted = append(promoted, *d.PromotedID)
			}
		}
		revisions, err := r.revisions.ByIDs(ctx, tx, promoted)
		if err != nil {
			return err
		}
		byID := make(map[string]*revision.Revision, len(revisions))
		for _, rev := range revisions {
			byID[rev.ID] = rev
		}
		for _, d := range found {
			out = append(out, deploymentToProto(d, byID))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read deployments for a snapshot: %w", err)
	}
	return out, nil
}
