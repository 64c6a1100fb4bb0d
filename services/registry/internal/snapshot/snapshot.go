// Package snapshot sends the replicas of inference what to serve and until when they may serve it. A replica gets the
// complete state with each change. A renewed lease is never sent before the snapshot that was current when the lease was
// granted.
package snapshot

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deploytoken"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// whole is the complete state of one epoch.
type whole struct {
	epoch       int64
	deployments []*deployment.Deployment
	revisions   map[string]*revision.Revision   // by ID
	tokens      map[string][]*deploytoken.Token // by deployment ID
}

// reader reads the complete state from the database.
type reader struct {
	pool      *pgxpool.Pool
	store     *deployment.Store
	revisions *revision.Store
	tokens    deploytoken.Store
}

// read reads the epoch and all rows in one consistent view of the database.
func (r *reader) read(ctx context.Context) (*whole, error) {
	w := &whole{revisions: map[string]*revision.Revision{}, tokens: map[string][]*deploytoken.Token{}}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pg.InTxWith(ctx, r.pool, opts, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if w.epoch, err = epoch.Current(ctx, tx); err != nil {
			return err
		}
		if w.deployments, err = r.store.All(ctx, tx); err != nil {
			return err
		}
		revisions, err := r.revisions.Promoted(ctx, tx)
		if err != nil {
			return err
		}
		for _, rev := range revisions {
			w.revisions[rev.ID] = rev
		}
		tokens, err := r.tokens.Live(ctx, tx)
		for _, t := range tokens {
			w.tokens[t.DeploymentID] = append(w.tokens[t.DeploymentID], t)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read a snapshot: %w", err)
	}
	return w, nil
}
